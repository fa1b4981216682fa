"""The versions of the tables that a query joins to its stream, and when to take up newer ones."""

from __future__ import annotations

import logging
import time

from gearshift import tables
from gearshift.definitions import Pipeline
from gearshift.errors import GearshiftError
from gearshift.pipelines.context import Context

log = logging.getLogger(__name__)

_CHECK_MISSING_EVERY = 1.0


class JoinedTables:
    """The table sources of one pipeline.

    Spark reads the static side of a join as it was when the query started. So tables are checked once per `refresh`,
    and the query restarts if their rows or columns have changed.
    """

    def __init__(self, context: Context, pipeline: Pipeline) -> None:
        self._uris = {table.name: context.table_uri(table) for table in pipeline.tables.values()}
        self._pipeline = pipeline
        self._versions: dict[str, int] = {}
        self._missing: str | None = None
        self._check_at = 0.0

    def missing(self) -> str | None:
        """A table that does not exist yet; checks at most once a second."""
        if self._missing is None or time.monotonic() >= self._check_at:
            self._check_at = time.monotonic() + _CHECK_MISSING_EVERY
            self._missing = next((name for name, uri in self._uris.items() if not tables.exists(uri)), None)
        return self._missing

    def read(self) -> dict[str, int]:
        """The newest version of each table, by name, for a query that starts now."""
        self._versions = {name: tables.newest_version(uri) for name, uri in self._uris.items()}
        self._check_at = time.monotonic() + self._pipeline.refresh.total_seconds()
        return dict(self._versions)

    def changed(self) -> list[str]:
        """The tables that have changed since they were read; checks at most once per `refresh`."""
        if not self._versions or time.monotonic() < self._check_at:
            return []
        try:
            found = [name for name, v in self._versions.items() if tables.changed_since(self._uris[name], v)]
        except GearshiftError as error:
            log.warning(
                "%s: %s; the query continues with the versions it has read", self._pipeline.name, error
            )
            found = []
        if not found:  # otherwise it checks again until the query has restarted with the new versions
            self._check_at = time.monotonic() + self._pipeline.refresh.total_seconds()
        return found
