"""Requests to the brokers through librdkafka's admin client, with its errors translated to ours."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]

from gearshift.errors import BrokerUnreachableError, GearshiftError
from gearshift.topics.access.rules import CREATE
from gearshift.topics.client import LARGEST_RECORD, Client, kafka_error
from gearshift.topics.partitions import Offsets, TopicPartition

if TYPE_CHECKING:
    from gearshift.connection import Connection

# Dead letters carry more headers than the original record, and may compress less well.
LARGE_RECORDS = {"max.message.bytes": str(LARGEST_RECORD)}
READY_WITHIN = timedelta(seconds=30)
_LEADER_CHANGING = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError._NOENT,  # librdkafka's code if no partition of the request has a leader yet
    KafkaError.UNKNOWN_TOPIC_OR_PART,  # the topic exists, but this broker does not have its metadata yet
}
_LOOK_EVERY = 0.1  # seconds
_GRACE = 10.0  # seconds in addition to the request's own limit
T = TypeVar("T")
_log = logging.getLogger(__name__)


class AdminRequests:
    """One admin client of librdkafka."""

    def __init__(self, connection: Connection, *, answer_within: timedelta) -> None:
        self.seconds = answer_within.total_seconds()
        self._client = Client(connection)
        # Any: confluent_kafka does not type the results of its futures.
        self.admin: Any = self._client.open(AdminClient)

    def call(self, request: Callable[[], Any]) -> Any:
        """Send a request."""
        try:
            return request()
        except KafkaException as raised:
            raise self.translated(raised) from None

    def result(self, future: Future[Any], topic: str | None = None) -> Any:
        """Wait for the answer to a request."""
        try:
            return self.answer(future)
        except KafkaException as raised:
            raise self.translated(raised, topic) from None

    def answer(self, future: Future[Any]) -> Any:
        """The answer to a request; LoginError as soon as the brokers reject the client, which librdkafka retries.

        A broker that lost its session in the meantime may leave a request without an answer: it ends here at last.
        """
        self._client.forgive()
        until = time.monotonic() + max(self.seconds, READY_WITHIN.total_seconds()) + _GRACE
        while True:
            try:
                return future.result(_LOOK_EVERY)
            except TimeoutError:
                self.admin.poll(0)  # serves error_cb, which has the reason
                if (rejection := self._client.rejection) is not None:
                    raise rejection from None
                if time.monotonic() > until:
                    raise self._client.unreachable() from None

    def translated(
        self, raised: Exception, topic: str | None = None, operation: str | None = None
    ) -> GearshiftError:
        """Our error for one of librdkafka's."""
        self.admin.poll(0)  # serves error_cb, which has the reason
        return self._client.translated(raised, topic=topic, operation=operation)

    def create(self, topics: Iterable[NewTopic]) -> None:
        """Create topics; one that exists already is left as it is."""
        new = list(topics)
        if not new:
            return
        futures = self.call(
            lambda: self.admin.create_topics(new, request_timeout=READY_WITHIN.total_seconds())
        )
        rejected: set[str] = set()
        for name, future in futures.items():
            try:
                self.answer(future)
                _log.info("created topic %s", name)
            except KafkaException as raised:
                error = kafka_error(raised)
                if error is not None and error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    continue  # another process created it in the meantime
                if error is None or error.code() not in (
                    KafkaError.INVALID_CONFIG,
                    KafkaError.POLICY_VIOLATION,
                ):
                    raise self.translated(raised, name, CREATE) from None
                rejected.add(name)
                if any(topic.topic == name and topic.config != LARGE_RECORDS for topic in new):
                    raise self.translated(raised, name) from None
        # Some clusters do not let users set max.message.bytes: there the topic gets the cluster's default.
        self.create(
            NewTopic(topic.topic, topic.num_partitions, topic.replication_factor)
            for topic in new
            if topic.topic in rejected
        )

    def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        spec: Any,
        *,
        within: timedelta | None = None,
        **options: Any,
    ) -> Offsets:
        """An offset of each partition; asks again while leadership moves."""
        remaining = set(partitions)
        found: Offsets = {}

        def missing() -> list[TopicPartition]:
            request = {confluent_kafka.TopicPartition(*partition): spec for partition in remaining}
            futures = self.call(
                lambda: self.admin.list_offsets(request, request_timeout=self.seconds, **options)
            )
            for asked, future in futures.items():
                offset = self._offset(future, asked.topic)
                if offset is not None:
                    found[asked.topic, asked.partition] = offset
                    remaining.discard((asked.topic, asked.partition))
            return sorted(remaining)

        late = wait_until_empty(missing, within or timedelta(seconds=self.seconds)) if remaining else []
        if late:
            topic, partition = late[0]
            raise BrokerUnreachableError(
                "the partition has no leader",
                hint="check that all brokers are running",
                topic=topic,
                partition=partition,
            )
        return dict(sorted(found.items()))

    def _offset(self, future: Future[Any], topic: str) -> int | None:
        """The offset; None while leadership moves."""
        try:
            return self.answer(future).offset
        except KafkaException as raised:
            error = kafka_error(raised)
            if error is not None and error.code() in _LEADER_CHANGING:
                return None
            raise self.translated(raised, topic) from None

    def close(self) -> None:
        """Close the connections."""
        self.admin.__exit__(None, None, None)


def wait_until_empty(remaining: Callable[[], list[T]], within: timedelta) -> list[T]:
    """Poll until nothing remains or the time is over; return what remains."""
    deadline = time.monotonic() + within.total_seconds()
    pause = Event()
    while late := remaining():
        if time.monotonic() > deadline:
            break
        pause.wait(0.05)
    return late
