"""Keeps one pipeline running in its gear: starts, stops, restarts and shifts its query."""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from gearshift import tables
from gearshift.definitions import Pipeline, Table, Topic
from gearshift.errors import ContinuityError, GearshiftError, QueryError, RunnerError, TableError
from gearshift.freshness import Gear
from gearshift.pipelines import engine as engines
from gearshift.pipelines.books import Books
from gearshift.pipelines.changes import BEGINS_ANEW
from gearshift.pipelines.continuity import Continuity
from gearshift.pipelines.engine import Engine, Gate
from gearshift.pipelines.failures import explain
from gearshift.pipelines.interval_schedule import IntervalSchedule
from gearshift.pipelines.known_schemas import KnownSchemas
from gearshift.pipelines.ledger import Stretch
from gearshift.pipelines.listener import Progress
from gearshift.pipelines.table_batches import enter, run_over_tables
from gearshift.pipelines.tasks import Tasks
from gearshift.schemas import Registry
from gearshift.topics import DeadLetters

log = logging.getLogger(__name__)

_LONGEST_BACKOFF = 60.0
_SILENT_FOR = 2.0  # seconds a real-time query must run before silence counts as health
_WORKS_WITHIN = 60.0
_BATCH_ENDS_WITHIN = 10.0
_NO_SLOT = "CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT"
_SLOT_FREE_WITHIN = 0.2


@dataclass(slots=True)
class Condition:
    """How a pipeline is, for people to see."""

    state: str = "starting"
    error: str | None = None
    progress: Progress | None = None
    next_run: datetime | None = None
    restarts: int = 0


