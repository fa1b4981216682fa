"""Keeps one pipeline running in its gear: starts, stops and restarts its query."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime

from pyspark.sql.streaming.query import StreamingQuery

from gearshift.calendars import Interval
from gearshift.definitions import Pipeline
from gearshift.errors import BrokerUnreachableError, ContinuityError, GearshiftError, QueryError, RunnerError
from gearshift.freshness import Gear
from gearshift.pipelines.adapting import Adaptation
from gearshift.pipelines.backoff import Backoff
from gearshift.pipelines.calendar_runs import CalendarRuns
from gearshift.pipelines.check.continuity import Continuity
from gearshift.pipelines.condition import Condition
from gearshift.pipelines.context import Context
from gearshift.pipelines.failures import FINAL, explain
from gearshift.pipelines.ledger.recorder import Recorder
from gearshift.pipelines.ledger.runs import Run
from gearshift.pipelines.listener import Progress
from gearshift.pipelines.parallelism import Parallelism
from gearshift.pipelines.query import QueryBuilder
from gearshift.pipelines.records.joined_tables import JoinedTables
from gearshift.pipelines.sinks.table_sink import TableSink
from gearshift.pipelines.table_runs import TableRuns
from gearshift.schemas import Registry
from gearshift.spark.jobs import Tasks
from gearshift.topics import DeadLetters

log = logging.getLogger(__name__)


class Supervisor:
    """One pipeline in a running app; `state` is what its plan keeps from batch to batch."""

    def __init__(
        self,
        context: Context,
        pipeline: Pipeline,
        registry: Registry,
        letters: DeadLetters,
        *,
        state: tuple[str, ...] | None = None,
    ) -> None:
        self.context = context
        self.pipeline = pipeline
        self.recorder = Recorder(context, pipeline, letters)
        self.ledger = self.recorder.ledger
        self.parallelism = Parallelism(context, pipeline, self.recorder)
        self.continuity = Continuity(context, pipeline, self.ledger, state)
        self.gear = self.ledger.gear_to_run(pipeline.gear)
        self.condition = Condition()
        self.lock = threading.RLock()
        self.query: StreamingQuery | None = None
        self.run: Run | None = None
        self._builder = QueryBuilder(context, pipeline)
        self._adaptation = Adaptation(context, pipeline, registry, self.recorder)
        self._calendar = CalendarRuns(context, pipeline, self.ledger)
        self._tables = JoinedTables(context, pipeline)
        self._tasks = Tasks(context.spark, pipeline.name)
        self._table_runs = TableRuns(
            context=context,
            pipeline=pipeline,
            recorder=self.recorder,
            tasks=self._tasks,
            calendar=self._calendar,
            builder=self._builder,
            adaptation=self._adaptation,
        )
        self._backoff = Backoff()
        self._sink = self._new_sink()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._supervise, name=f"supervisor {pipeline.name}", daemon=True
        )

    @property
    def late_rows(self) -> int | None:
        """Rows that arrived after their interval was closed for good and so are in no result."""
        return self._calendar.late_rows

    @property
    def intervals_in_progress(self) -> tuple[Interval, ...]:
        """The interval that is running, and the requested ones that wait."""
        return self._calendar.in_progress

    def run_interval(self, start: datetime) -> Interval:
        """Run the interval that begins at `start` next, again if it has run; returns before it runs."""
        return self._calendar.request(start)

    # Starting and stopping

    def open(self, why: str = "run", numbers: Mapping[str, float] | None = None) -> None:
        """Resume where the ledger ends, and keep the pipeline running."""
        with self.lock:
            self.parallelism.settle()
            self.recorder.versions = self._adaptation.versions()
            self.recorder.open()
            if self.gear is Gear.BATCH:
                self.condition.state = "waiting"
            elif not self._waits_for_table():
                try:
                    self.start(self.gear, why, numbers)
                except ContinuityError as error:  # the other pipelines run
                    self._back_off(error)
        self._thread.start()

    def close(self) -> None:
        """Stop at the end of the batch in progress or, if it takes too long, inside it; then log what will be replayed."""
        self._stopping.set()
        if not self.lock.acquire(timeout=0.5):  # a batch is running, or a shift waits for the end of one
            self._interrupt()
            self.lock.acquire()
        try:
            with self.ended_batch() as ended:
                self.halt()
            if not ended:
                self.recorder.report_uncommitted()
            self.condition.state = "stopped"
        finally:
            self.lock.release()
        if self._thread.is_alive():
            self._thread.join(timeout=30)
        self.recorder.close()

    def start(self, gear: Gear, why: str, numbers: Mapping[str, float] | None = None) -> Run:
        """Start the query in a gear; a batch runs to its end before this returns.

        `numbers` are the measurements on which the gearbox decided it.
        """
        if self._stopping.is_set():
            raise RunnerError("the runner is stopping", hint="start it again", pipeline=self.pipeline.name)
        self.continuity.require()
        self.gear = gear
        run = self._begin(gear, why, numbers)
        self.condition.show("running")
        try:
            if self.pipeline.topics:
                self.start_query(run)
            if gear is Gear.BATCH:
                self._run_batch(run)
        except Exception as error:
            failure = self.explain(error)
            try:
                adapted = self._adaptation.adapt(failure)
            except GearshiftError as another:
                failure, adapted = another, None
            self.halt(None if adapted else str(failure))
            if adapted:
                return self.start(gear, adapted, numbers)
            raise failure from error
        return run

    def _begin(self, gear: Gear, why: str, numbers: Mapping[str, float] | None = None) -> Run:
        self.recorder.versions = self._adaptation.versions()
        self._sink = self._new_sink()
        versions = self._tables.read() if self.pipeline.intervals is None else {}
        self.run = self.recorder.begin(gear, why, versions, numbers)
        return self.run

    def finish_batch(self) -> None:
        """Run the batch that was planned when the query stopped to its end."""
        self.start_query(self._begin(self.gear, "finishing the planned batch"), once=True).awaitTermination()
        self.halt()

    def repartition(self, partitions: int) -> None:
        """Move the state of the stopped query to another number of shuffle partitions."""
        with self._tasks.tagged():
            self.parallelism.move(partitions)

    def start_query(self, run: Run, *, once: bool = False) -> StreamingQuery:
        """Start the query of a run, or start it again within the run; with `once` for the planned batch alone."""
        self.query = self._builder.start(
            run.gear,
            versions=self.recorder.versions,
            tables=run.tables,
            stamp=run.number if run.stamped else None,
            schema_id=self._adaptation.target_schema(),
            on_batch=self._sink.write,
            parallelism=self.parallelism.at_first,
            once=once,
        )
        return self.query

    def holds_slots(self, query: StreamingQuery) -> bool:
        """Whether all tasks of a real-time query run."""
        return self._tasks.hold_their_slots(str(query.runId))

    def halt(self, error: str | None = None) -> None:
        """Stop the query, between the batches of a table, and settle the ledger."""
        query, self.query = self.query, None
        if query is not None:
            self._sink.close()
            query.stop()
            self._tasks.await_end(str(query.runId))
        if self.run is not None and self.run.ended is None:
            self.recorder.settle(error)

    def await_calendar(self) -> None:
        """Return to the batch gear without running a batch: the calendar decides when."""
        self.gear = Gear.BATCH
        self._rest()

    @contextmanager
    def ended_batch(self) -> Generator[bool]:
        """End the batch in progress and let no other write inside this block; yields whether it ended in time."""
        query, endings = self.query, self.context.endings
        if query is None or not query.isActive or self.gear is Gear.BATCH:
            yield True
            return
        if self.gear is Gear.NEAR_REAL_TIME:
            yield not query.status["isTriggerActive"] or self.condition.wait_for_end_of_batch(query)
            return
        with ExitStack() as ending:
            ended = False
            if endings is not None and endings.works:
                ending.enter_context(endings.ending(self.context.groups_of(self.pipeline)))
                ended = self.condition.wait_for_end_of_batch(query)
            if not ended:
                ending.close()  # the query keeps reading until it is stopped
            yield ended

    def boundary(self) -> datetime | None:
        """When the real-time batch in progress is expected to end."""
        if self.gear is not Gear.REAL_TIME or self.query is None or self.run is None:
            return None
        latest = self.condition.progress_of(self.query)
        began = latest.began + latest.took if latest is not None else self.run.began
        return began + self.context.settings.checkpoint_interval

    def on_progress(self, progress: Progress) -> None:
        """Take a batch's report, in Spark's event thread."""
        self.recorder.report(progress)
        self.condition.report(progress)

    # Failures

    def explain(self, error: BaseException) -> GearshiftError:
        """An exception of this pipeline's query as one sentence."""
        return self._sink.error or explain(error, self.pipeline, self.context.connection)

    def failure_of(self, query: StreamingQuery) -> GearshiftError | None:
        """Why a query ended; None if it runs or was stopped."""
        error = query.exception()
        return self.explain(error) if error is not None else None

    def resume(self, query: StreamingQuery, failure: GearshiftError) -> bool:
        """Restart a query that stopped only to take something up; whether a query runs again."""
        with self.lock:
            if self.query is not query:
                return self.query is not None  # another thread was faster
            why = self._adaptation.adapt(failure)
            if why is None:
                return False
            self.halt()
            self.condition.restarts += 1
            self.start(self.gear, why)
            return True

    # Supervising

    def _supervise(self) -> None:
        while not self._stopping.wait(0.1):
            changed = self.continuity.changed() if self.query is not None else None
            with self.lock:
                if self._stopping.is_set():
                    return
                try:
                    if changed is not None:
                        self.halt(str(changed))
                        self.recorder.count_misread(self.continuity.same_until_ms, changed.what)
                        raise changed
                    self._check()
                except Exception as error:
                    if self._stopping.is_set():
                        return
                    self._back_off(self.explain(error))

    def _check(self) -> None:
        if self._backoff.is_waiting:
            return
        try:
            self.recorder.require_lease()
        except RunnerError:
            self.run = None  # the ledger now belongs to the runner that took the checkpoint
            self._interrupt()
            raise
        if self.gear is Gear.BATCH:
            if self._is_due(datetime.now(UTC)):
                self.start(Gear.BATCH, self._calendar.why)
                self.recorder.count_replays()
                self._backoff.reset()
            return
        if self.query is None:
            if self._waits_for_table():
                return
            self.start(self.gear, "restart")
        elif not self.query.isActive:
            self._recover(self.query)
        elif self.condition.progress_of(self.query) is not None:
            self._backoff.reset()
            if self.run is not None and not self.run.verified:
                self.recorder.mark(self.run, verified=True)
            if (why := self._adaptation.newly_registered()) is not None:
                self.halt()
                self.start(self.gear, why)
        self._take_up_tables()
        if self.run is not None and any(run.replayed is None for run in self.ledger.runs[:-1]):
            self.recorder.count_replays()
        if self.condition.state == "failed":  # the failure was outside the query, and is over
            self.condition.show("running")

    def _recover(self, query: StreamingQuery) -> None:
        failure = self.failure_of(query)
        if failure is not None and self.resume(query, failure):
            return
        self.halt(str(failure) if failure else "the query ended unexpectedly")
        with suppress(BrokerUnreachableError):
            self.continuity.require_same_topics()  # then that is why it ended, and a restart would not help
        self.condition.restarts += 1
        raise failure or QueryError("the query ended unexpectedly", pipeline=self.pipeline.name)

    def _take_up_tables(self) -> None:
        """Restart, between two batches, with the tables that have changed since the query started."""
        query = self.query
        if query is None or not query.isActive or not (changed := self._tables.changed()):
            return
        with self.ended_batch() as ended:
            if not ended and not self.condition.just_committed:
                return  # retried until a batch ends
            self.halt()
        self.start(self.gear, f"table {', '.join(changed)} changed")

    def _waits_for_table(self) -> bool:
        """Whether a table that the query joins does not exist yet."""
        if (missing := self._tables.missing()) is not None:
            self.condition.show(f"waiting for table {missing}")
        return missing is not None

    def _back_off(self, failure: GearshiftError) -> None:
        if isinstance(failure, FINAL):
            self.condition.show("stopped", str(failure))
            self._backoff.stop()
            log.error("%s", failure)
            return
        self.condition.show("failed", str(failure))
        log.error("%s; retrying in %.0f s", failure, self._backoff.fail())

    def _is_due(self, now: datetime) -> bool:
        if self._waits_for_table():
            self.condition.next_run = now
            return False
        if self._calendar.has_requests:
            return True
        due = self._calendar.next_run(now)
        if self._calendar.is_external:
            self.condition.next_run, self.condition.state = None, "left to gearshift batch run"
            return False
        self.condition.next_run = due
        if due > now:
            self._rest()
        return due <= now

    def _rest(self) -> None:
        """Show the state of a batch pipeline between its runs."""
        error = self._calendar.error
        self.condition.show("failed" if error else "waiting", error)

    # Running

    def _new_sink(self) -> TableSink:
        sets_aside = self._adaptation.sets_aside
        return TableSink(self.context, self.pipeline, self.continuity, self.recorder, sets_aside=sets_aside)

    def _run_batch(self, run: Run) -> None:
        if self.query is not None:
            self.query.awaitTermination()
        else:
            self._table_runs.run(run, self._stopping)
        if self._stopping.is_set():
            raise RunnerError("the runner stopped inside a batch", hint="the next run repeats it")
        self.recorder.mark(run, verified=True)
        self.query = None
        self.recorder.settle(self._calendar.error)
        self._rest()

    def _interrupt(self) -> None:
        query = self.query
        if query is not None:
            self._sink.close()
            query.stop()
        else:
            self._tasks.cancel()
