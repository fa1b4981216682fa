"""The entries of a ledger: batches and the runs they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from gearshift.freshness import Gear
from gearshift.pipelines.ledger.checkpoint import Offsets


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
    """Records that could not be decoded."""
    letters: int = 0
    """How many of them were written as dead letters."""
    letters_lost: int = 0
    """How many of them were lost before they could be written; the log has the reason."""
    invalid: int = 0
    """Rows of the result that the target could not take and that became dead letters."""
    retried: int = 0
    """Records written by failed attempts of tasks that Spark then retried."""


@dataclass(slots=True, kw_only=True)
class Run:
    """One query from start to stop."""

    number: int
    gear: Gear
    declared: Gear
    why: str
    began: datetime
    numbers: dict[str, float] = field(default_factory=dict[str, float])
    """The measurements on which the gearbox decided to start it."""
    ended: datetime | None = None
    first_batch: int | None = None
    last_batch: int | None = None
    last_timestamp_ms: int = 0
    starts: Offsets = field(default_factory=dict[str, dict[int, int]])
    ends: Offsets = field(default_factory=dict[str, dict[int, int]])
    records: int = 0
    written: int = 0
    dead: int = 0
    letters: int = 0
    letters_lost: int = 0
    invalid: int = 0
    gap: int = 0
    lost: int = 0
    """Unread records that retention removed and that a person accepted as lost."""
    replayed: int | None = None
    """Records written by batches that never committed; None until the run has ended and they are counted."""
    retried: int = 0
    """Records written twice by committed batches: by tasks that Spark retried, or read of a recreated topic."""
    at_least: bool = False
    """Whether more was replayed than could be counted; `note` has the reason."""
    pause: float | None = None
    paused_for: str | None = None
    """What took the time of a long pause."""
    verified: bool = False
    stamped: bool = True
    schemas: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """The known schema ids by topic; dead letters are identified with the same ids."""
    pending_ms: int | None = None
    """The time since when the target has records of uncommitted batches, if they carry no stamp."""
    tables: dict[str, int] = field(default_factory=dict[str, int])
    """The version of each table that it read, by table name."""
    error: str | None = None
    note: str | None = None
    """A remark on the numbers."""

    def clear(self) -> None:
        """Remove every batch."""
        self.first_batch = self.last_batch = None
        self.starts, self.ends = {}, {}
        self.last_timestamp_ms = self.records = self.written = self.gap = self.retried = 0
        self.dead = self.letters = self.letters_lost = self.invalid = 0


def count_between(starts: Offsets, ends: Offsets) -> int:
    """The number of offsets in between; a new partition starts at 0.

    >>> count_between({"t": {0: 5}}, {"t": {0: 7, 1: 3}})
    5
    """
    return sum(
        max(0, end - starts.get(topic, {}).get(partition, 0))
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    )


def missing(ends: Offsets, starts: Offsets) -> int:
    """The number of offsets that are skipped or read twice between one batch's end and the next one's start.

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
    """Offsets as text.

    >>> position({"events": {0: 7, 1: 9}})
    'events 0:7 1:9'
    """
    return ", ".join(
        " ".join([topic, *(f"{partition}:{offset}" for partition, offset in sorted(parts.items()))])
        for topic, parts in offsets.items()
    )


def as_json(entry: Run | Batch) -> dict[str, Any]:
    """An entry as plain data."""
    return _plain(asdict(entry))


def run_from(entry: Mapping[str, Any]) -> Run:
    """Parse a run."""
    kept: dict[str, Any] = {
        **entry,
        "gear": Gear(entry["gear"]),
        "declared": Gear(entry["declared"]),
        "began": _instant(entry["began"]),
        "ended": _instant(entry["ended"]) if entry["ended"] else None,
        "starts": offsets_from(entry["starts"]),
        "ends": offsets_from(entry["ends"]),
    }
    return Run(**kept)


def batch_from(entry: Mapping[str, Any]) -> Batch:
    """Parse a batch."""
    kept: dict[str, Any] = {
        **entry,
        "starts": offsets_from(entry["starts"]),
        "ends": offsets_from(entry["ends"]),
    }
    return Batch(**kept)


def offsets_from(entry: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Parse offsets."""
    return {topic: {int(p): offset for p, offset in parts.items()} for topic, parts in entry.items()}


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, datetime):
        return value.isoformat()
    return value
