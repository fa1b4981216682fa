"""An excerpt of a topic: the records nearest to a place, found with a bounded amount of work."""

from __future__ import annotations

import heapq
import math
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gearshift.topics.admin import Admin
from gearshift.topics.browsing import Begin, Wanted, all_records, only_partition, require_offset
from gearshift.topics.reader import ConsumedRecord, RangeReader, require_kept

if TYPE_CHECKING:
    from gearshift.connection import Connection

Range = tuple[int, int]
"""From the first to the second offset, exclusive."""
_FIRST_LOOK = 10_000  # offsets of a topic that a filter looks at first
_FURTHER = 4  # times as far with every look


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The work that one excerpt may take."""

    scanned: int = 200_000
    """Records."""
    within: timedelta = timedelta(seconds=5)
    kept: int = 8 << 20
    """Bytes of the keys, values and headers in the excerpt, which has at least one record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """Records in the order of their time, or of their offsets if they are of one partition."""

    records: list[ConsumedRecord]
    complete: bool
    """Whether it has all records that were asked for, and none was left out for its limits."""
    forward: bool
    """Whether it begins at a place, rather than ending at the end of the topic."""


def excerpt(
    connection: Connection,
    topic: str,
    begin: Begin | int,
    *,
    limit: int,
    partition: int | None = None,
    wanted: Wanted = all_records,
    limits: Limits | None = None,
) -> Excerpt:
    """At most `limit` records: the first from a place or an offset on, or the last of the topic."""
    with Admin(connection) as admin:
        state = admin.require([topic])[topic]
        state.require_partition(partition)
        partitions = list(range(state.partitions)) if partition is None else [partition]
        begins, ends = admin.begin_offsets([topic]), admin.stable_offsets([topic])
        at = ends if isinstance(begin, Begin) and begin.at == "latest" else begins
        if isinstance(begin, Begin) and isinstance(begin.at, datetime):
            at = admin.offsets_at([topic], begin.at)
        if isinstance(begin, int):
            only = only_partition(topic, partitions, begin)
            require_offset(topic, only, begin, admin.end_offsets([topic]))
            require_kept(topic, only, begin, begins[topic, only])
            at = {(topic, only): begin}
    last = begin.last if isinstance(begin, Begin) else None
    whole = {each: (at[topic, each], ends[topic, each]) for each in partitions}
    search = Search(limit if last is None else min(limit, last), limits or Limits(), forward=last is None)
    search.by_offset = len(partitions) == 1
    with RangeReader(connection, topic) as reader:
        exhausted = search.run(reader, whole, wanted)
    complete = exhausted and not search.dropped
    if last is not None and last <= limit and len(search.kept) == last:
        complete = True
    return Excerpt(records=search.records, complete=complete, forward=last is None)


class Search:
    """Looks further and further away from one end of every partition."""

    def __init__(self, most: int, limits: Limits, *, forward: bool) -> None:
        self.most = most
        self.by_offset = False
        self.dropped = False
        """Whether records that fit were left out."""
        self.kept: list[tuple[tuple[float, int, int], ConsumedRecord]] = []
        """A heap with the farthest record first."""
        self._limits = limits
        self._sign = -1 if forward else 1
        self._forward = forward
        self._size = 0
        self._scanned = 0

    @property
    def records(self) -> list[ConsumedRecord]:
        """The records that were found, oldest first."""
        return [record for _, record in sorted(self.kept, key=lambda entry: entry[0])][:: self._sign]

    def run(self, reader: RangeReader, whole: dict[int, Range], wanted: Wanted) -> bool:
        """Look until there are enough records; whether nothing is left to look at."""
        deadline = time.monotonic() + self._limits.within.total_seconds()
        left = {partition: range_ for partition, range_ in whole.items() if range_[0] < range_[1]}
        span = self.most if wanted is all_records else max(self.most, _FIRST_LOOK // max(1, len(left)))
        looked_at = 0
        while left:
            look = {partition: self._near(range_, span) for partition, range_ in left.items()}
            for record in reader.read(look, deadline):
                self._scanned += 1
                if wanted(record):
                    self._keep(record)
                if self._scanned >= self._limits.scanned:
                    return False
            if time.monotonic() >= deadline:
                return False
            looked_at += sum(end - start for start, end in look.values())
            left = {
                partition: rest
                for partition, range_ in left.items()
                if (rest := self._rest(range_, look[partition]))[0] < rest[1]
            }
            if len(self.kept) >= self.most:
                break
            span = self._next_span(span, looked_at, len(left))
        return not left

    def _keep(self, record: ConsumedRecord) -> None:
        heapq.heappush(self.kept, (self._nearness(record), record))
        self._size += _size(record)
        while len(self.kept) > self.most or (self._size > self._limits.kept and len(self.kept) > 1):
            self._size -= _size(heapq.heappop(self.kept)[1])
            self.dropped = True

    def _nearness(self, record: ConsumedRecord) -> tuple[float, int, int]:
        at = -math.inf if record.timestamp is None else record.timestamp.timestamp()
        age = (0.0 if self.by_offset else at, record.offset, record.partition)
        return age[0] * self._sign, age[1] * self._sign, age[2] * self._sign

    def _near(self, range_: Range, span: int) -> Range:
        start, end = range_
        return (start, min(end, start + span)) if self._forward else (max(start, end - span), end)

    def _rest(self, range_: Range, look: Range) -> Range:
        return (look[1], range_[1]) if self._forward else (range_[0], look[0])

    def _next_span(self, span: int, looked_at: int, partitions: int) -> int:
        """Offsets of compacted topics have few records; of others, no more than may be scanned."""
        records_per_offset = max(self._scanned, 1) / max(looked_at, 1)
        affordable = (self._limits.scanned - self._scanned) / records_per_offset / max(partitions, 1)
        return max(1, min(span * _FURTHER, math.ceil(affordable)))


def _size(record: ConsumedRecord) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers
