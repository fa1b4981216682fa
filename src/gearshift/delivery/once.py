"""`once_by`: a record that comes again does not reach the handler again."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from gearshift.errors import GearshiftError
from gearshift.topics import Marks
from gearshift.topics.remembered import SIZE, Remembered

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Delivery

KEPT = timedelta(days=1)
_ON_THE_TOPIC = KEPT + timedelta(hours=1)  # clocks differ
_AT_ONCE = (
    2  # partitions whose marks are read side by side: one that is slow does not keep the others waiting
)
_AGAIN_AFTER = 1.0
log = logging.getLogger(__name__)


class Once:
    """Knows what has been delivered within a day, whichever consumer of the group did it.

    A mark is written when the handler is done, and whoever called the handler takes no other record before the
    mark is safe. What cannot be known is whether a handler that was killed had come to its end: that record, one
    for each of the handlers at work, comes once more, with the same `idempotency_key`.
    """

    def __init__(self, delivery: Delivery, connection: Connection) -> None:
        self._name = delivery.name
        self._fields = delivery.once_by
        self._known: dict[int, Remembered] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._reading = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=f"{delivery.name} marks")
        self.marks = Marks(
            connection, delivery.once_topic, partitions=delivery.topic.partitions, kept=_ON_THE_TOPIC
        )

    def identity_of(self, value: Any) -> bytes:
        """The `once_by` fields of a value, as bytes that are the same in every process."""
        return "\x1f".join(repr(getattr(value, field)) for field in self._fields).encode()

    def restore(self, partition: int) -> Future[None]:
        """Begin to learn what was done in a partition before it came to us; it must wait until that is known."""
        with self._lock:
            # It may be held already, by the replays or by the topic itself: then what is new is read.
            known = self._known.setdefault(partition, Remembered(KEPT))
        return self._reading.submit(self._read, partition, known)

    def _read(self, partition: int, known: Remembered) -> None:
        while not self._closing.is_set() and self._known.get(partition) is known:
            try:
                since = datetime.now(UTC) - KEPT
                for offset, instant, mark in self.marks.read(partition, since=since, start=known.read_to):
                    known.add(mark, instant)
                    known.read_to = offset + 1
                    if self._known.get(partition) is not known or self._closing.is_set():
                        return
                return
            except GearshiftError as error:
                if not error.retriable:
                    raise
                log.warning("%s: the marks of partition %d wait: %s", self._name, partition, error)
                self._closing.wait(_AGAIN_AFTER)

    def forget(self, partition: int) -> None:
        """A partition went to another consumer."""
        with self._lock:
            self._known.pop(partition, None)

    def is_known(self, partition: int, identity: bytes) -> bool:
        """Whether this was delivered."""
        known = self._known.get(partition)
        return known is not None and _mark(identity) in known

    def keep(self, deliveries: Iterable[tuple[int, bytes]]) -> None:
        """Remember deliveries, each by its partition and identity; returns when no crash can make us forget them."""
        self.marks.write([(partition, self.note(partition, identity)) for partition, identity in deliveries])

    def note(self, partition: int, identity: bytes) -> bytes:
        """Remember a delivery in this process only; the mark to keep."""
        mark = _mark(identity)
        known = self._known.get(partition)
        if known is not None:  # else it has gone to another consumer, and the mark is for that one
            known.add(mark)
        return mark

    def take_back(self, partition: int, mark: bytes) -> None:
        """Forget a delivery that was undone with its transaction."""
        known = self._known.get(partition)
        if known is not None:
            known.discard(mark)

    def close(self) -> None:
        """Wait for the marks under way."""
        self._closing.set()
        self._reading.shutdown(cancel_futures=True)
        self.marks.close()


def _mark(identity: bytes) -> bytes:
    return hashlib.blake2b(identity, digest_size=SIZE).digest()
