"""What a ledger is made of: batches, the stretches they belong to, and both as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from gearshift.freshness import Gear
from gearshift.pipelines.checkpoint import Offsets


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
    retried: int = 0
    """Records that a failed attempt of one of its tasks had written before Spark ran the task again."""


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
    lost: int = 0
    """Records that were gone before they were read, and that a person accepted to go on without."""
    replayed: int | None = None
    """Records written by batches that did not count; None until the stretch is over and they are counted."""
    retried: int = 0
    """Records written twice within batches that did count, by tasks that Spark ran again."""
    at_least: bool = False
    """Whether more was replayed than could be counted; `note` says why."""
    pause: float | None = None
    paused_for: str | None = None
    """What a long pause went by with."""
    verified: bool = False
    stamped: bool = True
    pending_ms: int | None = None
    """From when on the target holds records of batches that did not count, where they carry no stamp."""
    error: str | None = None
    note: str | None = None
    """What a reader of the numbers must know."""

    def clear(self) -> None:
        """Take out every batch."""
        self.first_batch = self.last_batch = None
        self.starts, self.ends = {}, {}
        self.last_timestamp_ms = self.records = self.written = self.dead = self.gap = self.retried = 0


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


def missing(ends: Offsets, starts: Offsets) -> int:
    """How many offsets one batch's end leaves out, or the next one takes a second time.

    >>> missing({"t": {0: 5}}, {"t": {0: 7, 1: 0}})
    2
    """
    return sum(
        abs(start - ends[topic][partition])
        for topic, partitions in starts.items()
        for partition, start in partitions.items()
        if partition in ends.get(topic, {})
    )


def position(offsets: Offsets) -> str:
    """Offsets in a sentence.

    >>> position({"events": {0: 7, 1: 9}})
    'events 0:7 1:9'
    """
    return ", ".join(
        " ".join([topic, *(f"{partition}:{offset}" for partition, offset in sorted(parts.items()))])
        for topic, parts in offsets.items()
    )


def as_json(entry: Stretch | Batch) -> dict[str, Any]:
    """An entry as plain data."""
    return _plain(asdict(entry))


def stretch_from(entry: Mapping[str, Any]) -> Stretch:
    """The stretch that was kept."""
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


def batch_from(entry: Mapping[str, Any]) -> Batch:
    """The batch that was kept."""
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
