"""Puts records on topics: idempotent, batched, and with a report of every record that did not arrive."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from threading import Event
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from gearshift.errors import EncodeError, ProduceError
from gearshift.schemas.payloads import codec
from gearshift.schemas.registry import Registry
from gearshift.schemas.wire import head
from gearshift.topics.client import Client, kafka_error, millis
from gearshift.topics.pressure import Pressure

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Topic

Key = str | int | bytes | None
Headers = Mapping[str, str | bytes | None] | list[tuple[str, bytes | None]]

_WAIT = 0.05
_POLL = 0.01  # seconds; another thread may take the reports that this one waits for
_ANSWER_WITHIN = 10.0
_TELL_EVERY = 60.0  # a topic at its limit stops and goes every few seconds
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that did not reach its topic."""

    topic: str
    key: bytes | None
    reason: str


class Receipt:
    """What became of the records of one caller, on a producer that other threads use too."""

    def __init__(self) -> None:
        self.sent = 0
        self._reports: list[Failure | None] = []  # appended to by whichever thread polls the producer

    @property
    def is_complete(self) -> bool:
        """Whether every record has been acknowledged or has failed."""
        return len(self._reports) == self.sent

    @property
    def failures(self) -> list[Failure]:
        """The records that did not reach their topic."""
        return [report for report in self._reports if report is not None]

    def fail(self, failure: Failure) -> None:
        """Report a record that was not even taken."""
        self._reports.append(failure)

    def delivered(self, error: Any, record: Any) -> None:
        """Report a record, as librdkafka does."""
        self._reports.append(_failure(error, record))


