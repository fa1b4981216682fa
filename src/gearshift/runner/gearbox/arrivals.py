"""When the records of a topic arrived, from its end offsets at each measurement: no record is read for it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

Partition = tuple[str, int]
_WINDOW = 5.0
"""Seconds over which the rate is taken: long enough to smooth a batch of a producer, short enough to see a burst."""
_MOST = 2000
"""Measurements kept; with more, every other one of the older half is dropped."""


class Arrivals:
    """The end offsets of a pipeline's source topics over time; times are seconds of one clock.

    >>> arrivals = Arrivals()
    >>> arrivals.note(0.0, {("t", 0): 100})
    >>> arrivals.note(10.0, {("t", 0): 200})
    >>> arrivals.age(12.0, {("t", 0): 149}), arrivals.age(12.0, {("t", 0): 200}), arrivals.rate()
    (7.0, 0.0, 10.0)
    """

    def __init__(self) -> None:
        self._seen: list[tuple[float, Mapping[Partition, int]]] = []
        self._changed_at: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was measured yet."""
        return not self._seen

    def note(
        self, at: float, ends: Mapping[Partition, int], done: Mapping[Partition, int] | None = None
    ) -> None:
        """Take the end offsets at a time, and forget what is before both the window and the processed offsets."""
        if self._changed_at is None or (self._seen and ends != self._seen[-1][1]):
            self._changed_at = at
        self._seen.append((at, dict(ends)))
        done = done if done is not None else {}
        while (
            len(self._seen) > 2 and self._seen[1][0] < at - _WINDOW and self._is_done(self._seen[1][1], done)
        ):
            del self._seen[0]
        if len(self._seen) > _MOST:
            half = len(self._seen) // 2
            self._seen = [*self._seen[:half:2], *self._seen[half:]]

    def age(self, now: float, done: Mapping[Partition, int]) -> float:
        """Seconds since the oldest record after the processed offsets arrived; 0 without one."""
        if self.is_empty:
            return 0.0
        arrived = [self._arrival(place, done.get(place, 0)) for place in self._seen[-1][1]]
        return max((now - at for at in arrived if at is not None), default=0.0)

    def rate(self) -> float:
        """Records per second over the last seconds."""
        if len(self._seen) < 2:
            return 0.0
        last, latest = self._seen[-1]
        first, earliest = next(
            each for each in self._seen if each[0] >= last - _WINDOW or each is self._seen[-2]
        )
        if first == last:
            return 0.0
        return max(0.0, (sum(latest.values()) - sum(earliest.values())) / (last - first))

    def idle(self, now: float) -> float:
        """Seconds since a record arrived."""
        return now - self._changed_at if self._changed_at is not None else 0.0

    def _arrival(self, place: Partition, done: int) -> float | None:
        """When the first record at or after an offset arrived: between two measurements, in proportion."""
        if self._seen[-1][1][place] <= done:
            return None
        first, ends = self._seen[0]
        if ends.get(place, 0) > done:
            return first
        for (before, lower), (after, upper) in pairwise(self._seen):
            end, begin = upper.get(place, 0), lower.get(place, 0)
            if end > done:
                return before + (after - before) * (done + 1 - begin) / (end - begin)
        return None

    def _is_done(self, ends: Mapping[Partition, int], done: Mapping[Partition, int]) -> bool:
        return all(done.get(place, 0) >= end for place, end in ends.items())
