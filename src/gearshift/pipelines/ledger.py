"""The ledger: which gear ran over which offsets, and the proof that nothing was lost between them.

A *stretch* is one query from start to stop in one gear. The ledger keeps one entry a stretch and is
written whole after every batch, beside Spark's checkpoint. Spark's own logs have the last word: what
they do not show as committed did not happen, and `reconcile` takes it out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from gearshift.freshness import Gear
from gearshift.pipelines.checkpoint import Checkpoint, Folder, Offsets
from gearshift.pipelines.interval_log import Entry, Failure, IntervalLog

FILE = "ledger.json"
SPARK = "spark"
_RECENT = 20  # batches kept one by one: more than Spark can lose of its asynchronous commits


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One committed batch."""

    id: int
    timestamp_ms: int
    starts: Offsets
    ends: Offsets
    records: int
    written: int | None = None
    dead: int = 0


@dataclass(slots=True, kw_only=True)
class Stretch:
    """One query from start to stop."""

    number: int
    gear: Gear
    declared: Gear
    why: str
    began: datetime
    ended: datetime | None = None
    first_batch: int | None = None
    last_batch: int | None = None
    last_timestamp_ms: int = 0
    starts: Offsets = field(default_factory=dict[str, dict[int, int]])
    ends: Offsets = field(default_factory=dict[str, dict[int, int]])
    records: int = 0
    written: int = 0
    dead: int = 0
    gap: int = 0
    replayed: int | None = None
    pause: float | None = None
    paused_for: str | None = None
    """What a long pause went by with."""
    verified: bool = False
    stamped: bool = True
    pending_ms: int | None = None
    error: str | None = None


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
        """Spark's own folder beside this ledger."""
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
    def gap(self) -> int:
        """Records that no stretch covers."""
        return sum(stretch.gap for stretch in self.stretches)

    @property
    def replayed(self) -> int:
        """Records written into the target more than once, as far as counted."""
        return sum(stretch.replayed or 0 for stretch in self.stretches)

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
        stretch = Stretch(
            number=len(self.stretches), gear=gear, declared=declared, why=why, began=now, stamped=stamped
        )
        self.stretches.append(stretch)
        self.save()
        return stretch

    def add(self, batch: Batch) -> bool:
        """Write down a committed batch of the latest stretch; False if it is there already."""
        if self.recent and batch.id <= self.recent[-1].id:
            return False
        if self.query_id is None:
            self.query_id = self.checkpoint.query_id()
        stretch = self.stretches[-1]
        before = self.ends
        stretch.gap += _missing(before, batch.starts)
        if stretch.first_batch is None:
            stretch.first_batch = batch.id
            stretch.starts = batch.starts or before
        stretch.last_batch = batch.id
        stretch.last_timestamp_ms = batch.timestamp_ms
        stretch.ends = {**before, **batch.ends}
        stretch.records += batch.records
        stretch.written += batch.written or 0
        stretch.dead += batch.dead
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
        if self.last is not None and self.last.ended is None:
            self.last.pending_ms = self._pending_ms()
        self._close(now)
        self.save()

    def reconcile(self) -> None:
        """Make the ledger agree with Spark's logs after a crash.

        A batch may have been committed without its report having reached us; and where Spark is set
        to commit in the background, a batch that was reported may not have been made durable.
        """
        if self.last is None:
            return
        if self.query_id is not None and self.checkpoint.query_id() != self.query_id:
            self._begin_anew()
            return
        committed = self.checkpoint.committed()
        durable = committed[-1] if committed else -1
        while self.recent and self.recent[-1].id > durable:
            self._take_back(self.recent.pop())
        self.dead_through = min(self.dead_through, durable)
        known = self.recent[-1].id if self.recent else -1
        for number in committed:
            if number > known:
                self._add_from_log(number)
        self.save()

    def save(self) -> None:
        """Write the ledger whole."""
        self._folder.write(FILE, json.dumps(self.as_json(), indent=1))

    def as_json(self) -> dict[str, Any]:
        """The ledger as plain data, its proof first."""
        return {
            "app": self.app,
            "pipeline": self.pipeline,
            "gap": self.gap,
            "replayed": self.replayed,
            "query_id": self.query_id,
            "dead_through": self.dead_through,
            "stretches": [_plain(asdict(stretch)) for stretch in self.stretches],
            "recent": [_plain(asdict(batch)) for batch in self.recent],
        }

    def _begin_anew(self) -> None:
        """The checkpoint was moved away or replaced: what ran on it is another ledger, kept under its name."""
        self._folder.write(f"ledger-{self.query_id}.json", json.dumps(self.as_json(), indent=1))
        self.stretches, self.recent, self.dead_through, self.query_id = [], [], -1, None
        self.save()

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

    def _take_back(self, batch: Batch) -> None:
        stretch = next(s for s in reversed(self.stretches) if s.last_batch == batch.id)
        before = self.recent[-1] if self.recent else None
        in_stretch = (
            before is not None and stretch.first_batch is not None and before.id >= stretch.first_batch
        )
        stretch.records -= batch.records
        stretch.written -= batch.written or 0
        stretch.dead -= batch.dead
        stretch.last_batch = before.id if before and in_stretch else None
        stretch.last_timestamp_ms = before.timestamp_ms if before and in_stretch else 0
        if before and in_stretch:
            stretch.ends = before.ends
        else:
            stretch.first_batch, stretch.starts, stretch.ends = None, {}, {}
        stretch.gap -= _missing(self.ends, batch.starts)

    def _add_from_log(self, number: int) -> None:
        logged = self.checkpoint.batch(number)
        if logged is None:
            return
        previous = self.checkpoint.batch(number - 1) if number else None
        starts = (
            previous.ends if previous else (self.checkpoint.first_offsets() if number == 0 else self.ends)
        )
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
        kept: dict[str, Any] = json.loads(text)
        self.dead_through = kept["dead_through"]
        self.query_id = kept["query_id"]
        self.stretches = [_stretch(entry) for entry in kept["stretches"]]
        self.recent = [_batch(entry) for entry in kept["recent"]]


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


def count_between(starts: Offsets, ends: Offsets) -> int:
    """How many offsets lie between; a partition that is new starts at 0.

    >>> count_between({"t": {0: 5}}, {"t": {0: 7, 1: 3}})
    5
    """
    return sum(
        max(0, end - starts.get(topic, {}).get(partition, 0))
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    )


def _missing(ends: Offsets, starts: Offsets) -> int:
    """How many offsets one batch's end leaves out, or the next one takes a second time.

    >>> _missing({"t": {0: 5}}, {"t": {0: 7, 1: 0}})
    2
    """
    return sum(
        abs(start - ends[topic][partition])
        for topic, partitions in starts.items()
        for partition, start in partitions.items()
        if partition in ends.get(topic, {})
    )


def _stretch(entry: Mapping[str, Any]) -> Stretch:
    kept: dict[str, Any] = {
        **entry,
        "gear": Gear(entry["gear"]),
        "declared": Gear(entry["declared"]),
        "began": _instant(entry["began"]),
        "ended": _instant(entry["ended"]) if entry["ended"] else None,
        "starts": _offsets(entry["starts"]),
        "ends": _offsets(entry["ends"]),
    }
    return Stretch(**kept)


def _batch(entry: Mapping[str, Any]) -> Batch:
    kept: dict[str, Any] = {**entry, "starts": _offsets(entry["starts"]), "ends": _offsets(entry["ends"])}
    return Batch(**kept)


def _offsets(entry: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {topic: {int(p): offset for p, offset in parts.items()} for topic, parts in entry.items()}


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, datetime):
        return value.isoformat()
    return value
