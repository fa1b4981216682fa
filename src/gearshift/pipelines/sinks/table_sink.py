"""Writes the micro-batches of a query to a table."""

from __future__ import annotations

import threading
from functools import partial

from pyspark.sql import DataFrame

from gearshift import tables
from gearshift.definitions import Pipeline, Table
from gearshift.errors import ContinuityError, RunnerError, StorageError, TableError
from gearshift.pipelines.check.continuity import Continuity
from gearshift.pipelines.context import Context
from gearshift.pipelines.ledger.recorder import Recorder
from gearshift.pipelines.sinks.table_rows import BatchOfRows, write_valid


class TableSink:
    """The sink of one start of a query, which can be stopped between two batches.

    Spark interrupts a batch that is inside a Python call with a dump of its threads. So `close` waits for the batch in
    progress, and later batches are rejected.
    """

    def __init__(
        self,
        context: Context,
        pipeline: Pipeline,
        continuity: Continuity,
        recorder: Recorder,
        *,
        sets_aside: bool,
    ) -> None:
        self.error: TableError | ContinuityError | StorageError | RunnerError | None = None
        """Why a batch was not written: Spark reports it in the middle of a traceback."""
        self._context = context
        self._pipeline = pipeline
        self._continuity = continuity
        self._recorder = recorder
        self._sets_aside = sets_aside
        self._lock = threading.Lock()
        self._closed = False

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write a batch; Spark calls this."""
        with self._lock:
            if self._closed:
                raise InterruptedError("the query is stopping")
            try:
                self._write(frame, batch_id)
            except (TableError, ContinuityError, StorageError, RunnerError) as error:
                error.pipeline = self._pipeline.name
                self.error = error
                raise

    def close(self) -> None:
        """Wait for the batch in progress and reject later ones."""
        with self._lock:
            self._closed = True

    def _require_ours(self) -> None:
        """Raise if the batch must not be committed: its topics were recreated, or another runner has the checkpoint."""
        self._continuity.require_same_topics()
        self._recorder.require_lease()

    def _write(self, frame: DataFrame, batch_id: int) -> None:
        target = self._pipeline.target
        assert isinstance(target, Table)
        uri, writer, invalid = self._context.table_uri(target), self._continuity.writer, 0

        def write(rows: DataFrame) -> tables.Commit:
            how = partial(tables.upsert, in_order=True) if target.key else tables.append
            return how(
                target,
                uri,
                rows,
                writer=writer,
                batch_id=batch_id,
                before_commit=self._require_ours,
            )

        if self._sets_aside:
            logged = self._recorder.ledger.checkpoint.batch(batch_id)
            batch = BatchOfRows(name=f"{writer}/{batch_id}", since_ms=logged.timestamp_ms if logged else 0)
            done, invalid = write_valid(self._context, self._pipeline, target, frame, write, batch)
        else:
            done = write(frame)
        self._recorder.note_rows(batch_id, done.rows, invalid)
        self._context.publisher.publish(target)
