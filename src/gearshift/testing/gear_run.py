"""One run of a pipeline in one gear: the first half of the values, then the second, on the pipeline's real supervisor."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gearshift.freshness import Gear
from gearshift.pipelines.context import Context
from gearshift.pipelines.ledger.checkpoint import flat
from gearshift.pipelines.supervisor import Supervisor
from gearshift.pipelines.verification import await_working
from gearshift.schemas import Registry
from gearshift.testing.arrival import halves
from gearshift.testing.sessions import Sessions
from gearshift.topics import DeadLetters, Producer

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

# Seconds that a real-time batch gets to read what was sent, at first and after it was ended too early some times.
_READS_WITHIN, _READS_AT_LAST_WITHIN = 0.3, 5.0
_LOOK_EVERY = 0.02


class GearRun:
    """A pipeline in one gear, which is the only one of its graph; `run` returns when all values are processed."""

    def __init__(
        self,
        context: Context,
        values: Mapping[str, Sequence[Any]],
        registry: Registry,
        letters: DeadLetters,
        sessions: Sessions,
    ) -> None:
        """`values` are by the name of the parameter that takes the topic."""
        [pipeline] = context.graph.pipelines.values()
        self.gear = pipeline.gear
        self.context = context
        self.pipeline = pipeline
        self._registry = registry
        self._sessions = sessions
        self._parts = {topic.name: (topic, halves(values[name])) for name, topic in pipeline.topics.items()}
        self._closing = threading.Event()
        self._supervisor = Supervisor(context, pipeline, registry, letters)
        sessions.follow(context.query_name(pipeline), self._supervisor.on_progress)

    @property
    def progress(self) -> str:
        """How far it is, in words."""
        done = sum(run.records for run in self._supervisor.ledger.runs)
        total = sum(len(part) for _, parts in self._parts.values() for part in parts)
        return f"{done} of {total} records were processed" if total else "its batch has not ended"

    def run(self) -> None:
        """Process the values; raises the pipeline's failure."""
        self._supervisor.recorder.open()
        for number in range(2 if self._has_second_half() else 1):
            self._send(number)
            with self._supervisor.lock:
                if self.gear is Gear.BATCH or number == 0:
                    self._supervisor.start(self.gear, "test")
            if self.gear is Gear.NEAR_REAL_TIME:
                self._await_batches()
            elif self.gear is Gear.REAL_TIME:
                self._await_records()

    def close(self) -> None:
        """Stop the query and settle the ledger, with its dead letters."""
        self._closing.set()
        self._supervisor.close()
        self._sessions.unfollow(self.context.query_name(self.pipeline))

    def _has_second_half(self) -> bool:
        return any(second for _, (_, second) in self._parts.values())

    def _send(self, number: int) -> None:
        with Producer(self.context.connection, self._registry) as producer:
            for topic, parts in self._parts.values():
                for value in parts[number]:
                    if isinstance(value, bytes):
                        producer.send_bytes(topic.name, value)
                    else:
                        producer.send(topic, value)

    def _await_batches(self) -> None:
        """Wait until Spark finds nothing more to do, which includes the batch that a moved watermark makes."""
        while True:
            query = self._supervisor.query
            assert query is not None
            try:
                query.processAllAvailable()
                return
            except Exception as error:
                failure = self._supervisor.explain(error)
                if not self._supervisor.resume(query, failure):
                    raise failure from error

    def _await_records(self) -> None:
        """Wait until every record is in a committed batch; the open one is ended once it may have read them."""
        supervisor, pause = self._supervisor, _READS_WITHIN
        ends = self.context.admin.end_offsets([topic.name for topic, _ in self._parts.values()])
        while True:
            await_working(supervisor)
            query = supervisor.query
            assert query is not None
            read = supervisor.condition.progress_of(query)
            offsets = flat(read.ends) if read is not None else {}
            if all(offsets.get(partition, 0) >= end for partition, end in ends.items()):
                return
            # Whether a batch has read a record is not known before it ends. One that was ended too early has read
            # none, and the next one gets more time.
            if self._await_tasks(query):
                self._closing.wait(pause)
                pause = min(2 * pause, _READS_AT_LAST_WITHIN)
                with supervisor.ended_batch():
                    pass

    def _await_tasks(self, query: StreamingQuery) -> bool:
        """Wait until the tasks of the open batch run, which then read; False if the query has ended."""
        while query.isActive:
            if self._supervisor.holds_slots(query):
                return True
            self._supervisor.condition.wait(_LOOK_EVERY)
        return False