class Driver:
    """One pipeline in a running app."""

    def __init__(self, engine: Engine, pipeline: Pipeline, registry: Registry, letters: DeadLetters) -> None:
        self.engine = engine
        self.pipeline = pipeline
        self.books = Books(engine, pipeline, letters)
        self.continuity = Continuity(engine, pipeline, self.books.ledger)
        self.gear = self.books.ledger.gear_to_run(pipeline.gear)
        self.condition = Condition()
        self.lock = threading.RLock()
        self.query: StreamingQuery | None = None
        self.stretch: Stretch | None = None
        self._registry = registry
        self._schemas = KnownSchemas(engine, pipeline, registry)
        self._since = 0
        self._refused_by_table: TableError | None = None
        self._gate = Gate()
        self._tasks = Tasks(engine.spark, pipeline.name)
        self._progressed = threading.Condition()
        self._stopping = threading.Event()
        self._backoff_until = 0.0
        self._backoff = 1.0
        self._schedule = IntervalSchedule(engine, pipeline) if pipeline.intervals is not None else None
        self._thread = threading.Thread(target=self._supervise, name=f"driver {pipeline.name}", daemon=True)

    @property
    def is_streaming(self) -> bool:
        """Whether Spark reads at least one topic; otherwise each run reads tables in full."""
        return bool(self.pipeline.topics)

    @property
    def late_rows(self) -> int | None:
        """Rows of intervals that were closed for good when they came, which are in no result."""
        return self._schedule.too_late if self._schedule is not None else None

    # life

    def open(self, why: str = "run") -> None:
        """Go on where the ledger ends, and keep going."""
        with self.lock:
            self.books.versions = self._schemas.read(self._since)
            self.books.open()
            if self.gear is Gear.BATCH:
                self.condition.state = "waiting"
            else:
                try:
                    self.start(self.gear, why)
                except ContinuityError as error:  # the other pipelines run
                    self._back_off(error)
        self._thread.start()

    def close(self) -> None:
        """Stop at the end of the batch under way; if it does not come soon, in its middle, and say what that costs."""
        self._stopping.set()
        if not self.lock.acquire(timeout=0.5):  # a batch is running, or a shift waits for the end of one
            self._interrupt()
            self.lock.acquire()
        try:
            with self.ended_batch() as ended:
                self.halt()
            if not ended:
                self.books.report_uncommitted()
            self.condition.state = "stopped"
        finally:
            self.lock.release()
        if self._thread.is_alive():
            self._thread.join(timeout=30)
        self.books.close()

    def start(self, gear: Gear, why: str) -> Stretch:
        """Start the query in a gear; a batch runs to its end before this returns."""
        if self._stopping.is_set():
            raise RunnerError("the runner is stopping", hint="start it again", pipeline=self.pipeline.name)
        self.continuity.require()
        self.gear = gear
        self.books.versions = self._schemas.read(self._since)
        self._gate = Gate()
        self._refused_by_table = None
        stretch = self.stretch = self.books.begin(gear, why)
        self.condition.state, self.condition.error = "running", None
        try:
            if self.is_streaming:
                self.query = self._start_query(stretch)
            if gear is Gear.BATCH:
                self._run_batch(stretch)
        except Exception as error:
            failure = self.explain(error)
            try:
                answer = self._answer(failure)
            except GearshiftError as unanswered:
                failure, answer = unanswered, None
            self.halt(None if answer else str(failure))
            if answer:
                return self.start(gear, answer)
            raise failure from error
        return stretch

    @contextmanager
    def ended_batch(self) -> Generator[bool]:
        """Bring the batch under way to its end, and let no other write until this is left; whether it ended in time."""
        query, endings = self.query, self.engine.endings
        if query is None or not query.isActive or self.gear is Gear.BATCH:
            yield True
            return
        if self.gear is Gear.NEAR_REAL_TIME:
            yield not query.status["isTriggerActive"] or self._await_end(query)
            return
        with ExitStack() as left:
            ended = False
            if endings is not None and endings.works:
                left.enter_context(endings.ending(self.engine.groups_of(self.pipeline)))
                ended = self._await_end(query)
            if not ended:
                left.close()  # it is read on until it is stopped
            yield ended

    def _await_end(self, query: StreamingQuery) -> bool:
        """Wait for the report of a batch that ended after this was called."""
        run_id, now_ms, until = str(query.runId), time.time() * 1000, time.monotonic() + _BATCH_ENDS_WITHIN
        latest, after = self.condition.progress, -1
        if latest is not None and latest.run_id == run_id:
            after = latest.batch_id
        while (found := self.wait_for_progress(run_id, until, after=after)) is not None:
            if found.settled_ms >= now_ms:
                return True
            after = found.batch_id
        return False

    def await_calendar(self) -> None:
        """Go back to batch without running one: the calendar says when."""
        self.gear = Gear.BATCH
        self._rest()

    def halt(self, error: str | None = None) -> None:
        """Stop the query, between the batches of a table, and settle the books."""
        query, self.query = self.query, None
        if query is not None:
            self._gate.close()
            query.stop()
            self._tasks.await_end(str(query.runId))
        if self.stretch is not None and self.stretch.ended is None:
            self.books.settle(error)

    def _interrupt(self) -> None:
        query = self.query
        if query is not None:
            self._gate.close()
            query.stop()
        else:
            self._tasks.cancel()

    # what Spark reports

    def on_progress(self, progress: Progress) -> None:
        """Take a batch's report, in Spark's event thread."""
        self.condition.progress = progress
        self.books.report(progress)
        with self._progressed:
            self._progressed.notify_all()

    def wait_for_progress(self, run_id: str, until: float, *, after: int = -1) -> Progress | None:
        """The next report of this run on a batch after a number, if it comes in time and the query lives."""
        with self._progressed:
            while time.monotonic() < until:
                latest = self.condition.progress
                if latest is not None and latest.run_id == run_id and latest.batch_id > after:
                    return latest
                if self.query is None or not self.query.isActive:
                    return None
                self._progressed.wait(0.05)
        return None

    def boundary(self) -> datetime | None:
        """When the real-time batch under way ends, as far as can be said."""
        if self.gear is not Gear.REAL_TIME or self.query is None or self.stretch is None:
            return None
        latest = self.condition.progress
        began = self.stretch.began
        if latest is not None and latest.run_id == str(self.query.runId):
            began = latest.began + latest.took
        return began + self.engine.settings.checkpoint_interval

    def await_working(self) -> float:
        """Wait until the query that was just started computes, and say when that was; raise what it failed with.

        In real-time it computes once all its tasks run, in near-real-time once a batch is through or
        there is nothing to do; a batch has run before `start` returns.
        """
        query = self.query
        until = time.monotonic() + _WORKS_WITHIN
        while self.gear is not Gear.BATCH and query is not None:
            if not query.isActive or time.monotonic() > until:
                failure = self._failure(query) or QueryError(
                    f"the query does not compute in {self.gear} after {_WORKS_WITHIN:.0f} s",
                    hint="see the Spark log for what it waits for",
                    pipeline=self.pipeline.name,
                )
                if self._resume(query, failure):
                    query = self.query
                    continue
                # The check has counted the slots: those that lack are held by the batch of another pipeline.
                if self.stretch is None or _NO_SLOT not in failure.what or time.monotonic() > until:
                    raise failure
                time.sleep(_SLOT_FREE_WITHIN)
                query = self.query = self._start_query(self.stretch)
            latest = self.condition.progress
            if latest is not None and latest.run_id == str(query.runId):
                break
            if (
                self._tasks.hold_their_slots(str(query.runId))
                if self.gear is Gear.REAL_TIME
                else _is_idle(query)
            ):
                break
            with self._progressed:
                self._progressed.wait(0.02)
        return time.monotonic()

    def verify(self) -> float:
        """Wait until a started query is seen to work, and say since when.

        In real-time a first record must come out, or none for a while: what would make it fail comes at once.
        """
        before = self._written() if self.gear is Gear.REAL_TIME else 0
        since = self.await_working()
        query = self.query
        while self.gear is Gear.REAL_TIME and query is not None:
            if not query.isActive:
                failure = self._failure(query) or QueryError(
                    "the query ended at once", pipeline=self.pipeline.name
                )
                if not self._resume(query, failure):
                    raise failure
                query = self.query
                continue
            if self._written() > before or time.monotonic() - since > _SILENT_FOR:
                break
            with self._progressed:
                self._progressed.wait(0.05)
        return since

    def explain(self, error: BaseException) -> GearshiftError:
        """An exception of this pipeline's query, in a sentence."""
        return self._refused_by_table or explain(error, self.pipeline)

    def _start_query(self, stretch: Stretch) -> StreamingQuery:
        return engines.start(
            self.engine,
            self.pipeline,
            stretch.gear,
            versions=self.books.versions,
            stamp=stretch.number if stretch.stamped else None,
            schema_id=self._target_schema(),
            on_batch=self._write_table,
        )

    # supervision

    def _supervise(self) -> None:
        while not self._stopping.wait(0.1):
            changed = self.continuity.changed() if self.query is not None else None
            with self.lock:
                if self._stopping.is_set():
                    return
                try:
                    if changed is not None:
                        self.halt(str(changed))
                        raise changed
                    self._look_after()
                except Exception as error:
                    if self._stopping.is_set():
                        return
                    self._back_off(self.explain(error))

    def _look_after(self) -> None:
        if time.monotonic() < self._backoff_until:
            return
        try:
            self.books.require_lease()
        except RunnerError:
            self.stretch = None  # whoever has the checkpoint now keeps its ledger
            self._interrupt()
            raise
        if self.gear is Gear.BATCH:
            if self._is_due(datetime.now(UTC)):
                self.start(Gear.BATCH, "calendar")
                self.books.count_replays()
                self._backoff = 1.0
            return
        if self.query is None:
            self.start(self.gear, "restart")
        elif not self.query.isActive:
            self._recover(self.query)
        elif self.condition.progress and self.condition.progress.run_id == str(self.query.runId):
            self._backoff = 1.0
            if self.stretch is not None and not self.stretch.verified:
                self.books.mark(self.stretch, verified=True)
            self._read_registered()
        if self.stretch is not None and any(s.replayed is None for s in self.books.ledger.stretches[:-1]):
            self.books.count_replays()
        if self.condition.state == "failed":  # what failed was beside the query, and works again
            self.condition.state, self.condition.error = "running", None

    def _recover(self, query: StreamingQuery) -> None:
        failure = self._failure(query)
        if failure is not None and self._resume(query, failure):
            return
        self.halt(str(failure) if failure else "the query ended by itself")
        self.condition.restarts += 1
        raise failure or QueryError(
            "the query ended by itself", hint="it is started again", pipeline=self.pipeline.name
        )

    def _resume(self, query: StreamingQuery, failure: GearshiftError) -> bool:
        """Start again at once a query that stopped only to ask something; whether one runs again."""
        with self.lock:
            if self.query is not query:
                return self.query is not None  # another thread was faster
            answer = self._answer(failure)
            if answer is None:
                return False
            self.halt()
            self.condition.restarts += 1
            self.start(self.gear, answer)
            return True

    def _answer(self, failure: GearshiftError) -> str | None:
        """Answer what a query stopped for, and say why it starts again; None if it just failed."""
        if self._begins_anew(failure):
            return f"the source began anew at {self._since}"
        self._schemas.refuse(self.books.unknown_ids)
        return self._schemas.learn(failure)

    def _begins_anew(self, failure: GearshiftError) -> bool:
        """Let the table forget what was before a truncate or a new snapshot; whether this is why the query stopped."""
        found = re.search(rf"{BEGINS_ANEW}=(\d+);", str(failure))
        target = self.pipeline.target
        if found is None or not isinstance(target, Table):
            return False
        tables.forget_before(target, self.engine.table_uri(target), int(found[1]))
        self._since = int(found[1])
        return True

    def _read_registered(self) -> None:
        """Read a schema id that was garbage when it was first met, if the registry has given it out since."""
        if (id_ := self._schemas.find_registered()) is not None:
            self.halt()
            self.start(self.gear, f"schema id {id_}")

    def _back_off(self, failure: GearshiftError) -> None:
        if isinstance(failure, ContinuityError):
            self.condition.state, self.condition.error = "stopped", str(failure)
            self._backoff_until = math.inf
            log.error("%s", failure)
            return
        self.condition.state, self.condition.error = "failed", str(failure)
        self._backoff_until = time.monotonic() + self._backoff
        log.error("%s; trying again in %.0f s", failure, self._backoff)
        self._backoff = min(self._backoff * 2, _LONGEST_BACKOFF)

    def _is_due(self, now: datetime) -> bool:
        missing = [
            t.name for t in self.pipeline.tables.values() if not tables.exists(self.engine.table_uri(t))
        ]
        if missing:
            self.condition.next_run, self.condition.state = now, f"waiting for table {missing[0]}"
            return False
        if self._schedule is not None:
            due = self._schedule.next_run(now)
            if not self.engine.settings.scheduler:
                self.condition.next_run, self.condition.state = None, "left to gearshift batch run"
                return False
        else:
            runs = [s.began for s in self.books.ledger.stretches if s.gear is Gear.BATCH and s.verified]
            zone = ZoneInfo(self.engine.graph.timezone)
            due = self.pipeline.calendar.next_run(runs[-1], zone) if runs else now
        self.condition.next_run = due
        if due > now:
            self._rest()
        return due <= now

    def _rest(self) -> None:
        """Show how a batch pipeline is between its runs: intervals that failed are tried again later."""
        error = self._schedule.error if self._schedule is not None else None
        self.condition.state, self.condition.error = "failed" if error else "waiting", error

    # running

    def _run_batch(self, stretch: Stretch) -> None:
        if self.query is not None:
            self.query.awaitTermination()
        else:
            with self._tasks.tagged():
                self._run_over_tables(stretch)
        if self._stopping.is_set():
            raise RunnerError(
                "the runner stopped in the middle of a batch", hint="the next run does it again"
            )
        self.books.mark(stretch, verified=True)
        self.query = None
        self.books.settle(self._schedule.error if self._schedule is not None else None)
        self._rest()

    def _run_over_tables(self, stretch: Stretch) -> None:
        if self._schedule is None:
            schema_id = self._target_schema()
            run_over_tables(self.engine, self.pipeline, stretch, self.books, self._tasks, schema_id=schema_id)
            return
        for entry in self._schedule.run(datetime.now(UTC), self._stopping):
            enter(
                self.books,
                ends={each.table: {0: each.version} for each in entry.inputs.values()},
                records=sum(each.rows for each in entry.inputs.values()),
                written=entry.rows,
            )

    def _write_table(self, frame: DataFrame, batch_id: int) -> None:
        target = self.pipeline.target
        assert isinstance(target, Table)
        with self._gate.batch():
            write = tables.upsert if target.key else tables.append
            try:
                done = write(
                    target,
                    self.engine.table_uri(target),
                    frame,
                    writer=self.continuity.writer,
                    batch_id=batch_id,
                )
                self.books.note_rows(batch_id, done.rows)
                self.engine.publisher.publish(target)
            except TableError as error:
                error.pipeline = self.pipeline.name
                self._refused_by_table = error  # Spark passes on its text, in the middle of a traceback
                raise

    def _target_schema(self) -> int | None:
        target = self.pipeline.target
        return self._registry.register(target) if isinstance(target, Topic) else None

    def _written(self) -> int:
        target = self.pipeline.target
        if not isinstance(target, Topic):
            return 0
        return sum(self.engine.admin.end_offsets([target.name]).values())

    def _failure(self, query: StreamingQuery) -> GearshiftError | None:
        error: StreamingQueryException | None = query.exception()
        return self.explain(error) if error is not None else None


def _is_idle(query: StreamingQuery) -> bool:
    status = query.status
    return not status["isDataAvailable"] and not status["isTriggerActive"] and "Waiting" in status["message"]
