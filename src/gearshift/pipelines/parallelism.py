"""The number of shuffle partitions in which a pipeline keeps its state: the checkpoint has it, Spark changes it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from gearshift.definitions import Graph, Pipeline
from gearshift.pipelines.context import Context
from gearshift.pipelines.ledger.checkpoint import Checkpoint
from gearshift.pipelines.ledger.ledger import SPARK
from gearshift.pipelines.ledger.recorder import Recorder
from gearshift.settings import Settings
from gearshift.spark import private
from gearshift.spark.session import default_parallelism
from gearshift.storage.folders import open_folder
from gearshift.storage.location import spark_path

log = logging.getLogger(__name__)


class Parallelism:
    """The shuffle partitions of one pipeline in a running app."""

    def __init__(self, context: Context, pipeline: Pipeline, recorder: Recorder) -> None:
        self._context = context
        self._pipeline = pipeline
        self._recorder = recorder
        self._checkpoint = recorder.ledger.checkpoint
        self.number = self._read()
        """How many there are, or will be with the first batch."""

    @property
    def at_first(self) -> int | None:
        """The number that the next start begins a new checkpoint with; None if the checkpoint has one."""
        return None if self._checkpoint.planned() else self.number

    @property
    def warning(self) -> str | None:
        """What to do if the declared number is not the checkpoint's."""
        return difference(self._pipeline, self.number)

    def move(self, partitions: int) -> None:
        """Move the state of the stopped query; it is where it was if this raises."""
        location = spark_path(f"{self._context.folder_of(self._pipeline)}/{SPARK}")
        self._checkpoint.name_aggregations()
        try:
            private.repartition_state(self._context.spark, location, partitions)
        finally:
            self._discard()
            self.number = self._read()

    def settle(self) -> None:
        """Finish what a runner left that ended while it scaled: the state is in the old partitions or in the new ones."""
        self._discard()
        self.number = self._read()
        scaling = self._recorder.ledger.scaling
        if scaling is None:
            return
        moved = self.number == scaling.after
        error = None if moved else f"{self.number} again: the runner ended before the state was moved"
        self._recorder.scale(replace(scaling, ended=datetime.now(UTC), error=error))
        if not moved:
            name = self._pipeline.name
            log.warning("%s: %s; repeat gearshift scale %s %d", name, error, name, scaling.after)

    def _discard(self) -> None:
        batch = self._checkpoint.unfinished_repartition()
        if batch is not None:
            self._checkpoint.discard(batch)

    def _read(self) -> int:
        return self._checkpoint.partitions() or declared(self._pipeline, self._context.settings)


def declared(pipeline: Pipeline, settings: Settings) -> int:
    """The number with which a new checkpoint begins."""
    return pipeline.parallelism or default_parallelism(settings)


def difference(pipeline: Pipeline, number: int) -> str | None:
    """What to do if a pipeline declares another number than its checkpoint has."""
    if pipeline.parallelism in (None, number):
        return None
    return (
        f"declared parallelism={pipeline.parallelism}, the checkpoint has {number}: "
        f"run gearshift scale {pipeline.name} {pipeline.parallelism}"
    )


def in_checkpoint(pipeline: Pipeline, graph: Graph, settings: Settings) -> int | None:
    """The number in a pipeline's checkpoint; None before its first batch."""
    uri = f"{settings.checkpoints_uri}/{graph.app}/{pipeline.name}/{SPARK}"
    return Checkpoint(open_folder(uri)).partitions() if pipeline.topics else None


def largest(graph: Graph, settings: Settings) -> Mapping[str, int]:
    """The larger of each pipeline's number in the declaration and in the checkpoint, by name: the slots it may need."""
    return {
        name: max(declared(pipeline, settings), in_checkpoint(pipeline, graph, settings) or 0)
        for name, pipeline in graph.pipelines.items()
    }
