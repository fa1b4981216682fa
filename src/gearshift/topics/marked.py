"""Records and the marks that say which they were, in one transaction: a source that starts again knows where it was."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gearshift.topics.admin import Admin
from gearshift.topics.client import ANSWER_AT_WORK_WITHIN
from gearshift.topics.reader import read
from gearshift.topics.transactions import TransactionalProducer

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.topics.producer import Headers


@dataclass(frozen=True, slots=True)
class Mark:
    """What was noted under a name, and when."""

    value: bytes
    written: datetime


class MarkedTransactions:
    """Transactions of one source, with its marks by name.

    Opening it ends what an earlier process of the same name left open, and only then reads the marks: so they say
    exactly what readers of the records see. After an error nobody knows whether the last transaction counts: let go
    of it and open another.
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        *,
        kept: timedelta | None = None,
        within: timedelta = timedelta(seconds=60),
    ) -> None:
        """`name` is that of the topic that keeps the marks, for so long or for ever, and the transactional id."""
        self.name = name
        self.marks: dict[str, Mark] = {}
        self._noted: dict[str, Mark] = {}
        with Admin(connection, answer_within=ANSWER_AT_WORK_WITHIN) as admin:
            admin.ensure_compacted(name, partitions=1, kept=kept)
            self._producer = TransactionalProducer(connection, name, within=within)
            admin.await_stable([name])
        for record in read(connection, name):
            if record.key is not None and record.value is not None:
                written = record.timestamp or datetime.now(UTC)
                self.marks[record.key.decode("utf-8", "surrogateescape")] = Mark(record.value, written)

    def begin(self) -> None:
        """Begin a transaction."""
        self._noted = {}
        self._producer.begin()

    def send_bytes(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, headers: Headers | None = None
    ) -> None:
        """Hand over a record."""
        self._producer.send_bytes(topic, value, key=key, headers=headers)

    def note(self, name: str, value: bytes) -> None:
        """Set a mark with the transaction."""
        self._noted[name] = Mark(value, datetime.now(UTC))

    def commit(self) -> None:
        """Make the records and the marks seen, all at once."""
        for name, mark in self._noted.items():
            self._producer.send_bytes(
                self.name, mark.value, key=name.encode("utf-8", "surrogateescape"), partition=0
            )
        self._producer.commit()
        self.marks |= self._noted

    def abort(self) -> None:
        """Take back everything since `begin`."""
        self._producer.abort()

    def close(self) -> None:
        """Take back what was not committed, then let go."""
        self._producer.close()