class Producer:
    """Sends values to topics, as a context manager; leaving it waits for every record and reports the failed ones."""

    def __init__(
        self,
        connection: Connection,
        registry: Registry | None = None,
        *,
        linger: timedelta = timedelta(milliseconds=5),
        deliver_within: timedelta = timedelta(minutes=2),
        compression: str = "lz4",
        largest: int = 1_000_000,
    ) -> None:
        """Without a registry the producer opens the connection's own when it first needs a schema.

        A record of more than `largest` bytes is not sent, whatever its topic would take.
        """
        self._connection = connection
        self._registry = registry
        self._owned_registry: Registry | None = None
        self._client = Client(
            connection,
            enable_idempotence=True,
            acks="all",
            linger_ms=linger / timedelta(milliseconds=1),
            delivery_timeout_ms=round(deliver_within / timedelta(milliseconds=1)),
            compression_type=compression,
            message_max_bytes=largest,
            # Keyed as Kafka's Java client does it, so that Spark and Java producers agree with us; without
            # a key each record goes where chance sends it: sticking to one partition for a time, as
            # librdkafka does by default, leaves a short burst on a single one.
            partitioner="murmur2_random",
            sticky_partitioning_linger_ms=0,
        )
        self._producer = self._client.open(confluent_kafka.Producer)
        self._encoders: dict[str, tuple[bytes, Callable[[Any], bytes]]] = {}
        self._failures: list[Failure] = []
        self._reported = 0
        self._pressure: Pressure | None = None
        self._released = Event()
        self._closed = False
        self._told: dict[str, float] = {}
        self.throttled = 0.0
        """The seconds that `send` has waited because a reader was more than a topic's `max_lag` behind."""

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Every record so far that did not reach its topic."""
        return tuple(self._failures)

    def send(
        self,
        topic: Topic,
        value: Any,
        *,
        key: Key = None,
        headers: Headers | None = None,
        timestamp: datetime | None = None,
    ) -> None:
        """Hand over a value; its key is the topic's key field unless another is given.

        It raises EncodeError if the value does not fit and IncompatibleSchemaError if the topic's schema may
        not change as it did, before anything is sent. Whatever goes wrong later is reported by `flush`.
        While the topic's slowest consumer group is more than `max_lag` records behind, it waits.
        A record with a `timestamp` older than the topic's retention, a week by default, is soon deleted by Kafka.
        """
        before, encode = self._encoders.get(topic.name) or self._prepare(topic)
        try:
            data = before + encode(value)
        except EncodeError as error:
            error.topic = topic.name
            raise
        if key is None and topic.key is not None:
            key = getattr(value, topic.key)
        if topic.max_lag is not None:
            self._hold_back(topic)
        self.send_bytes(topic.name, data, key=key_bytes(key), headers=headers, timestamp=timestamp)

    def send_bytes(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp: datetime | None = None,
        receipt: Receipt | None = None,
    ) -> None:
        """Hand over a record as it is; with a receipt, its failure is reported there and not by `flush`."""
        options: dict[str, Any] = {}
        delivered = self._delivered
        if receipt is not None:
            receipt.sent += 1
            delivered = receipt.delivered
        if headers:
            options["headers"] = list(headers.items()) if isinstance(headers, Mapping) else headers
        if timestamp is not None:
            options["timestamp"] = millis(timestamp)
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=delivered, **options)
                break
            except BufferError:
                # The queue empties as records are delivered, or fail after `deliver_within`: this ends.
                self._producer.poll(0.1)
            except KafkaException as raised:
                error = kafka_error(raised)
                failure = Failure(topic, key, error.str() if error else str(raised))
                (self._failures.append if receipt is None else receipt.fail)(failure)
                break
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until every record so far has arrived; ProduceError if some did not, each told of once."""
        while self._producer.flush(1.0):
            pass  # ends as above: every record is delivered or fails in time
        new = self._failures[self._reported :]
        self._reported = len(self._failures)
        if new:
            raise _produce_error(new)

    def await_reports(self, receipt: Receipt) -> None:
        """Wait until all records of a receipt have arrived; ProduceError if some did not."""
        while not receipt.is_complete:
            self._producer.poll(_POLL)  # ends as above: every record is delivered or fails in time
        if receipt.failures:
            raise _produce_error(receipt.failures)

    def lacks(self, topic: str) -> bool:
        """Whether the brokers say that there is no such topic; a broker that does not answer says nothing."""
        try:
            found: Any = self._producer.list_topics(topic, timeout=_ANSWER_WITHIN)
        except KafkaException:
            return False
        error = found.topics[topic].error
        return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART

    def release(self) -> None:
        """Hold back no more, whatever the lag: for whoever wants to end a producer that waits in another thread."""
        self._released.set()

    def close(self) -> None:
        """Flush, then let go of the connections."""
        if self._closed:
            return
        try:
            self.flush()
            self._producer.close()
            self._closed = True
        finally:
            if self._pressure is not None:
                self._pressure.close()
                self._pressure = None
            if self._owned_registry is not None:
                self._owned_registry.close()
                self._owned_registry = None

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.close()
        except ProduceError as error:
            _log.error("%s", error)  # the exception under way says more; it must not be replaced

    def _hold_back(self, topic: Topic) -> None:
        if self._pressure is None:
            self._pressure = Pressure(self._connection)
        while not self._released.is_set() and self._pressure.presses(topic):
            began = time.monotonic()
            if began - self._told.get(topic.name, float("-inf")) > _TELL_EVERY:
                self._told[topic.name] = began
                group, behind = self._pressure.slowest(topic.name) or ("?", 0)
                why = f"group {group} is {behind} records behind, more than max_lag={topic.max_lag}"
                _log.warning("producers of %s wait: %s", topic.name, why)
            self._producer.poll(_WAIT)  # what was sent goes on being delivered and reported
            self.throttled += time.monotonic() - began

    def _prepare(self, topic: Topic) -> tuple[bytes, Callable[[Any], bytes]]:
        if self._registry is None:
            self._registry = self._owned_registry = Registry(self._connection)
        prepared = head(self._registry.register(topic)), codec(topic.value, topic.format).encode
        self._encoders[topic.name] = prepared
        return prepared

    def _delivered(self, error: Any, record: Any) -> None:
        failure = _failure(error, record)
        if failure is not None:
            self._failures.append(failure)


def _failure(error: Any, record: Any) -> Failure | None:
    return None if error is None else Failure(record.topic(), record.key(), error.str())


def _produce_error(failures: list[Failure]) -> ProduceError:
    """One error for records that did not reach their topics, with the reasons."""
    topics = sorted({failure.topic for failure in failures})
    reasons = sorted({failure.reason for failure in failures})
    count = "1 record" if len(failures) == 1 else f"{len(failures)} records"
    shown = "; ".join(reasons[:3]) + (f" and {len(reasons) - 3} other reasons" if len(reasons) > 3 else "")
    return ProduceError(
        f"{count} did not reach {', '.join(topics)}: {shown}",
        hint="producer.failures has the key and the reason of each",
        topic=topics[0] if len(topics) == 1 else None,
    )


def key_bytes(key: object) -> bytes | None:
    """A key as it is sent: text as UTF-8, an int as its decimal digits.

    >>> key_bytes("meter-1"), key_bytes(42), key_bytes(None)
    (b'meter-1', b'42', None)
    """
    if isinstance(key, Enum):
        key = key.value if isinstance(key.value, str) else key.name
    if key is None or isinstance(key, bytes):
        return key
    if isinstance(key, str):
        try:
            return key.encode("utf-8")
        except UnicodeEncodeError:
            raise EncodeError("the key is not valid Unicode text", hint="mend the value") from None
    if isinstance(key, int) and not isinstance(key, bool):
        return b"%d" % key
    raise EncodeError(f"a {type(key).__name__} cannot be a key", hint="use str, int or bytes")
