"""Marks of what has been done: a compacted topic that whoever takes over a partition reads first."""

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
            # A topic that gets more partitions keeps its marks: both sides of a number meet in one of them.
            self._partitions = admin.require([topic])[topic].partitions
        self._producer: Any = Client(
            connection, enable_idempotence=True, acks="all", linger_ms=0, compression_type="lz4"
        ).open(confluent_kafka.Producer)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="marks", daemon=True)
        self._thread.start()

    def partition_for(self, partition: int) -> int:
        """The partition that keeps the marks of a partition of the delivery's topic."""
        return partition % self._partitions

    def read(
        self, partition: int, *, since: datetime, start: int | None = None
    ) -> Iterator[tuple[int, float, bytes]]:
        """The marks of a partition that were written since then, or from an offset on, oldest first.

        Each with its offset, and the second of its time.
        """
        own = self.partition_for(partition)
        with Admin(self._connection, answer_within=ANSWER_AT_WORK_WITHIN) as admin:
            begin = admin.offsets_at([self.topic], since)[self.topic, own]
        for message in messages(self._connection, self.topic, own, max(begin, start or 0)):
            key = message.key()
            if key is not None:
                yield message.offset(), message.timestamp()[1] / 1000, key

    def write(self, marks: Sequence[tuple[int, bytes]]) -> None:
        """Keep marks, each of a partition, and return when they are safe; RetriableError if that is not to be."""
        safe = _Safe(len(marks))
        for partition, mark in marks:
            self._send(partition, mark, safe)
        while not safe.wait(0.1):
            if self._closing.is_set():
                raise RetriableError("the consumer ends before a mark is safe", topic=self.topic)

    def _send(self, partition: int, mark: bytes, safe: _Safe) -> None:
        def delivered(error: Any, _message: Any) -> None:
            if error is None:
                safe.one_more()
            elif not self._closing.is_set():
                _log.warning("%s: a mark did not arrive and is sent again: %s", self.topic, error.str())
                self._send(partition, mark, safe)

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
        """Wait a while for the marks under way; those that do not arrive are not acted on."""
        self._producer.flush(5.0)
        self._closing.set()
        self._thread.join(5)

    def _serve(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(0.1)


class _Safe:
    """So many marks that somebody waits for."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._lock = threading.Lock()
        self._done = threading.Event()

    def one_more(self) -> None:
        """One of them is safe."""
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._done.set()

    def wait(self, seconds: float) -> bool:
        """Wait for all of them; False if some are missing after this time."""
        return self._done.wait(seconds)
