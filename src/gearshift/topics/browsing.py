"""Reads a topic as a person does: from a time, an offset or the last few records, to its end or live."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gearshift.errors import BrokerUnreachableError, SettingsError, TopicError
from gearshift.topics.admin import Admin
from gearshift.topics.groups.tools import parse_target
from gearshift.topics.partitions import Offsets
from gearshift.topics.reader import ConsumedRecord, Tail, read

if TYPE_CHECKING:
    from gearshift.connection import Connection

Wanted = Callable[[ConsumedRecord], bool]
_POLL = timedelta(milliseconds=200)
_LOOK_EVERY = 5.0  # seconds between looks at whether the topic and the brokers are still there


def all_records(_: ConsumedRecord) -> bool:
    """Every record is wanted."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Where to begin: at a place of the whole topic, or so many records before its end."""

    at: str | datetime = "earliest"
    last: int | None = None

    @classmethod
    def parse(cls, written: str) -> Begin:
        """`earliest`, `latest`, a time with a UTC offset, or `-N` for the last N records.

        >>> Begin.parse("-10").last, Begin.parse("latest").at
        (10, 'latest')
        """
        if written.startswith("-") and written[1:].isdecimal() and int(written[1:]) > 0:
            return cls(last=int(written[1:]))
        if written.lstrip("+-").isdecimal():
            raise SettingsError(
                f"{written!r} is neither a time nor a number of last records",
                hint="use earliest, latest, a time such as 2026-01-31T12:00:00Z, or -10 for the last ten; an offset "
                "is --partition P --offset N",
            )
        try:
            at = parse_target(written)
        except SettingsError as error:
            raise SettingsError(
                error.what.replace("offset or time", "place to begin"),
                hint=error.hint
                if "time zone" in error.what
                else "use earliest, latest, a time such as 2026-01-31T12:00:00Z, or -10 for the last ten",
            ) from None
        return cls(at=str(at) if isinstance(at, int) else at)


class Browser:
    """Reads one topic, or one of its partitions, outside of any consumer group."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        *,
        partition: int | None = None,
        wanted: Wanted = all_records,
    ) -> None:
        self.topic = topic
        self._connection = connection
        self._wanted = wanted
        self._positions: dict[int, int] = {}
        with Admin(connection) as admin:
            state = admin.require([topic])[topic]
        state.require_partition(partition)
        self._id = state.id
        self._whole = partition is None
        self._partitions = list(range(state.partitions)) if partition is None else [partition]

    def from_offset(self, offset: int) -> Iterator[ConsumedRecord]:
        """The records of the only partition from this offset to its present end."""
        partition = only_partition(self.topic, self._partitions, offset)
        with Admin(self._connection) as admin:
            require_offset(self.topic, partition, offset, admin.end_offsets([self.topic]))
        return self._bounded({partition: offset})

    def begin(self, begin: Begin) -> Iterator[ConsumedRecord]:
        """The records from a place to the present end."""
        with Admin(self._connection) as admin:
            begins, ends = admin.begin_offsets([self.topic]), admin.stable_offsets([self.topic])
            at = ends if begin.at == "latest" else begins
            if isinstance(begin.at, datetime):
                at = admin.offsets_at([self.topic], begin.at)
        if begin.last is not None:
            return self._last(begin.last, self._own(begins), self._own(ends))
        return self._bounded(self._own(at))

    def follow(self, notify: Callable[[str], None]) -> Iterator[ConsumedRecord | None]:
        """New records as they arrive, from where the bounded reading ended; None whenever no more are there yet.

        It continues while the brokers are away and after partitions are added; it ends with an error when the topic is
        deleted.
        """
        while True:
            start: Offsets = {
                (self.topic, partition): offset for partition, offset in self._positions.items()
            }
            with Tail(self._connection, [self.topic], start=start) as tail:
                yield from self._followed(tail, notify)

    def _followed(self, tail: Tail, notify: Callable[[str], None]) -> Iterator[ConsumedRecord | None]:
        """Records until partitions are added."""
        away = False
        look_at = time.monotonic() + _LOOK_EVERY
        with Admin(self._connection) as admin:
            while True:
                found = tail.poll(_POLL)
                for record in found:
                    self._positions[record.partition] = record.offset + 1
                    if self._wanted(record):
                        yield record
                yield None
                if time.monotonic() < look_at:
                    continue
                try:
                    added = self._added_partitions(admin)
                except BrokerUnreachableError as error:
                    if not away:
                        notify(f"{error.what}; waiting for it")
                    away = True
                else:
                    if away:
                        notify("a broker answers again")
                    away = False
                    if added:
                        notify(f"{self.topic} has {added} more partition{'s' if added > 1 else ''}")
                        return
                look_at = time.monotonic() + _LOOK_EVERY

    def _added_partitions(self, admin: Admin) -> int:
        state = admin.require([self.topic])[self.topic]
        if state.id != self._id:
            raise TopicError(
                "the topic was deleted and created again", hint="run the command again", topic=self.topic
            )
        new = [each for each in range(state.partitions) if each not in self._positions]
        if not self._whole or not new:
            return 0
        begins = admin.begin_offsets([self.topic])
        self._positions.update({each: begins[self.topic, each] for each in new})
        return len(new)

    def _own(self, offsets: Offsets) -> dict[int, int]:
        return {partition: offsets[self.topic, partition] for partition in self._partitions}

    def _bounded(self, start: dict[int, int]) -> Iterator[ConsumedRecord]:
        self._positions = dict(start)
        for record in read(self._connection, self.topic, start=start):
            self._positions[record.partition] = record.offset + 1
            if self._wanted(record):
                yield record

    def _last(self, count: int, begins: dict[int, int], ends: dict[int, int]) -> Iterator[ConsumedRecord]:
        """The newest records, oldest first; offsets without a record make it look further back."""
        self._positions = dict(ends)
        span = count
        while True:
            start = {each: max(begins[each], ends[each] - span) for each in ends}
            found = filter(self._wanted, read(self._connection, self.topic, start=start, end=ends))
            newest = heapq.nlargest(count, found, key=_age)
            if len(newest) == count or start == begins:
                return iter(sorted(newest, key=_age))
            span *= 4


def only_partition(topic: str, partitions: Sequence[int], offset: int) -> int:
    """The partition of an offset, which only has a meaning in one."""
    if len(partitions) != 1:
        raise SettingsError(
            f"offset {offset} is of one partition, but {topic} has {len(partitions)}",
            hint=f"name it: --partition 0 --offset {offset}",
        )
    return partitions[0]


def require_offset(topic: str, partition: int, offset: int, ends: Offsets) -> None:
    """Raise TopicError for an offset behind the end of its partition."""
    end = ends[topic, partition]
    if offset > end:
        raise TopicError(
            f"the partition ends at offset {end}",
            hint="use a lower offset, or --from latest -f for new records",
            topic=topic,
            partition=partition,
            offset=offset,
        )


def _age(record: ConsumedRecord) -> tuple[datetime, int, int]:
    return record.timestamp or datetime.min.replace(tzinfo=UTC), record.offset, record.partition
