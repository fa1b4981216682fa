"""Keeps a pipeline's books: each batch goes into the ledger, its corrupt records to the dead letters, its offsets to Kafka."""

from __future__ import annotations

import logging
import queue
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime

from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]

from gearshift.definitions import Pipeline, Topic
from gearshift.errors import GearshiftError, QueryError
from gearshift.freshness import Gear
from gearshift.pipelines.checkpoint import flat, open_folder
from gearshift.pipelines.dead_letters import SetAside, set_aside
from gearshift.pipelines.engine import Engine, Versions
from gearshift.pipelines.lease import Lease, take
from gearshift.pipelines.ledger import Batch, Ledger, Stretch
from gearshift.pipelines.listener import Progress
from gearshift.pipelines.replays import count_of_batch, count_replays
from gearshift.pipelines.tasks import Tasks
from gearshift.topics import DeadLetters

log = logging.getLogger(__name__)

_LATE_REPORTS = 2.0  # seconds: Spark reports a batch soon after it commits it, but not before
_CLOSE_WITHIN = 30.0
_LONGEST_WAIT = 30.0


class Books:
    """The ledger of one pipeline, and the two threads that keep it.

    One enters reports, and is quick: a shift waits for it. The other follows with what takes time, the
    dead letters and the mirrored offsets, batch after batch, and tries again until a batch is done.
    """

    def __init__(self, engine: Engine, pipeline: Pipeline, letters: DeadLetters) -> None:
        folder = open_folder(engine.folder_of(pipeline))
        with ExitStack() as refused:
            if (
                pipeline.intervals is None
            ):  # runs of intervals may go side by side: each has a file of its own
                self._lease: Lease | None = take(folder, pipeline.name, home=engine.settings.home)
                refused.callback(self._lease.release)
            else:
                self._lease = None
            self.ledger = Ledger(folder, engine.graph.app, pipeline.name)
            refused.pop_all()
        self._versions: Versions = {}
        self._engine = engine
        self._pipeline = pipeline
        self._letters = letters
        self._tasks = Tasks(engine.spark, pipeline.name)
        self._lock = threading.RLock()
        self._reports: queue.Queue[tuple[Progress, Versions] | None] = queue.Queue()
        self._reported: dict[int, tuple[Progress, Versions]] = {}
        self.unknown_ids: frozenset[int] = frozenset()
        """Schema ids of the records that were set aside last which no registered version has."""
        self._rows: dict[int, int] = {}
        self._news = threading.Condition(self._lock)
        self._closing = False
        self._threads = [
            threading.Thread(target=self._enter_all, name=f"ledger {pipeline.name}", daemon=True),
            threading.Thread(target=self._follow, name=f"books {pipeline.name}", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def versions(self) -> Versions:
        """The schemas with which the topics are read."""
        return self._versions

    @versions.setter
    def versions(self, versions: Versions) -> None:
        with self._news:
            self._versions = versions
            self._news.notify_all()

    def note_rows(self, batch_id: int, rows: int) -> None:
        """Take how many rows of a batch went into a table, which Spark's report does not know."""
        self._rows[batch_id] = rows

    def report(self, progress: Progress) -> None:
        """Take a batch's report; returns at once."""
        self._reports.put((progress, self._versions))

    def close(self) -> None:
        """Finish what was reported and stop."""
        self._reports.put(None)
        with self._news:
            self._closing = True
            self._news.notify_all()
        for thread in self._threads:
            thread.join(timeout=_CLOSE_WITHIN)
        if self._lease is not None:
            self._lease.release()
            self._lease = None
        if self._behind():
            log.error("%s: dead letters of the last batches are left for the next run", self._pipeline.name)

    def require_lease(self) -> None:
        """Raise if another runner has the checkpoint by now."""
        if self._lease is not None:
            self._lease.require()

    def open(self) -> None:
        """Make the ledger agree with what Spark's logs say before the first query starts."""
        if not self._pipeline.topics:
            self.settle()
            return
        self.ledger.require_checkpoint()
        if self.ledger.rebuild(self._pipeline.gear):
            log.warning(
                "%s: there was no ledger; it was rebuilt from Spark's logs, and the history before is unknown",
                self._pipeline.name,
            )
        lag = self.ledger.describe_lag_of_checkpoint()
        if lag is not None:
            log.warning("%s: %s; what it had written since is written again", self._pipeline.name, lag)
        self.settle()

    def begin(self, gear: Gear, why: str) -> Stretch:
        """Write down that a stretch begins, after all that came before it is settled."""
        with self._lock:
            stamped = self._engine.stamps(self._pipeline, gear)
            return self.ledger.begin(gear, self._pipeline.gear, why, datetime.now(UTC), stamped=stamped)

    def settle(self, error: str | None = None) -> None:
        """Make the ledger final for a query that has stopped: late reports in, Spark's logs compared."""
        deadline = time.monotonic() + _LATE_REPORTS
        while time.monotonic() < deadline:
            committed = self.ledger.checkpoint.committed()
            self._reports.join()
            known = self.ledger.recent[-1].id if self.ledger.recent else -1
            if known >= (committed[-1] if committed else -1):
                break
            time.sleep(0.02)
        with self._news:
            if self._pipeline.topics:  # a batch over tables is in no log of Spark's
                self.ledger.reconcile()
            self.ledger.end(datetime.now(UTC), error)
            self._news.notify_all()

    def mark(
        self,
        stretch: Stretch,
        *,
        pause: float | None = None,
        paused_for: str | None = None,
        verified: bool = False,
    ) -> None:
        """Write down what became known of a stretch."""
        with self._lock:
            if pause is not None:
                stretch.pause, stretch.paused_for = pause, paused_for
            stretch.verified = stretch.verified or verified
            self.ledger.save()

    def await_batch(self, stretch: Stretch, since_ms: int) -> None:
        """Write down that a batch outside Spark's streaming begins to write; adding it ends this."""
        with self._lock:
            stretch.pending_ms = since_ms
            self.ledger.save()

    def count_replays(self) -> int:
        """Count the replays of every ended stretch that has no count yet; how many there were."""
        total = 0
        for stretch in self.ledger.stretches[:-1]:
            if stretch.replayed is None:
                target = self._pipeline.target
                counted = 0
                if isinstance(target, Topic):  # a table takes each batch once
                    counted = count_replays(
                        self._engine.connection, self._engine.admin, self._pipeline.name, target, stretch
                    )
                with self._lock:
                    stretch.replayed = counted
                    self.ledger.save()
                total += counted
        return total

    def report_uncommitted(self) -> None:
        """Say what the stretch that just ended wrote for a batch which will run again."""
        target, stretch = self._pipeline.target, self.ledger.last
        if not isinstance(target, Topic) or stretch is None:
            return
        try:
            found = count_replays(
                self._engine.connection, self._engine.admin, self._pipeline.name, target, stretch
            )
        except GearshiftError as error:
            log.warning(
                "%s: stopped in mid-batch; what is written again is not known: %s", self._pipeline.name, error
            )
            return
        if found:
            log.warning(
                "%s: stopped in mid-batch; %d records are written to %s again at the next start",
                self._pipeline.name,
                found,
                target.name,
            )

    def add(self, batch: Batch) -> None:
        """Write down a batch that ran outside Spark's streaming: a full read of tables."""
        with self._lock:
            self.ledger.stretches[-1].pending_ms = None
            self.ledger.add(batch)

    def _enter_all(self) -> None:
        while (report := self._reports.get()) is not None:
            try:
                self._enter(*report)
            except Exception:
                log.exception(
                    "%s: batch %d is not in the ledger yet", self._pipeline.name, report[0].batch_id
                )
            finally:
                self._reports.task_done()
        self._reports.task_done()

    def _enter(self, progress: Progress, versions: Versions) -> None:
        batch = Batch(
            id=progress.batch_id,
            timestamp_ms=progress.settled_ms,
            starts=progress.starts or self.ledger.checkpoint.first_offsets(),
            ends=progress.ends,
            records=progress.records,
            written=self._rows.pop(progress.batch_id, progress.written),
            dead=sum(corrupt.count for corrupt in progress.corrupt.values()),
            retried=self._count_retried(progress),
        )
        with self._news:
            if self.ledger.add(batch):
                self._reported[batch.id] = progress, versions
                self._news.notify_all()

    def _count_retried(self, progress: Progress) -> int:
        """How many records tasks wrote that Spark then ran again; the batch reports only those of the last attempts."""
        target, stretch = self._pipeline.target, self.ledger.stretches[-1]
        if not isinstance(target, Topic):
            return 0  # a table takes the files of the last attempts
        failed = 0
        try:
            failed = self._tasks.count_failed(f"runId = {progress.run_id}\nbatch = {progress.batch_id}")
            if not failed:
                return 0
            if progress.written is None:
                raise QueryError("Spark does not report how many records the batch has")
            found = count_of_batch(
                self._engine.connection,
                self._engine.admin,
                self._pipeline.name,
                target,
                stretch,
                int(progress.began.timestamp() * 1000),
                progress.settled_ms,
            )
        except (GearshiftError, Py4JError) as error:
            stretch.at_least = True
            stretch.note = (
                f"what Spark wrote twice in batch {progress.batch_id}, where {failed or 'some'} tasks may have run "
                f"again, is not counted: {error}"
            )
            return 0
        retried = max(0, found - progress.written)
        words = "%s: Spark ran %d tasks of batch %d again, which wrote %d records a second time"
        log.warning(words, self._pipeline.name, failed, progress.batch_id, retried)
        return retried

    def _behind(self) -> bool:
        """Whether a batch in the ledger has dead letters that were not looked after."""
        last = self.ledger.recent[-1].id if self.ledger.recent else -1
        return bool(self._pipeline.topics) and self.ledger.dead_through < last

    def _follow(self) -> None:
        wait, tried = 1.0, False
        while True:
            with self._news:
                # What an earlier run left to look after waits until it is known how to read it.
                while not (self._behind() and self._versions):
                    if self._closing:
                        return
                    self._news.wait()
                number = self.ledger.dead_through + 1
                reported = self._reported.get(number)
            try:
                self._look_after(number, reported, tried=tried)
                if not self._behind():
                    self._mirror()
                wait, tried = 1.0, False
            except Exception as error:
                log.warning("%s: batch %d: %s; trying again", self._pipeline.name, number, error)
                tried = True
                with self._news:
                    if self._closing:
                        return
                    self._news.wait(wait)
                wait = min(wait * 2, _LONGEST_WAIT)

    def _look_after(self, number: int, reported: tuple[Progress, Versions] | None, *, tried: bool) -> None:
        """Set aside what a batch could not decode; a batch that was not reported is looked through."""
        found = SetAside()
        missed = 0
        if reported is not None and reported[0].corrupt:
            progress, versions = reported
            found = set_aside(
                self._engine,
                self._pipeline,
                versions,
                starts=progress.starts or self.ledger.checkpoint.first_offsets(),
                ends=progress.ends,
                corrupt=progress.corrupt,
                letters=self._letters,
                written_since_ms=int(progress.began.timestamp() * 1000) if tried else None,
            )
        elif reported is None and (logged := self.ledger.checkpoint.batch(number)) is not None:
            previous = self.ledger.checkpoint.batch(number - 1) if number else None
            known = next((batch.dead for batch in self.ledger.recent if batch.id == number), 0)
            found = set_aside(
                self._engine,
                self._pipeline,
                self._versions,
                starts=previous.ends if previous else self.ledger.checkpoint.first_offsets(),
                ends=logged.ends,
                corrupt=None,
                letters=self._letters,
                written_since_ms=logged.timestamp_ms,
            )
            missed = found.count - known
        with self._lock:
            self.ledger.add_dead(number, missed)
            self._reported.pop(number, None)
            self.unknown_ids = found.unknown_ids or self.unknown_ids

    def _mirror(self) -> None:
        """Spark commits no offsets: a consumer group of the pipeline's name shows Kafka's own tools how far it is."""
        try:
            self._engine.admin.mirror_group(self._engine.query_name(self._pipeline), flat(self.ledger.ends))
        except GearshiftError as error:
            log.warning("%s: offsets not mirrored: %s", self._pipeline.name, error)
