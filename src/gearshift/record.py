"""What a delivery's handler gets (records, changes) and what a destination takes (rows)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Record(Generic[T]):
    """A record: its value, its position and its timestamp."""

    value: T
    key: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    identity: bytes | None = field(default=None, repr=False)
    leader_epoch: int | None = field(default=None, repr=False)
    """The leader epoch: after a truncation of the log an offset can repeat, but not with the same epoch."""
    scope: str = field(default="", repr=False)
    """The reader, `group id/delivery`: idempotency keys differ between deliveries."""
    topic_id: str | None = field(default=None, repr=False)
    """The topic's id, which changes when a topic is deleted and recreated."""

    def header(self, name: str) -> bytes | None:
        """The value of the last header with this name."""
        return next((value for key, value in reversed(self.headers) if key == name), None)

    @property
    def origin(self) -> tuple[str, int, int]:
        """The topic, partition and offset of the original record, if this is a replayed dead letter."""
        return self.topic, self.partition, self.offset

    @property
    def idempotency_key(self) -> str:
        """A key that stays the same when this delivery gets the record again: from `once_by`, else from the origin.

        >>> Record(value=1, key=None, topic="alerts", partition=0, offset=7, timestamp=None).idempotency_key
        '80cbc4cdcba1e2355095a102fe5aa238'
        """
        topic, partition, offset = self.origin
        # A recreated topic starts at offset 0 again with different records.
        position = f"{partition}/{offset}" + (f"/{self.topic_id}" if self.topic_id else "")
        which = position.encode() if self.identity is None else b"=" + self.identity
        named = f"{self.scope}/{topic}/".encode() + which
        return hashlib.blake2b(named, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Row:
    """A value that a handler returned for a record, for a destination to write."""

    value: Any
    record: Record[Any]
    index: int = 0
    """The index among the values returned for the record."""

    @property
    def idempotency_key(self) -> str:
        """The record's key, with the index appended for all values but the first."""
        return f"{self.record.idempotency_key}-{self.index}" if self.index else self.record.idempotency_key


class Op(StrEnum):
    """The operation of a change, with Debezium's codes."""

    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    READ = "r"
    """The row was read by the snapshot."""
    TRUNCATE = "t"
    """All rows of the table were removed; the change names none of them."""
    MESSAGE = "m"
    """A message in the database's log that belongs to no table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[T]):
    """A change of one row.

    `before` is None if the old row is unknown; `key` always holds the primary key.
    """

    op: Op
    before: T | None = None
    after: T | None = None
    key: Mapping[str, Any] | None = None
    source_time: datetime | None = None
    """When the database committed it."""
    position: int | None = None
    """Its place in the order of changes: of two changes of one row the later has the higher one."""
    epoch: int | None = None
    """The microsecond in which the snapshot began that it belongs to, as the connectors of `app.cdc` say it."""
    restarts: bool = False
    """Whether it is the first row of a snapshot that was taken again: all rows of the table follow."""


@runtime_checkable
class Destination(Protocol):
    """Where a delivery writes: opened once per consumer, then written and flushed, then closed.

    `write` gets rows of one partition in offset order, at most `batch_size` of them, and returns when they are
    stored or will be by the end of `flush`. Writing the same rows again must not change the result.
    """

    batch_size: int
    """The most rows per `write`; with 1, different keys of a partition are written in parallel."""

    def open(self, group_id: str) -> None:
        """Connect; `group_id` is the consumer group that writes."""
        ...

    def write(self, rows: Sequence[Row]) -> None:
        """Write the rows; an error with `retriable = True` means that the same call may succeed later."""
        ...

    def flush(self) -> None:
        """Return when all written rows are stored; offsets are committed afterwards."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


@runtime_checkable
class KeepsOffsets(Protocol):
    """A destination that stores offsets together with its rows, and so can detect that it was restored."""

    def stored(self, topic: str, partition: int, topic_id: str | None) -> int | None:
        """The offset after the last record that produced rows, as known without querying the store."""
        ...

    def look_up(self, topic: str, partition: int, topic_id: str | None, noted: int) -> int:
        """The same, read from the store; `noted` is its value at the last commit of the group."""
        ...
