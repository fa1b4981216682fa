"""Marks of delivered records in a compacted topic, which the next owner of a partition reads first."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import KafkaException

from gearshift.errors import RetriableError
from gearshift.topics.admin import Admin
from gearshift.topics.client import ANSWER_AT_WORK_WITHIN, Client
from gearshift.topics.reader import messages

if TYPE_CHECKING:
    from gearshift.connection import Connection

_log = logging.getLogger(__name__)


class Marks:
    """The marks of one delivery, by partition; each is a few bytes."""

    def __init__(self, connection: Connection, topic: str, *, partitions: int, kept: timedelta) -> None:
        self.topic = topic
        self._connection = connection
        with Admin(connection, answer_within=ANSWER_AT_WORK_WITHIN) as admin:
            admin.ensure_compacted(topic, partitions=partitions, kept=kept)
            # The number may differ from the delivery's topic if that got more partitions; see `partition_for`.
            self._partitions = admin.require([topic])[topic].partitions
        self._producer: Any = Client(
            connection, enable_idempotence=True, acks="all", linger_ms=0, compression_type="lz4"
        ).open(confluent_kafka.Producer)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="marks", daemon=True)
        self._thread.start()

    def partition_for(self, partition: int) -> int:
        """The partition of the marks of a partition of the delivery's topic."""
        return partition % self._partitions

    def read(
        self, partition: int, *, since: datetime, start: int | None = None
    ) -> Iterator[tuple[int, float, bytes]]:
        """The marks of a partition since a time, and from the offset `start` on, oldest first.

        Yields the offset, the Unix time and the mark.
        """
        own = self.partition_for(partition)
        with Admin(self._connection, answer_within=ANSWER_AT_WORK_WITHIN) as admin:
            begin = admin.offsets_at([self.topic], since)[self.topic, own]
        for message in messages(self._connection, self.topic, own, max(begin, start or 0)):
            key = message.key()
            if key is not None:
                yield message.offset(), message.timestamp()[1] / 1000, key

    def write(self, marks: Sequence[tuple[int, bytes]]) -> None:
        """Write marks, each with its partition, and wait until they are delivered; RetriableError if closed before."""
        pending = _Pending(len(marks))
        for partition, mark in marks:
            self._send(partition, mark, pending)
        while not pending.wait(0.1):
            if self._closing.is_set():
                raise RetriableError("the consumer stopped before a mark was delivered", topic=self.topic)

    def _send(self, partition: int, mark: bytes, pending: _Pending) -> None:
        def delivered(error: Any, _message: Any) -> None:
            if error is None:
                pending.delivered()
            elif not self._closing.is_set():
                _log.warning("%s: sending a mark again that was not delivered: %s", self.topic, error.str())
                self._send(partition, mark, pending)

        while True:
            try:
                self._producer.produce(
                    self.topic, b"", mark, partition=self.partition_for(partition), on_delivery=delivered
                )
                return
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as raised:
                _log.error("%s: %s", self.topic, raised)
                if self._closing.wait(1.0):
                    return

    def close(self) -> None:
        """Wait up to five seconds for the marks in flight; `write` raises for those that are not delivered."""
        self._producer.flush(5.0)
        self._closing.set()
        self._thread.join(5)

    def _serve(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(0.1)


class _Pending:
    """The number of marks in flight that `write` waits for."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._lock = threading.Lock()
        self._done = threading.Event()

    def delivered(self) -> None:
        """Count one of them as delivered."""
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._done.set()

    def wait(self, seconds: float) -> bool:
        """Wait until all are delivered; False if some are not after this time."""
        return self._done.wait(seconds)
