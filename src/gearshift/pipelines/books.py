"""Keeps a pipeline's books: each batch goes into the ledger, its corrupt records to the dead letters, its offsets to Kafka."""

from __future__ import annotations

import logging
import queue
import threading
import time
from datetime import UTC, datetime

from gearshift.definitions import Pipeline, Topic
from gearshift.errors import GearshiftError
from gearshift.freshness import Gear
from gearshift.pipelines.checkpoint import flat, open_folder
from gearshift.pipelines.dead_letters import set_aside
from gearshift.pipelines.engine import Engine, Versions
from gearshift.pipelines.ledger import Batch, Ledger, Stretch
from gearshift.pipelines.listener import Progress
from gearshift.pipelines.replays import count_replays
from gearshift.topics import DeadLetters

log = logging.getLogger(__name__)

_LATE_REPORTS = 2.0  # seconds: Spark reports a batch soon after it commits it, but not before
_UNSURE_BATCHES = 3  # after a start, so many batches may overlap what an earlier stretch set aside already


class Books:
    """The ledger of one pipeline and the thread that keeps it."""

    def __init__(self, engine: Engine, pipeline: Pipeline, letters: DeadLetters) -> None:
        self.ledger = Ledger(open_folder(engine.folder_of(pipeline)), engine.graph.app, pipeline.name)
        self.versions: Versions = {}
        self._engine = engine
        self._pipeline = pipeline
        self._letters = letters
        self._admin = engine.admin
        self._lock = threading.RLock()
        self._reports: queue.Queue[Progress | None] = queue.Queue()
        self._unsure = _UNSURE_BATCHES
        self._unsure_since_ms = 0
        self._thread = threading.Thread(target=self._keep, name=f"books {pipeline.name}", daemon=True)
        self._thread.start()

    def report(self, progress: Progress) -> None:
        """Take a batch's report; returns at once."""
        self._reports.put(progress)

    def close(self) -> None:
        """Finish what was reported and stop."""
        self._reports.put(None)
        self._thread.join(timeout=30)

    def begin(self, gear: Gear, why: str) -> Stretch:
        """Write down that a stretch begins, after all that came before it is settled."""
        with self._lock:
            before = self.ledger.last
            self._unsure = _UNSURE_BATCHES
            self._unsure_since_ms = before.last_timestamp_ms or _ms(before.began) if before else 0
            return self.ledger.begin(gear, self._pipeline.gear, why, datetime.now(UTC))

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
        with self._lock:
            self.ledger.reconcile()
            self._recover_dead_letters()
            self.ledger.end(datetime.now(UTC), error)

    def mark(self, stretch: Stretch, *, pause: float | None = None, verified: bool = False) -> None:
        """Write down what became known of a stretch."""
        with self._lock:
            stretch.pause = pause if pause is not None else stretch.pause
            stretch.verified = stretch.verified or verified
            self.ledger.save()

    def count_replays(self) -> int:
        """Count the replays of every ended stretch that has no count yet; how many there were."""
        total = 0
        for stretch in self.ledger.stretches[:-1]:
            if stretch.replayed is None:
                target = self._pipeline.target
                counted = 0
                if isinstance(target, Topic):  # a table takes each batch once
                    counted = count_replays(self._engine.connection, self._admin, self._pipeline.name, target, stretch)
                with self._lock:
                    stretch.replayed = counted
                    self.ledger.save()
                total += counted
        return total

    def add(self, batch: Batch) -> None:
        """Write down a batch that ran outside Spark's streaming: a full read of tables."""
        with self._lock:
            self.ledger.add(batch)

    def _keep(self) -> None:
        while (progress := self._reports.get()) is not None:
            try:
                with self._lock:
                    self._enter(progress)
            except Exception:
                log.exception("%s: batch %d is not in the books yet", self._pipeline.name, progress.batch_id)
            finally:
                self._reports.task_done()
        self._reports.task_done()

    def _enter(self, progress: Progress) -> None:
        dead = sum(corrupt.count for corrupt in progress.corrupt.values())
        added = self.ledger.add(
            Batch(
                id=progress.batch_id,
                timestamp_ms=progress.settled_ms,
                starts=progress.starts or self.ledger.checkpoint.first_offsets(),
                ends=progress.ends,
                records=progress.records,
                written=progress.written,
                dead=dead,
            )
        )
        if not added:
            return
        if dead:
            set_aside(
                self._engine,
                self._pipeline,
                self.versions,
                starts=progress.starts,
                ends=progress.ends,
                corrupt=progress.corrupt,
                letters=self._letters,
                written_since_ms=self._unsure_since_ms if self._unsure else None,
            )
            self._unsure = max(0, self._unsure - 1)
        self.ledger.dead_through = progress.batch_id
        self.ledger.save()
        self._mirror()

    def _recover_dead_letters(self) -> None:
        """Look through the committed batches whose dead letters a crash may have cut short."""
        if self.ledger.last is None or not self._pipeline.topics:
            return
        for number in self.ledger.checkpoint.committed():
            if number <= self.ledger.dead_through:
                continue
            logged = self.ledger.checkpoint.batch(number)
            previous = self.ledger.checkpoint.batch(number - 1) if number else None
            if logged is None:
                continue
            known = next((batch.dead for batch in self.ledger.recent if batch.id == number), 0)
            found = set_aside(
                self._engine,
                self._pipeline,
                self.versions,
                starts=previous.ends if previous else self.ledger.checkpoint.first_offsets(),
                ends=logged.ends,
                corrupt=None,
                letters=self._letters,
                written_since_ms=logged.timestamp_ms,
            )
            self.ledger.last.dead += found - known
            self.ledger.dead_through = number
        self.ledger.dead_through = min(self.ledger.dead_through, max(self.ledger.checkpoint.committed(), default=-1))

    def _mirror(self) -> None:
        """Spark commits no offsets: a consumer group of the pipeline's name shows Kafka's own tools how far it is."""
        try:
            self._admin.commit_group(self._engine.query_name(self._pipeline), flat(self.ledger.ends))
        except GearshiftError as error:
            log.warning("%s: offsets not mirrored: %s", self._pipeline.name, error)


def _ms(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)
