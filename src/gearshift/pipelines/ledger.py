"""The ledger: which gear ran over which offsets, and the proof that nothing was lost between them.

A *stretch* is one query from start to stop in one gear. The ledger keeps one entry a stretch and is
written whole after every batch, next to Spark's checkpoint. Spark's own logs have the last word: what
they do not show as committed did not happen, and `reconcile` takes it out. A ledger that is damaged, or
whose checkpoint is gone, is refused: going on with it would prove nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gearshift.errors import LedgerError
from gearshift.freshness import Gear
from gearshift.pipelines.checkpoint import Checkpoint, Folder, Offsets
from gearshift.pipelines.interval_log import Entry, Failure, IntervalLog
from gearshift.pipelines.stretches import (
    Batch,
    Stretch,
    as_json,
    batch_from,
    count_between,
    missing,
    position,
    stretch_from,
)

__all__ = ["Batch", "Ledger", "Stretch", "count_between"]

FILE = "ledger.json"
PREVIOUS = "ledger.previous.json"
SPARK = "spark"
_RECENT = 20  # batches kept one by one: more than Spark can lose of its asynchronous commits


class Ledger:
    """The stretches of one pipeline."""

    def __init__(self, folder: Folder, app: str, pipeline: str) -> None:
        self.app = app
        self.pipeline = pipeline
        self.stretches: list[Stretch] = []
        self.recent: list[Batch] = []
        self.dead_through: int = -1
        self.query_id: str | None = None
        self._folder = folder
        self._read()

    @property
    def checkpoint(self) -> Checkpoint:
        """Spark's own folder next to this ledger."""
        return Checkpoint(_Subfolder(self._folder, SPARK))

    @property
    def intervals(self) -> list[Entry]:
        """The latest run of every interval, of a pipeline that has intervals."""
        return IntervalLog(self._folder).entries()

    @property
    def failed_intervals(self) -> list[Failure]:
        """The intervals whose latest run failed."""
        return IntervalLog(self._folder).failures()

    @property
    def last(self) -> Stretch | None:
        """The latest stretch."""
        return self.stretches[-1] if self.stretches else None

    @property
    def last_batch(self) -> int:
        """The number of the latest batch; -1 before the first."""
        return max((s.last_batch for s in self.stretches if s.last_batch is not None), default=-1)

    @property
    def gap(self) -> int:
        """Offsets that no stretch covers, or that two do."""
        return sum(stretch.gap for stretch in self.stretches)

    @property
    def lost(self) -> int:
        """Records that a person accepted as lost."""
        return sum(stretch.lost for stretch in self.stretches)

    @property
    def replayed(self) -> int:
        """Records written into the target more than once, as far as counted."""
        return sum((stretch.replayed or 0) + stretch.retried for stretch in self.stretches)

    @property
    def at_least(self) -> bool:
        """Whether more was replayed than could be counted."""
        return any(stretch.at_least for stretch in self.stretches)

    @property
    def ends(self) -> Offsets:
        """How far the pipeline has come."""
        return next((stretch.ends for stretch in reversed(self.stretches) if stretch.ends), Offsets())

    def gear_to_run(self, declared: Gear) -> Gear:
        """The gear a restart goes on in: the last one that proved itself, unless the declaration changed since."""
        proved = [stretch for stretch in self.stretches if stretch.verified]
        if not proved or proved[-1].declared is not declared:
            return declared
        return proved[-1].gear

    def begin(self, gear: Gear, declared: Gear, why: str, now: datetime, *, stamped: bool = True) -> Stretch:
        """Write down, before the query starts, that a new stretch begins."""
        self._close(now)
        if self.stretches:
            self._folder.write(PREVIOUS, self._text())
        stretch = Stretch(
            number=len(self.stretches), gear=gear, declared=declared, why=why, began=now, stamped=stamped
        )
        self.stretches.append(stretch)
        self.save()
        return stretch

    def accept(self, ends: Offsets, lost: int, why: str, now: datetime) -> None:
        """Write down that the pipeline goes on from other offsets, without the records in between."""
        before, last = self.ends, self.last
        gear, declared = (last.gear, last.declared) if last is not None else (Gear.BATCH, Gear.BATCH)
        stretch = self.begin(gear, declared, why, now)
        stretch.starts, stretch.ends, stretch.lost = before, {**before, **ends}, lost
        stretch.ended, stretch.replayed = now, 0
        self.save()

    def add(self, batch: Batch) -> bool:
        """Write down a committed batch of the latest stretch; False if it is there already."""
        if self.recent and batch.id <= self.recent[-1].id:
            return False
        if self.query_id is None:
            self.query_id = self.checkpoint.query_id()
        stretch = self.stretches[-1]
        before = self.ends
        stretch.gap += missing(before, batch.starts)
        if stretch.first_batch is None:
            stretch.first_batch = batch.id
            stretch.starts = batch.starts or before
        stretch.last_batch = batch.id
        stretch.last_timestamp_ms = batch.timestamp_ms
        stretch.ends = {**before, **batch.ends}
        stretch.records += batch.records
        stretch.written += batch.written or 0
        stretch.dead += batch.dead
        stretch.retried += batch.retried
        self.recent = [*self.recent, batch][-_RECENT:]
        self.save()
        return True

    def add_dead(self, number: int, found: int) -> None:
        """Write down that a batch's dead letters are written, and how many more there were than was known."""
        for stretch in self.stretches:
            if stretch.first_batch is not None and stretch.first_batch <= number <= (stretch.last_batch or 0):
                stretch.dead += found
        self.dead_through = number
        self.save()

    def end(self, now: datetime, error: str | None = None) -> None:
        """Write down that the latest stretch is over."""
        if self.last is not None and error is not None:
            self.last.error = error
        if self.last is not None and self.last.ended is None and self.last.pending_ms is None:
            self.last.pending_ms = self._pending_ms()
        self._close(now)
        self.save()

    def require_checkpoint(self) -> None:
        """Refuse to go on where the checkpoint that this ledger is about is gone."""
        found = self.checkpoint.query_id()
        if self.query_id is None or found == self.query_id:
            return
        place = self._folder.place(SPARK)
        what = (
            f"the checkpoint in {place} is gone"
            if found is None
            else f"the checkpoint in {place} is of another query, {found}"
        )
        raise LedgerError(
            f"{what}, and the ledger knows that query {self.query_id} came to batch {self.last_batch} "
            f"({position(self.ends)}); a new one would read and write everything again",
            hint=f"put the checkpoint back, or start over on purpose with gearshift reset {self.pipeline} --yes",
            app=self.app,
            pipeline=self.pipeline,
        )

    def describe_lag_of_checkpoint(self) -> str | None:
        """Both positions, where the checkpoint will number batches again that this ledger has with their offsets."""
        planned = self.checkpoint.planned()
        newest = planned[-1] if planned else -1
        if self.query_id is None or newest >= self.last_batch:
            return None
        logged = self.checkpoint.batch(newest)
        return (
            f"the checkpoint is at batch {newest} ({position(logged.ends) if logged else 'the beginning'}) and the "
            f"ledger at batch {self.last_batch} ({position(self.ends)}): an older copy of the checkpoint was put back"
        )

    def reconcile(self) -> None:
        """Make the ledger agree with Spark's logs after a crash.

        A batch may have been committed without its report having reached us; and a batch that was reported
        may be missing: where Spark commits in the background, or where an older checkpoint was put back.
        """
        if self.last is None:
            return
        self.require_checkpoint()
        committed = self.checkpoint.committed()
        durable = committed[-1] if committed else -1
        if durable < self.last_batch:
            self._go_back(durable)
        self.dead_through = min(self.dead_through, durable)
        known = self.last_batch
        for number in committed:
            if number > known:
                self._add_from_log(number)
        self.save()

    def rebuild(self, declared: Gear) -> bool:
        """Take what Spark's logs still have into a ledger that is new to its checkpoint; whether there was any."""
        committed = self.checkpoint.committed()
        first = self.checkpoint.batch(committed[0]) if committed else None
        if self.stretches or first is None:
            return False
        stretch = Stretch(
            number=0,
            gear=declared,
            declared=declared,
            why="rebuilt from Spark's logs",
            began=datetime.fromtimestamp(first.timestamp_ms / 1000, UTC),
            stamped=False,
            at_least=True,
            note="the ledger was lost: gears, pauses, replays and dead letters until then are unknown, and "
            "records are counted as offsets",
        )
        self.stretches.append(stretch)
        for number in committed:
            self._add_from_log(number)
        self.dead_through = committed[0] - 1
        self.save()
        return True

    def save(self) -> None:
        """Write the ledger whole."""
        self._folder.write(FILE, self._text())

    def as_json(self) -> dict[str, Any]:
        """The ledger as plain data, its proof first."""
        return {
            "app": self.app,
            "pipeline": self.pipeline,
            "gap": self.gap,
            "replayed": self.replayed,
            "at_least": self.at_least,
            "lost": self.lost,
            "query_id": self.query_id,
            "dead_through": self.dead_through,
            "stretches": [as_json(stretch) for stretch in self.stretches],
            "recent": [as_json(batch) for batch in self.recent],
        }

    def _text(self) -> str:
        return json.dumps(self.as_json(), indent=1)

    def _pending_ms(self) -> int | None:
        """The time of the batch that Spark has planned and not committed; it runs again at the next start."""
        planned, committed = self.checkpoint.planned(), self.checkpoint.committed()
        if not planned or (committed and committed[-1] >= planned[-1]):
            return None
        logged = self.checkpoint.batch(planned[-1])
        return logged.timestamp_ms if logged else None

    def _close(self, now: datetime) -> None:
        if self.last is not None and self.last.ended is None:
            self.last.ended = now

    def _go_back(self, durable: int) -> None:
        """Take out the batches after this one: they run again, and what they wrote is counted as replayed."""
        lag = self.describe_lag_of_checkpoint()
        taken = [batch for batch in self.recent if batch.id > durable]
        self.recent = [batch for batch in self.recent if batch.id <= durable]
        last = self.recent[-1] if self.recent and self.recent[-1].id == durable else None
        for stretch in reversed(self.stretches):
            if stretch.first_batch is None or (stretch.last_batch or 0) <= durable:
                continue
            stretch.replayed = None
            if stretch.first_batch > durable:
                stretch.clear()
                stretch.pending_ms = int(stretch.began.timestamp() * 1000)
            elif last is not None:
                self._keep_until(stretch, last, taken)
            else:
                self._keep_until_forgotten(stretch, durable, taken)
            if lag is not None:
                stretch.note = lag if stretch.note is None else f"{lag}; {stretch.note}"
                lag = None

    def _keep_until(self, stretch: Stretch, last: Batch, taken: list[Batch]) -> None:
        ends = last.ends
        for batch in taken:
            if stretch.last_batch is None or batch.id > stretch.last_batch:
                break
            stretch.records -= batch.records
            stretch.written -= batch.written or 0
            stretch.dead -= batch.dead
            stretch.retried -= batch.retried
            stretch.gap -= missing(ends, batch.starts)
            ends = {**ends, **batch.ends}
        stretch.last_batch, stretch.ends = last.id, {**stretch.ends, **last.ends}
        stretch.last_timestamp_ms = stretch.pending_ms = last.timestamp_ms

    def _keep_until_forgotten(self, stretch: Stretch, durable: int, taken: list[Batch]) -> None:
        """The same where the batch is too long ago to be known by itself: Spark's log has its offsets and its time."""
        logged = self.checkpoint.batch(durable)
        stretch.last_batch = durable
        if logged is not None:
            stretch.ends, stretch.last_timestamp_ms = logged.ends, logged.timestamp_ms
            stretch.records = count_between(stretch.starts, logged.ends)
        if not stretch.stamped:
            known = next((batch for batch in taken), None)
            stretch.pending_ms = known.timestamp_ms if known is not None else None
            stretch.at_least = True
            stretch.note = f"batches {durable + 1} to {known.id if known else 'the last'} are too long ago to be counted one by one"

    def _add_from_log(self, number: int) -> None:
        logged = self.checkpoint.batch(number)
        if logged is None:
            return
        previous = self.checkpoint.batch(number - 1) if number else None
        starts = previous.ends if previous else (self.ends or self.checkpoint.first_offsets())
        self.add(
            Batch(
                id=number,
                timestamp_ms=logged.timestamp_ms,
                starts=starts,
                ends=logged.ends,
                records=count_between(starts, logged.ends),
            )
        )

    def _read(self) -> None:
        text = self._folder.read(FILE)
        if text is None:
            return
        try:
            kept: dict[str, Any] = json.loads(text)
            self.dead_through = kept["dead_through"]
            self.query_id = kept["query_id"]
            self.stretches = [stretch_from(entry) for entry in kept["stretches"]]
            self.recent = [batch_from(entry) for entry in kept["recent"]]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._damaged(text, error) from None

    def _damaged(self, text: str, error: Exception) -> LedgerError:
        if not text.strip():
            why = "it is empty"
        elif isinstance(error, ValueError):
            why = f"{error}"
        else:
            why = f"it is not a ledger of this version of Gearshift ({type(error).__name__}: {error})"
        previous = self._folder.place(PREVIOUS) if self._folder.read(PREVIOUS) is not None else None
        copy = f"copy {previous} over it; or " if previous else ""
        return LedgerError(
            f"the ledger {self._folder.place(FILE)} is damaged: {why}",
            hint=f"{copy}move it away: the next run rebuilds from Spark's checkpoint what that still has, "
            "without the history before",
            app=self.app,
            pipeline=self.pipeline,
        )


@dataclass(frozen=True, slots=True)
class _Subfolder:
    folder: Folder
    name: str

    def names(self, folder: str) -> list[str]:
        return self.folder.names(f"{self.name}/{folder}")

    def read(self, name: str) -> str | None:
        return self.folder.read(f"{self.name}/{name}")

    def write(self, name: str, text: str) -> None:
        self.folder.write(f"{self.name}/{name}", text)

    def place(self, name: str) -> str:
        return self.folder.place(f"{self.name}/{name}")
