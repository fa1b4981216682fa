"""`once_by`: a record that comes again does not reach the handler again."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gearshift.topics import Marks

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Delivery

KEPT = timedelta(days=1)
_MOST = 1_000_000  # marks in memory: at some hundred bytes each, what a small consumer can spare


class Once:
    """Knows what has been delivered, whichever consumer of the group did it.

    A mark is written when the handler is done, and whoever called the handler takes no other record before the
    mark is safe. What cannot be known is whether a handler that was killed had come to its end: that record, one
    for each of the handlers at work, comes once more, with the same `idempotency_key`.
    """

    def __init__(self, delivery: Delivery, connection: Connection) -> None:
        self._fields = delivery.once_by
        self._known: dict[int, dict[bytes, None]] = {}
        self._lock = threading.Lock()
        self.marks = Marks(connection, delivery.once_topic, partitions=delivery.topic.partitions, kept=KEPT)

    def identity_of(self, value: Any) -> bytes:
        """The `once_by` fields of a value, as bytes that are the same in every process."""
        return "\x1f".join(repr(getattr(value, field)) for field in self._fields).encode()

    def restore(self, partition: int) -> None:
        """Learn what was done in a partition before it came to us."""
        known = dict.fromkeys(self.marks.read(partition))
        with self._lock:
            # What this process did meanwhile for another topic's partition of the number may not be there yet.
            self._known[partition] = known | self._known.get(partition, {})

    def forget(self, partition: int) -> None:
        """A partition went to another consumer."""
        with self._lock:
            self._known.pop(partition, None)

    def is_known(self, partition: int, identity: bytes) -> bool:
        """Whether this was delivered."""
        return _mark(identity) in self._known.get(partition, ())

    def keep(self, deliveries: Iterable[tuple[int, bytes]]) -> None:
        """Remember deliveries, each by its partition and identity; returns when no crash can make us forget them."""
        self.marks.write([(partition, self.note(partition, identity)) for partition, identity in deliveries])

    def note(self, partition: int, identity: bytes) -> bytes:
        """Remember a delivery in this process only; the mark to keep."""
        mark = _mark(identity)
        with self._lock:
            known = self._known.setdefault(partition, {})
            known[mark] = None
            if len(known) > _MOST:
                del known[next(iter(known))]
        return mark

    def take_back(self, partition: int, mark: bytes) -> None:
        """Forget a delivery that was undone with its transaction."""
        with self._lock:
            self._known.get(partition, {}).pop(mark, None)

    def close(self) -> None:
        """Wait for the marks under way."""
        self.marks.close()


def _mark(identity: bytes) -> bytes:
    return hashlib.blake2b(identity, digest_size=12).digest()
