"""Pending dead letters: ranges of offsets of a committed batch that contain corrupt records.

The ledger keeps them from the moment it records the batch until their dead letters are written or known to be lost, so
that a crash loses none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gearshift.pipelines.ledger.checkpoint import Offsets

Ranges = Mapping[int, tuple[int, int]]
"""By partition, the first offset and the one after the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """Ranges of a topic in which a batch had records that it could not decode."""

    batch: int
    topic: str
    ranges: Ranges
    """What is left to search."""
    observed: int | None
    """The number of corrupt records; None if the batch's report never arrived."""
    written: int = 0
    gone: tuple[tuple[int, int, int], ...] = ()
    """Ranges that were no longer on the topic: partition, first offset, end offset."""
    since_ms: int = 0
    """The time since when a dead letter of it may have been written."""
    fresh: bool = field(default=False, compare=False)
    """Whether none can have been written yet; False after a crash or a failure."""

    @property
    def missing(self) -> int:
        """The known number of dead letters still to be written."""
        return max(0, (self.observed or 0) - self.written)

    def after(self, piece: Ranges, *, written: int, gone: Iterable[tuple[int, int, int]]) -> Pending:
        """What is left after a piece of it is done.

        >>> entry = Pending(batch=3, topic="t", ranges={0: (5, 9), 1: (2, 4)}, observed=3)
        >>> left = entry.after({0: (5, 7), 1: (2, 4)}, written=2, gone=[(1, 2, 3)])
        >>> left.ranges, left.missing, left.gone
        ({0: (7, 9)}, 1, ((1, 2, 3),))
        """
        left = {
            partition: (piece[partition][1] if partition in piece else first, end)
            for partition, (first, end) in self.ranges.items()
        }
        return replace(
            self,
            ranges={partition: bounds for partition, bounds in left.items() if bounds[0] < bounds[1]},
            written=self.written + written,
            gone=(*self.gone, *gone),
        )


def between(
    starts: Mapping[int, int], ends: Mapping[int, int], within: tuple[int, int] | None = None
) -> dict[int, tuple[int, int]]:
    """The non-empty ranges between offsets, limited to `within` in every partition.

    >>> between({0: 5}, {0: 9, 1: 3}), between({0: 5}, {0: 9, 1: 3}, (4, 7))
    ({0: (5, 9), 1: (0, 3)}, {0: (5, 7)})
    """
    ranges: dict[int, tuple[int, int]] = {}
    for partition, end in ends.items():
        first = starts.get(partition, 0)
        if within is not None:
            first, end = max(first, within[0]), min(end, within[1])
        if first < end:
            ranges[partition] = (first, end)
    return ranges


def overlaps(ranges: Ranges, until: Mapping[int, int]) -> bool:
    """Whether any range begins before the offset of its partition.

    >>> overlaps({0: (5, 9)}, {0: 6}), overlaps({0: (5, 9)}, {0: 5, 1: 8})
    (True, False)
    """
    return any(first < until.get(partition, 0) for partition, (first, _) in ranges.items())


def unobserved(batch: int, starts: Offsets, ends: Offsets, since_ms: int) -> list[Pending]:
    """Everything a batch read, if its number of corrupt records was never reported."""
    found = ((topic, between(starts.get(topic, {}), of_topic)) for topic, of_topic in ends.items())
    return [
        Pending(batch=batch, topic=topic, ranges=ranges, observed=None, since_ms=since_ms)
        for topic, ranges in found
        if ranges
    ]


def as_json(entry: Pending) -> dict[str, Any]:
    """An entry as plain data."""
    return {
        "batch": entry.batch,
        "topic": entry.topic,
        "ranges": {str(partition): list(bounds) for partition, bounds in entry.ranges.items()},
        "observed": entry.observed,
        "written": entry.written,
        "gone": [list(each) for each in entry.gone],
        "since_ms": entry.since_ms,
    }


def pending_from(entry: Mapping[str, Any]) -> Pending:
    """Parse an entry."""
    return Pending(
        batch=entry["batch"],
        topic=entry["topic"],
        ranges={int(partition): (first, end) for partition, (first, end) in entry["ranges"].items()},
        observed=entry["observed"],
        written=entry["written"],
        gone=tuple((partition, first, end) for partition, first, end in entry["gone"]),
        since_ms=entry["since_ms"],
    )
