"""What a delivery's handler gets: a record's value with its place, and what a destination takes."""

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
    """A record: its value, and where and when it was written."""

    value: T
    key: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    identity: bytes | None = field(default=None, repr=False)
    leader_epoch: int | None = field(default=None, repr=False)
    """Under which leader it was written: where a log was cut off and goes on, an offset comes twice, this does not."""
    scope: str = field(default="", repr=False)
    """Who handles it, `group id/delivery`: each delivery has idempotency keys of its own."""
    topic_id: str | None = field(default=None, repr=False)
    """Which topic of that name it is of: one that is deleted and created again has another id."""

    def header(self, name: str) -> bytes | None:
        """The value of the last header with this name."""
        return next((value for key, value in reversed(self.headers) if key == name), None)

    @property
    def origin(self) -> tuple[str, int, int]:
        """Topic, partition and offset at which it was first written: those before a dead letter was replayed."""
        return self.topic, self.partition, self.offset

    @property
    def idempotency_key(self) -> str:
        """The same text whenever this record comes to this delivery again: of its `once_by` fields, else of its origin.

        >>> Record(value=1, key=None, topic="alerts", partition=0, offset=7, timestamp=None).idempotency_key
        '80cbc4cdcba1e2355095a102fe5aa238'
        """
        topic, partition, offset = self.origin
        # Offsets begin again in a topic that is created again, and its records are not those of the old one.
        place = f"{partition}/{offset}" + (f"/{self.topic_id}" if self.topic_id else "")
        which = place.encode() if self.identity is None else b"=" + self.identity
        named = f"{self.scope}/{topic}/".encode() + which
        return hashlib.blake2b(named, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Row:
    """What a handler made of a record, for a destination to write."""

    value: Any
    record: Record[Any]
    index: int = 0
    """Which of the values that one record gave."""

    @property
    def idempotency_key(self) -> str:
        """The record's own, told apart where a handler made several values of it."""
        return f"{self.record.idempotency_key}-{self.index}" if self.index else self.record.idempotency_key


class Op(StrEnum):
    """What happened to the row."""

    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    READ = "r"
    """The row was there when the snapshot was taken."""
    TRUNCATE = "t"
    """Every row of the table went; it names none."""
    MESSAGE = "m"
    """A message in the database's log, of no table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[T]):
    """One change of one row.

    `before` is None where the old row is not known; `key` has the primary key in any case.
    """

    op: Op
    before: T | None = None
    after: T | None = None
    key: Mapping[str, Any] | None = None
    source_time: datetime | None = None
    """When the database committed it."""
    position: int | None = None
    """Its place in the database's log: of two changes of one row the later has the higher one."""


@runtime_checkable
class Destination(Protocol):
    """Where a delivery writes: opened once per consumer, then written and flushed, then closed.

    `write` gets rows of one partition in the order of their offsets, at most `batch` of them, and returns when
    they are safe or are sure to be after `flush`. Called again with rows it has seen, it leaves the same result.
    """

    batch: int
    """How many rows `write` takes at once; with 1 the keys of a partition are written side by side."""

    def open(self, group_id: str) -> None:
        """Connect; `group_id` is the consumer group that writes."""
        ...

    def write(self, rows: Sequence[Row]) -> None:
        """Write the rows; a raised error with `retriable = True` says that the same call may succeed later."""
        ...

    def flush(self) -> None:
        """Return when everything written is safe; only then are offsets committed."""
        ...

    def close(self) -> None:
        """Let go of the connections."""
        ...
