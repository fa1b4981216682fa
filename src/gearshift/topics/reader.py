"""Reads raw records outside of any consumer group: a range of offsets, or new records as they arrive."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import TYPE_CHECKING, Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, TopicPartition

from gearshift.errors import TopicError
from gearshift.topics.admin import Admin
from gearshift.topics.client import Client
from gearshift.topics.partitions import Offsets

if TYPE_CHECKING:
    from gearshift.connection import Connection

_STALLED_AFTER = timedelta(seconds=30)
_CHUNK = 500
_NEAR = 5000  # offsets: reading this many costs about as much as a seek


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """A record with its topic, partition and offset."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: datetime | None

    def header(self, name: str) -> bytes | None:
        """The value of the last header with this name."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


def read(
    connection: Connection,
    topic: str,
    *,
    start: Mapping[int, int] | None = None,
    end: Mapping[int, int] | None = None,
) -> Iterator[ConsumedRecord]:
    """The records from `start` up to `end` (exclusive), in order within each partition.

    Without `start` and `end`, all partitions are read from their beginning to their present end; otherwise only
    the partitions that they name.
    """
    with Admin(connection) as admin:
        begins = {partition: offset for (_, partition), offset in admin.begin_offsets([topic]).items()}
        # Up to the first open transaction: records beyond it cannot be read yet.
        ends = {partition: offset for (_, partition), offset in admin.stable_offsets([topic]).items()}
    named = set(start or ()) | set(end or ()) or set(begins)
    for partition in named - set(begins):
        raise TopicError(
            f"the topic has {len(begins)} partitions",
            hint="partitions are numbered from 0",
            topic=topic,
            partition=partition,
        )
    # Reading beyond the present end would wait for new records without a limit.
    until = {
        partition: min((end or {}).get(partition, ends[partition]), ends[partition]) for partition in named
    }
    since = {partition: (start or {}).get(partition, begins[partition]) for partition in named}
    for partition in sorted(named):
        require_kept(topic, partition, since[partition], begins[partition])
    open_ranges = {partition: until[partition] for partition in named if since[partition] < until[partition]}
    if open_ranges:
        starts = [TopicPartition(topic, partition, since[partition]) for partition in open_ranges]
        yield from map(_record, _range(connection, topic, starts, open_ranges))


def require_kept(topic: str, partition: int, offset: int, begin: int) -> None:
    """Raise TopicError for an offset before the beginning of its partition."""
    if offset < begin:
        raise TopicError(
            f"records before offset {begin} were deleted",
            hint="raise the topic's retention.ms to keep records for longer",
            topic=topic,
            partition=partition,
            offset=offset,
        )


def messages(connection: Connection, topic: str, partition: int, start: int) -> Iterator[Any]:
    """librdkafka's messages of one partition up to its present end; five times as fast as `read`."""
    with Admin(connection) as admin:
        end = admin.stable_offsets([topic])[topic, partition]
    if start < end:
        yield from _range(connection, topic, [TopicPartition(topic, partition, start)], {partition: end})


def read_at(
    connection: Connection, topic: str, offsets: Mapping[int, Sequence[int]]
) -> Iterator[ConsumedRecord]:
    """The records at these offsets, which must be ascending within each partition; large gaps are skipped.

    Offsets without a record (compacted or transaction markers) are left out; one below the beginning offset is
    an error.
    """
    client, consumer = _consumer(connection)
    try:
        for partition, of_partition in offsets.items():
            for run in _runs(of_partition):
                wanted, start = set(run), TopicPartition(topic, partition, run[0])
                for message in _assigned(client, consumer, topic, [start], {partition: run[-1] + 1}):
                    if message.offset() in wanted:
                        yield _record(message)
    finally:
        consumer.close()


def _runs(offsets: Sequence[int]) -> Iterator[Sequence[int]]:
    """Groups of offsets that are near each other.

    >>> [list(run) for run in _runs([1, 2, 90_000, 90_004])]
    [[1, 2], [90000, 90004]]
    """
    first = 0
    for number in range(1, len(offsets) + 1):
        if number == len(offsets) or offsets[number] - offsets[number - 1] > _NEAR:
            yield offsets[first:number]
            first = number


def _range(
    connection: Connection, topic: str, starts: list[TopicPartition], until: dict[int, int]
) -> Iterator[Any]:
    client, consumer = _consumer(connection)
    try:
        yield from _assigned(client, consumer, topic, starts, until)
    finally:
        consumer.close()


def _assigned(
    client: Client,
    consumer: Consumer,
    topic: str,
    starts: list[TopicPartition],
    until: dict[int, int],
    deadline: float = math.inf,
) -> Iterator[Any]:
    remaining = dict(until)
    quiet_since = time.monotonic()
    consumer.assign(starts)
    while remaining and time.monotonic() < deadline:
        messages = _poll(consumer, 0.2)
        if messages:
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since > _STALLED_AFTER.total_seconds():
            raise client.unreachable()
        for message in messages:
            partition, offset = message.partition(), message.offset()
            stop = remaining.get(partition)
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                # The last offsets of a range may have no record: compaction and transactions leave gaps.
                if stop is not None and offset >= stop:
                    del remaining[partition]
                continue
            if error is not None:
                _raise_unless_transient(client, error, topic, partition)
                continue
            if stop is None:
                continue
            if offset < stop:
                yield message
            if offset >= stop - 1:
                del remaining[partition]


