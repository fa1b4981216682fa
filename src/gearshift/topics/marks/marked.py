"""Transactions of a source: records, and the marks of its position from which it resumes after a restart."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from gearshift.topics.admin import Admin
from gearshift.topics.client import ANSWER_AT_WORK_WITHIN
from gearshift.topics.reader import messages
from gearshift.topics.transactions import TransactionalProducer

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.topics.producer import Headers


class Learned(Protocol):
    """A source's marks in memory; they outlive `MarkedTransactions`, so that no mark is read twice."""

    read_to: int
    """The offset up to which the marks are known."""

    def learn(self, name: bytes, value: bytes, at: float) -> None:
        """Add a mark that was committed at this Unix time."""
        ...


class LatestMarks(dict[bytes, bytes]):
    """The latest mark of each name."""

    def __init__(self) -> None:
        super().__init__()
        self.read_to = 0

    def learn(self, name: bytes, value: bytes, at: float) -> None:
        """Add a mark."""
        self[name] = value


class MarkedTransactions:
    """Transactions of one source, with its marks by name.

    Opening it fences an earlier process of the same name, and only then reads the marks that are not known yet:
    so they match the records that consumers see. After an error it is unknown whether the last transaction was
    committed: close it and open another one.
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        marks: Learned,
        *,
        kept: timedelta | None = None,
        within: timedelta = timedelta(seconds=60),
    ) -> None:
        """`name` is both the topic of the marks, which keeps them for `kept` if given, and the transactional id."""
        self.name = name
        self._marks = marks
        self._noted: dict[bytes, bytes] = {}
        with Admin(connection, answer_within=ANSWER_AT_WORK_WITHIN) as admin:
            admin.ensure_compacted(name, partitions=1, kept=kept)
            self._producer = TransactionalProducer(connection, name, within=within)
            admin.await_stable([name])
            begin = admin.begin_offsets([name])[name, 0]
        for message in messages(connection, name, 0, max(begin, marks.read_to)):
            key, value = message.key(), message.value()
            if key is not None and value is not None:
                marks.learn(key, value, message.timestamp()[1] / 1000)
            marks.read_to = message.offset() + 1

    def begin(self) -> None:
        """Begin a transaction."""
        self._noted = {}
        self._producer.begin()

    def send_bytes(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, headers: Headers | None = None
    ) -> None:
        """Queue a record for sending."""
        self._producer.send_bytes(topic, value, key=key, headers=headers)

    def note(self, name: bytes, value: bytes) -> None:
        """Set a mark with the transaction."""
        self._noted[name] = value

    def commit(self) -> None:
        """Make the records and the marks visible atomically."""
        for name, value in self._noted.items():
            self._producer.send_bytes(self.name, value, key=name, partition=0)
        self._producer.commit()
        for name, value in self._noted.items():
            self._marks.learn(name, value, time.time())
        if self._noted and self._producer.last_offset is not None:
            self._marks.read_to = self._producer.last_offset + 1

    def abort(self) -> None:
        """Abort the transaction."""
        self._producer.abort()

    def close(self) -> None:
        """Abort the open transaction, if any."""
        self._producer.close()
