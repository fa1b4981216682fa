"""Reads records as they are, outside of any consumer group: a stretch of offsets, or what comes next."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import TYPE_CHECKING, Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, TopicPartition

from gearshift.errors import TopicError
from gearshift.topics.admin import Admin
from gearshift.topics.client import Client

if TYPE_CHECKING:
    from gearshift.connection import Connection

_STALLED_AFTER = timedelta(seconds=30)
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """A record and its place."""

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
    """The records from `start` up to, and without, `end`, in order within each partition.

    Partitions that are not named are read from their beginning to what is their end now; with `start` or `end`
    given, only the partitions they name are read.
    """
    with Admin(connection) as admin:
        begins = {partition: offset for (_, partition), offset in admin.begin_offsets([topic]).items()}
        # Up to the first open transaction: what lies beyond it cannot be read yet.
        ends = {partition: offset for (_, partition), offset in admin.stable_offsets([topic]).items()}
    named = set(start or ()) | set(end or ()) or set(begins)
    for partition in named - set(begins):
        raise TopicError(
            f"the topic has {len(begins)} partitions", hint="count from 0", topic=topic, partition=partition
        )
    # Nothing can be read beyond the present end; whoever asks for more would wait for ever.
    until = {
        partition: min((end or {}).get(partition, ends[partition]), ends[partition]) for partition in named
    }
    since = {partition: (start or {}).get(partition, begins[partition]) for partition in named}
    for partition in sorted(named):
        if since[partition] < begins[partition]:
            raise TopicError(
                f"records before offset {begins[partition]} are gone",
                hint="they aged out; raise the topic's retention.ms",
                topic=topic,
                partition=partition,
                offset=since[partition],
            )
    open_ranges = {partition: until[partition] for partition in named if since[partition] < until[partition]}
    if open_ranges:
        places = [TopicPartition(topic, partition, since[partition]) for partition in open_ranges]
        yield from map(_record, _stretch(connection, topic, places, open_ranges))


def messages(connection: Connection, topic: str, partition: int, start: int) -> Iterator[Any]:
    """The client's own messages of one partition up to its end now: a fifth of the work, where millions are read."""
    with Admin(connection) as admin:
        end = admin.stable_offsets([topic])[topic, partition]
    if start < end:
        yield from _stretch(connection, topic, [TopicPartition(topic, partition, start)], {partition: end})


def _stretch(
    connection: Connection, topic: str, places: list[TopicPartition], until: dict[int, int]
) -> Iterator[Any]:
    client, consumer = _consumer(connection)
    remaining = dict(until)
    quiet_since = time.monotonic()
    try:
        consumer.assign(places)
        while remaining:
            messages = _poll(consumer, 0.2)
            if messages:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > _STALLED_AFTER.total_seconds():
                raise client.unreachable()
            for message in messages:
                partition, offset = _place(message)
                stop = remaining.get(partition)
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    # The last offsets of a range can hold no record: compaction and transactions leave gaps.
                    if stop is not None and offset >= stop:
                        del remaining[partition]
                    continue
                if error is not None:
                    _refuse(client, error, topic, partition)
                    continue
                if stop is None:
                    continue
                if offset < stop:
                    yield message
                if offset >= stop - 1:
                    del remaining[partition]
    finally:
        consumer.close()


class Tail:
    """The records that come after it was opened, until it is closed; closing it from another thread ends it."""

    def __init__(self, connection: Connection, names: Iterable[str], *, from_beginning: bool = False) -> None:
        names = list(names)
        with Admin(connection) as admin:
            offsets = admin.begin_offsets(names) if from_beginning else admin.end_offsets(names)
        self._closed = Event()
        self._client, self._consumer = _consumer(connection)
        # From fixed offsets, so that nothing sent once this constructor is done can be missed.
        self._consumer.assign(
            [TopicPartition(topic, part, offset) for (topic, part), offset in offsets.items()]
        )

    def __iter__(self) -> Iterator[ConsumedRecord]:
        while not self._closed.is_set():
            yield from self.poll(timedelta(milliseconds=200))

    def poll(self, timeout: timedelta) -> list[ConsumedRecord]:
        """The records that came, at most after this time."""
        records: list[ConsumedRecord] = []
        for message in _poll(self._consumer, timeout.total_seconds()):
            error = message.error()
            if error is None:
                records.append(_record(message))
            elif error.code() != KafkaError._PARTITION_EOF:
                _refuse(self._client, error, message.topic() or "", message.partition())
        return records

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
        group_id="gearshift.reader",  # librdkafka wants one; nothing is ever committed to it
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        auto_offset_reset="error",  # a range that is gone must be told, not replaced
        enable_partition_eof=True,
        check_crcs=True,
        fetch_wait_max_ms=20,
        fetch_error_backoff_ms=50,
    )
    return client, client.open(Consumer)


def _poll(consumer: Consumer, seconds: float) -> list[Any]:
    """The records that are there; `consume` alone would wait until it has all it was asked for."""
    first = consumer.poll(seconds)
    return [] if first is None else [first, *consumer.consume(_CHUNK, 0)]


def _refuse(client: Client, error: KafkaError, topic: str, partition: int | None) -> None:
    if error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._MAX_POLL_EXCEEDED):
        return  # librdkafka goes on by itself when the broker is back; a stall is told by the caller's deadline
    raise client.translated(KafkaException(error), topic=topic, partition=partition)


def _place(message: Any) -> tuple[int, int]:
    return message.partition(), message.offset()


def _record(message: Any) -> ConsumedRecord:
    kind, millis = message.timestamp()
    return ConsumedRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        None if kind == TIMESTAMP_NOT_AVAILABLE else datetime.fromtimestamp(millis / 1000, UTC),
    )