class RangeReader:
    """Reads ranges of one topic, one after the other, over one connection."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._topic = topic
        self._client, self._consumer = _consumer(connection)

    def read(self, ranges: Mapping[int, tuple[int, int]], deadline: float) -> Iterator[ConsumedRecord]:
        """The records from the first to the second offset (exclusive) of each partition.

        At the deadline, which is a time of `time.monotonic`, it ends early.
        """
        starts = [TopicPartition(self._topic, partition, start) for partition, (start, _) in ranges.items()]
        until = {partition: end for partition, (_, end) in ranges.items()}
        yield from map(_record, _assigned(self._client, self._consumer, self._topic, starts, until, deadline))

    def __enter__(self) -> RangeReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


class Tail:
    """The records that arrive after it was opened, until it is closed, which another thread may do."""

    def __init__(
        self,
        connection: Connection,
        names: Iterable[str],
        *,
        from_beginning: bool = False,
        start: Offsets | None = None,
    ) -> None:
        """`start` are the offsets to begin at, and the only partitions to read."""
        names = list(names)
        offsets = start
        if offsets is None:
            with Admin(connection) as admin:
                offsets = admin.begin_offsets(names) if from_beginning else admin.end_offsets(names)
        self._closed = Event()
        self._client, self._consumer = _consumer(connection)
        # From fixed offsets, so that no record that is sent after this constructor returns is missed.
        self._consumer.assign(
            [TopicPartition(topic, part, offset) for (topic, part), offset in offsets.items()]
        )

    def __iter__(self) -> Iterator[ConsumedRecord]:
        while not self._closed.is_set():
            yield from self.poll(timedelta(milliseconds=200))

    def poll(self, timeout: timedelta) -> list[ConsumedRecord]:
        """The records that arrived, after waiting at most `timeout` for the first."""
        records: list[ConsumedRecord] = []
        for message in _poll(self._consumer, timeout.total_seconds()):
            error = message.error()
            if error is None:
                records.append(_record(message))
            elif error.code() != KafkaError._PARTITION_EOF:
                _raise_unless_transient(self._client, error, message.topic() or "", message.partition())
        return records

    def newest(self, most: int, within: timedelta) -> tuple[list[ConsumedRecord], int]:
        """The newest of the records that have arrived, without waiting for more, and the number of the others.

        The others cost a fraction of a microsecond each. After `within`, the rest is left for the next call.
        """
        kept: deque[Any] = deque(maxlen=most)
        arrived = 0
        deadline = time.monotonic() + within.total_seconds()
        while time.monotonic() < deadline:
            found = self._consumer.consume(_CHUNK, 0)
            for message in found:
                error = message.error()
                if error is None:
                    arrived += 1
                    kept.append(message)
                elif error.code() != KafkaError._PARTITION_EOF:
                    _raise_unless_transient(self._client, error, message.topic() or "", message.partition())
            if not found:
                break
        return [_record(message) for message in kept], arrived - len(kept)

    def close(self) -> None:
        """End the iteration; leaving the context also closes the connections."""
        self._closed.set()

    def __enter__(self) -> Tail:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._consumer.close()


def tail(connection: Connection, names: Iterable[str], *, from_beginning: bool = False) -> Tail:
    """Follow topics: `with tail(connection, ["alerts"]) as records: for record in records: …`."""
    return Tail(connection, names, from_beginning=from_beginning)


def _consumer(connection: Connection) -> tuple[Client, Consumer]:
    client = Client(
        connection,
        group_id="gearshift.reader",  # librdkafka requires one; nothing is committed to it
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        auto_offset_reset="error",  # a deleted range must be an error, not skipped
        enable_partition_eof=True,
        check_crcs=True,
        fetch_wait_max_ms=20,
        fetch_error_backoff_ms=50,
    )
    return client, client.open(Consumer)


def _poll(consumer: Consumer, seconds: float) -> list[Any]:
    """The available records; `consume` alone would wait until it has the number requested."""
    first = consumer.poll(seconds)
    return [] if first is None else [first, *consumer.consume(_CHUNK, 0)]


def _raise_unless_transient(client: Client, error: KafkaError, topic: str, partition: int | None) -> None:
    if error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._MAX_POLL_EXCEEDED):
        return  # librdkafka resumes when the broker is back; the caller's deadline detects a stall
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return  # librdkafka looks for the coordinator of every group; a reader needs nothing of it
    raise client.translated(KafkaException(error), topic=topic, partition=partition)


def record_time(kind: int, millis: int) -> datetime | None:
    """The time of a record; None without one, or after the year 9999, which brokers may let a producer set."""
    try:
        return None if kind == TIMESTAMP_NOT_AVAILABLE else datetime.fromtimestamp(millis / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _record(message: Any) -> ConsumedRecord:
    return ConsumedRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        record_time(*message.timestamp()),
    )
