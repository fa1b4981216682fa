"""`once_by`: deduplication of records that are delivered again."""

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
from gearshift.topics.marks.remembered import SIZE, Remembered

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Delivery

WINDOW = timedelta(days=1)
_RETENTION = WINDOW + timedelta(hours=1)  # clocks differ
_LOADERS = 2  # partitions loaded in parallel, so that a slow one does not block the others
_RETRY_AFTER = 1.0
log = logging.getLogger(__name__)


class Dedup:
    """Knows the records that any consumer of the group delivered within a day.

    A mark is written after the handler has finished, and the lane begins no other record until the mark is durable.
    It cannot know whether a handler that was killed had finished: that record, one per lane, is delivered again
    with the same `idempotency_key`.
    """

    def __init__(self, delivery: Delivery, connection: Connection) -> None:
        self._name = delivery.name
        self._fields = delivery.once_by
        self._known: dict[int, Remembered] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._loaders = ThreadPoolExecutor(_LOADERS, thread_name_prefix=f"{delivery.name} marks")
        self.marks = Marks(
            connection, delivery.once_topic, partitions=delivery.topic.partitions, kept=_RETENTION
        )

    def identity_of(self, value: Any) -> bytes:
        """The `once_by` fields of a value, as bytes that are the same in every process."""
        return "\x1f".join(repr(getattr(value, field)) for field in self._fields).encode()

    def load(self, partition: int) -> Future[None]:
        """Load the marks of a partition; its records must wait until the future is done."""
        with self._lock:
            # The replay topic has the same partition, which may be loaded already: then only new marks are read.
            known = self._known.setdefault(partition, Remembered(WINDOW))
        return self._loaders.submit(self._load, partition, known)

    def _load(self, partition: int, known: Remembered) -> None:
        while not self._closing.is_set() and self._known.get(partition) is known:
            try:
                since = datetime.now(UTC) - WINDOW
                for offset, instant, mark in self.marks.read(partition, since=since, start=known.read_to):
                    known.add(mark, instant)
                    known.read_to = offset + 1
                    if self._known.get(partition) is not known or self._closing.is_set():
                        return
                return
            except GearshiftError as error:
                if not error.retriable:
                    raise
                log.warning(
                    "%s: loading the dedup marks of partition %d failed, retrying: %s",
                    self._name,
                    partition,
                    error,
                )
                self._closing.wait(_RETRY_AFTER)

    def forget(self, partition: int) -> None:
        """Drop the marks of a partition that was revoked."""
        with self._lock:
            self._known.pop(partition, None)

    def is_duplicate(self, partition: int, identity: bytes) -> bool:
        """Whether this was delivered before."""
        known = self._known.get(partition)
        return known is not None and _mark(identity) in known

    def mark(self, delivered: Iterable[tuple[int, bytes]]) -> None:
        """Mark deliveries by partition and identity; returns when the marks are durable."""
        self.marks.write(
            [(partition, self.remember(partition, identity)) for partition, identity in delivered]
        )

    def remember(self, partition: int, identity: bytes) -> bytes:
        """Remember a delivery in this process only; return the mark to write."""
        mark = _mark(identity)
        known = self._known.get(partition)
        if known is not None:  # else the partition was revoked, and its next owner reads the mark
            known.add(mark)
        return mark

    def undo(self, partition: int, mark: bytes) -> None:
        """Forget a delivery whose transaction was aborted."""
        known = self._known.get(partition)
        if known is not None:
            known.discard(mark)

    def close(self) -> None:
        """Wait for pending marks and close."""
        self._closing.set()
        self._loaders.shutdown(cancel_futures=True)
        self.marks.close()


def _mark(identity: bytes) -> bytes:
    return hashlib.blake2b(identity, digest_size=SIZE).digest()
