"""What a query learns while it runs: new schema ids, a source that began again, rows to set aside.

A query that meets one of these stops with an error that names it, and is restarted at once with what it needs.
"""

from __future__ import annotations

import re

from gearshift import tables
from gearshift.definitions import Pipeline, Table, Topic
from gearshift.errors import GearshiftError, InvalidRowsError
from gearshift.pipelines.context import Context
from gearshift.pipelines.ledger.recorder import Recorder
from gearshift.pipelines.query import Versions
from gearshift.pipelines.records.debezium import BEGINS_AGAIN
from gearshift.pipelines.records.schema_ids import KnownSchemas
from gearshift.schemas import Registry


class Adaptation:
    """What the next start of one pipeline's query needs, beyond its declaration."""

    def __init__(self, context: Context, pipeline: Pipeline, registry: Registry, recorder: Recorder) -> None:
        self.sets_aside = False
        """Whether rows that the table cannot hold are separated from the others."""
        self._context = context
        self._pipeline = pipeline
        self._registry = registry
        self._recorder = recorder
        self._schemas = KnownSchemas(context, pipeline, registry)
        self._since = 0

    def versions(self) -> Versions:
        """The schema versions with which the topics are read now."""
        return self._schemas.read(self._since)

    def target_schema(self) -> int | None:
        """The schema id of the records to write; None for a table."""
        target = self._pipeline.target
        return self._registry.register(target) if isinstance(target, Topic) else None

    def adapt(self, failure: GearshiftError) -> str | None:
        """Take up what the query stopped for and return why it restarts; None if it just failed."""
        if self._begins_again(failure):
            return f"the source began again at {self._since}"
        if self._begins_to_set_aside(failure):
            return "invalid rows are set aside"
        self._schemas.refuse(self._recorder.letters.unknown_ids)
        return self._schemas.learn(failure)

    def newly_registered(self) -> str | None:
        """Why to restart: a schema id that was unknown when first met has been registered since."""
        found = self._schemas.find_registered()
        return f"schema id {found}" if found is not None else None

    def _begins_again(self, failure: GearshiftError) -> bool:
        """Make the table forget the rows before a truncate or a new snapshot, if the query stopped for one."""
        found = re.search(rf"{BEGINS_AGAIN}=(\d+);", str(failure))
        target = self._pipeline.target
        if found is None or not isinstance(target, Table):
            return False
        tables.forget_before(target, self._context.table_uri(target), int(found[1]))
        self._since = int(found[1])
        return True

    def _begins_to_set_aside(self, failure: GearshiftError) -> bool:
        """Separate the rows that the table cannot hold from now on, if the query stopped for one."""
        if (
            self.sets_aside
            or not isinstance(failure, InvalidRowsError)
            or self._pipeline.intervals is not None
        ):
            return False
        self.sets_aside = self._pipeline.on_invalid == "dead-letter"
        return self.sets_aside
