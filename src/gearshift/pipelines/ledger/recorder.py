"""Records a pipeline's batches: in the ledger, their corrupt records as dead letters, and their offsets in Kafka."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime

from gearshift.definitions import Pipeline, Topic
from gearshift.errors import GearshiftError, QueryError
from gearshift.freshness import Gear
from gearshift.gearbox.measurements import Hold
from gearshift.pipelines.context import Context
from gearshift.pipelines.dead_letters.backlog import Backlog
from gearshift.pipelines.dead_letters.pending import Pending, between
from gearshift.pipelines.ledger.checkpoint import flat
from gearshift.pipelines.ledger.decisions import Decided
from gearshift.pipelines.ledger.ledger import Batch, Ledger, Run
from gearshift.pipelines.ledger.mirror import Mirror
from gearshift.pipelines.ledger.reconciliation import (
    describe_restored_checkpoint,
    rebuild,
    reconcile,
    require_checkpoint,
)
from gearshift.pipelines.ledger.scalings import Scaling
from gearshift.pipelines.listener import Progress
from gearshift.pipelines.query import Versions
from gearshift.pipelines.records.replays import count_of_batch, count_replays
from gearshift.spark.jobs import Tasks
from gearshift.spark.private import Py4JError
from gearshift.storage.folders import Folder, open_folder
from gearshift.storage.lease import Fenced
from gearshift.topics import DeadLetters

log = logging.getLogger(__name__)

_LATE_REPORTS = 2.0  # seconds: Spark reports a batch shortly after it commits it
_CLOSE_WITHIN = 30.0


class Recorder:
    """The ledger of one pipeline and the two threads that write it.

    One thread records batches and is fast, since a shift waits for it. The other does the slow work: dead letters and
    mirrored offsets. Dead letters that cannot be written are retried later and do not block others.
    """

    def __init__(self, context: Context, pipeline: Pipeline, letters: DeadLetters) -> None:
        folder: Folder = open_folder(context.folder_of(pipeline))
        # Intervals may run concurrently, also in other processes: each has its own file.
        self._lease = context.lease if pipeline.intervals is None else None
        if self._lease is not None:
            folder = Fenced(folder, self._lease)
        self.ledger = Ledger(folder, context.graph.app, pipeline.name)
        self._context = context
        self._pipeline = pipeline
        self._tasks = Tasks(context.spark, pipeline.name)
        self._lock = threading.RLock()
        self.letters = Backlog(context, pipeline, letters, self.ledger, self._lock)
        self._reports: queue.Queue[Progress | None] = queue.Queue()
        self._mirror = Mirror(pipeline.name, self._commit_offsets)
        self._rows: dict[int, tuple[int | None, int]] = {}
        self._changed = threading.Condition(self._lock)
        self._closing = False
        self._threads = [
            threading.Thread(target=self._record_all, name=f"ledger {pipeline.name}", daemon=True),
            threading.Thread(target=self._follow, name=f"dead letters {pipeline.name}", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def versions(self) -> Versions:
        """The schema versions with which the topics are read."""
        return self.letters.versions

    @versions.setter
    def versions(self, versions: Versions) -> None:
        with self._changed:
            self.letters.versions = versions
            self._changed.notify_all()

    def note_rows(self, batch_id: int, rows: int, invalid: int = 0) -> None:
        """Take the number of rows that a batch wrote to a table and set aside, which Spark's report lacks."""
        self._rows[batch_id] = rows, invalid

    def report(self, progress: Progress) -> None:
        """Take a batch's report; returns at once."""
        self._reports.put(progress)

    def close(self) -> None:
        """Record all pending reports and stop."""
        self._reports.put(None)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=_CLOSE_WITHIN)
        self.letters.close()

    def require_lease(self) -> None:
        """Raise if another runner has taken the checkpoint."""
        if self._lease is not None:
            self._lease.require()

    def open(self) -> None:
        """Reconcile the ledger with Spark's logs before the first query starts."""
        if not self._pipeline.topics:
            self.settle()
            return
        require_checkpoint(self.ledger)
        if rebuild(self.ledger, self._pipeline.gear):
            log.warning(
                "%s: the ledger was missing and has been rebuilt from Spark's logs; earlier history is unknown",
                self._pipeline.name,
            )
        lag = describe_restored_checkpoint(self.ledger)
        if lag is not None:
            log.warning(
                "%s: %s; the records written since then will be written again", self._pipeline.name, lag
            )
        self.settle()

    def begin(
        self,
        gear: Gear,
        why: str,
        tables: Mapping[str, int] | None = None,
        numbers: Mapping[str, float] | None = None,
    ) -> Run:
        """Record a new run, after the previous one is settled."""
        with self._lock:
            stamped = self._context.stamps(self._pipeline, gear)
            run = self.ledger.begin(
                gear,
                self._pipeline.gear,
                why,
                datetime.now(UTC),
                stamped=stamped,
                schemas=self.letters.ids,
                tables=tables,
                numbers=numbers,
            )
            self.letters.note_versions(run.number)
            return run

    def decide(self, decided: Decided) -> None:
        """Record a decision of the gearbox."""
        with self._lock:
            self.ledger.decide(decided)

    def hold(self, hold: Hold | None) -> None:
        """Record a person's shift, or that the gearbox decides again."""
        with self._lock:
            self.ledger.hold = hold
            self.ledger.save()

    def scale(self, scaling: Scaling) -> None:
        """Record a scaling that begins or ended, with the batch by which Spark has moved the state."""
        with self._lock:
            reconcile(self.ledger)
            self.ledger.scale(scaling)

    def settle(self, error: str | None = None) -> None:
        """Finish the ledger for a stopped query: wait for late reports and reconcile with Spark's logs."""
        deadline = time.monotonic() + _LATE_REPORTS
        while time.monotonic() < deadline:
            committed = self.ledger.checkpoint.committed()
            self._reports.join()
            known = self.ledger.recent[-1].id if self.ledger.recent else -1
            if known >= (committed[-1] if committed else -1):
                break
            time.sleep(0.02)
        with self._changed:
            if self._pipeline.topics:  # Spark logs no batches over tables
                reconcile(self.ledger)
            self.ledger.end(datetime.now(UTC), error)
            self._changed.notify_all()

    def count_misread(self, since_ms: int, why: str) -> None:
        """Count what a stopped query wrote to a topic since a time as written twice."""
        if not isinstance(self._pipeline.target, Topic):
            return  # a table did not take it
        with self._lock:
            count = self.ledger.count_misread(since_ms, why)
        if count:
            log.warning("%s: up to %d records are written again: %s", self._pipeline.name, count, why)

    def mark(
        self,
        run: Run,
        *,
        pause: float | None = None,
        paused_for: str | None = None,
        verified: bool = False,
    ) -> None:
        """Record the pause of a run and whether it is verified."""
        with self._lock:
            if pause is not None:
                run.pause, run.paused_for = pause, paused_for
            run.verified = run.verified or verified
            self.ledger.save()

    def await_batch(self, run: Run, since_ms: int) -> None:
        """Record that a batch outside Spark's streaming begins to write, until `add` records it."""
        with self._lock:
            run.pending_ms = since_ms
            self.ledger.save()

    def count_replays(self) -> int:
        """Count the replays of every ended run that has no count yet; returns their sum."""
        total = 0
        for run in self.ledger.runs[:-1]:
            if run.replayed is None:
                target = self._pipeline.target
                counted = 0
                if isinstance(target, Topic):  # a table takes each batch once
                    counted = count_replays(
                        self._context.connection, self._context.admin, self._pipeline.name, target, run
                    )
                with self._lock:
                    run.replayed = counted
                    self.ledger.save()
                total += counted
        return total

    def report_uncommitted(self) -> None:
        """Log how many records of the interrupted batch will be written again."""
        target, run = self._pipeline.target, self.ledger.last
        if not isinstance(target, Topic) or run is None:
            return
        try:
            found = count_replays(
                self._context.connection, self._context.admin, self._pipeline.name, target, run
            )
        except GearshiftError as error:
            log.warning(
                "%s: stopped inside a batch; cannot count the records that will be written again: %s",
                self._pipeline.name,
                error,
            )
            return
        if found:
            log.warning(
                "%s: stopped inside a batch; %d records will be written to %s again at the next start",
                self._pipeline.name,
                found,
                target.name,
            )

    def add(self, batch: Batch) -> None:
        """Record a batch that ran outside Spark's streaming: a full read of tables."""
        self._warn_invalid(batch)
        with self._lock:
            self.ledger.runs[-1].pending_ms = None
            self.ledger.add(batch)

    def _record_all(self) -> None:
        while (report := self._reports.get()) is not None:
            try:
                self._record(report)
            except Exception:
                log.exception("%s: failed to record batch %d", self._pipeline.name, report.batch_id)
            finally:
                self._reports.task_done()
        self._reports.task_done()

    def _record(self, progress: Progress) -> None:
        written, invalid = self._rows.pop(progress.batch_id, (progress.written, progress.invalid))
        batch = Batch(
            id=progress.batch_id,
            timestamp_ms=progress.settled_ms,
            starts=progress.starts or self.ledger.checkpoint.first_offsets(),
            ends=progress.ends,
            records=progress.records,
            written=written,
            dead=sum(corrupt.count for corrupt in progress.corrupt.values()),
            invalid=invalid,
            retried=self._count_retried(progress),
        )
        self._warn_invalid(batch)
        with self._changed:
            if self.ledger.add(batch, self._observed(batch, progress)):
                self._changed.notify_all()

    def _warn_invalid(self, batch: Batch) -> None:
        if batch.invalid:
            rows = "1 row" if batch.invalid == 1 else f"{batch.invalid} rows"
            log.warning(
                '%s: %s of the result set aside in %s; see "gearshift dlq list"',
                self._pipeline.name,
                rows,
                self._pipeline.target.dead_letters,
            )

    def _observed(self, batch: Batch, progress: Progress) -> list[Pending]:
        """The ranges of offsets in which the batch had corrupt records."""
        found: list[Pending] = []
        for name, corrupt in progress.corrupt.items():
            topic = self._pipeline.topics[name].name
            starts, ends = batch.starts.get(topic, {}), batch.ends.get(topic, {})
            found.append(
                Pending(
                    batch=batch.id,
                    topic=topic,
                    ranges=between(starts, ends, (corrupt.first, corrupt.last + 1)),
                    observed=corrupt.count,
                    since_ms=int(progress.began.timestamp() * 1000),
                    fresh=True,
                )
            )
        return found

    def _count_retried(self, progress: Progress) -> int:
        """Count the records of failed task attempts; the batch reports only those of the last attempts."""
        target, run = self._pipeline.target, self.ledger.runs[-1]
        if not isinstance(target, Topic):
            return 0  # a table commits the files of the last attempts only
        failed = 0
        try:
            failed = self._tasks.count_failed(f"runId = {progress.run_id}\nbatch = {progress.batch_id}")
            if not failed:
                return 0
            if progress.written is None:
                raise QueryError("Spark did not report the number of records in the batch")
            found = count_of_batch(
                self._context.connection,
                self._context.admin,
                self._pipeline.name,
                target,
                run,
                int(progress.began.timestamp() * 1000),
                progress.settled_ms,
            )
        except (GearshiftError, Py4JError) as error:
            run.at_least = True
            run.note = (
                f"{failed or 'some'} tasks of batch {progress.batch_id} may have been retried, and the records written "
                f"twice could not be counted: {error}"
            )
            return 0
        retried = max(0, found - progress.written)
        words = "%s: Spark retried %d tasks of batch %d, which wrote %d records twice"
        log.warning(words, self._pipeline.name, failed, progress.batch_id, retried)
        return retried

    def _follow(self) -> None:
        while True:
            with self._changed:
                while (entry := self.letters.next_entry(closing=self._closing)) is None and (
                    not self._mirror.is_due(self.ledger.last_batch, closing=self._closing)
                ):
                    if self._closing:
                        return
                    due = min(
                        (at for at in (self.letters.due, self._mirror.due) if at is not None), default=None
                    )
                    self._changed.wait(None if due is None else max(0.05, due - time.monotonic()))
                newest, closing = self.ledger.last_batch, self._closing
            if self._mirror.is_due(newest, closing=closing):
                self._mirror.commit(newest, closing=closing)
            if entry is not None:
                self.letters.write(entry)

    def _commit_offsets(self) -> None:
        if self._pipeline.topics:
            self._context.admin.mirror_group(self._context.query_name(self._pipeline), flat(self.ledger.ends))
