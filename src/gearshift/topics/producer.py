"""An idempotent, batching producer that reports every record that was not delivered."""

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

from gearshift.errors import EncodeError, GearshiftError, ProduceError
from gearshift.schemas.payloads import codec
from gearshift.schemas.registry_client import Registry
from gearshift.schemas.wire import head
from gearshift.topics.client import Client, is_denied, kafka_error, millis
from gearshift.topics.groups.back_pressure import Pressure

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Topic

Key = str | int | bytes | None
Headers = Mapping[str, str | bytes | None] | list[tuple[str, bytes | None]]

_WAIT = 0.05
_POLL = 0.01  # seconds; another thread may serve the delivery reports that this one waits for
_ANSWER_WITHIN = 10.0
_WARN_EVERY = 60.0  # seconds; at its limit a topic stops and resumes its producers every few seconds
FAILURES_HINT = "see producer.failures for the key and reason of each"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that was not delivered to its topic."""

    topic: str
    key: bytes | None
    reason: str
    error: KafkaError | None = None


class Receipt:
    """The delivery reports of one caller's records, on a producer that threads share."""

    def __init__(self) -> None:
        self.sent = 0
        self._reports: list[Failure | None] = []  # appended to by any thread that polls the producer

    @property
    def is_complete(self) -> bool:
        """Whether every record has been acknowledged or has failed."""
        return len(self._reports) == self.sent

    @property
    def failures(self) -> list[Failure]:
        """The records that were not delivered."""
        return [report for report in self._reports if report is not None]

    def fail(self, failure: Failure) -> None:
        """Report a record that librdkafka did not accept."""
        self._reports.append(failure)

    def delivered(self, error: Any, record: Any) -> None:
        """Delivery callback for librdkafka."""
        self._reports.append(_failure(error, record))


class Producer:
    """Sends values to topics; leaving its context waits for every record and raises for failed ones."""

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
        """Without a registry, the producer opens the connection's registry when it first needs a schema.

        Records of more than `largest` bytes are not sent, whatever the topic's limit is.
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
            # The Java client's hash, so that Spark and Java producers choose the same partition for a key. Records
            # without a key get random partitions: librdkafka's default of sticking to one for some time would
            # put a short burst on a single partition.
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
        self._warned: dict[str, float] = {}
        self.throttled = 0.0
        """The seconds that `send` has waited because a group's lag was above a topic's `max_lag`."""

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Every record so far that was not delivered."""
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
        """Queue a value for sending; its key is the topic's key field unless `key` is given.

        Raises EncodeError if the value does not match the schema, and IncompatibleSchemaError if the schema
        changed incompatibly, before anything is sent. Later failures are raised by `flush`.
        Waits while the lag of the topic's slowest consumer group is above `max_lag`.
        Kafka soon deletes a record whose `timestamp` is older than the topic's retention, a week by default.
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
        partition: int | None = None,
    ) -> None:
        """Queue an encoded record for sending; with a receipt, its failure is reported there and not by `flush`."""
        options: dict[str, Any] = {} if partition is None else {"partition": partition}
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
                # The queue drains as records are delivered or fail after `deliver_within`, so this loop ends.
                self._producer.poll(0.1)
            except KafkaException as raised:
                error = kafka_error(raised)
                failure = Failure(topic, key, error.str() if error else str(raised), error)
                (self._failures.append if receipt is None else receipt.fail)(failure)
                break
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until every record so far is delivered; ProduceError if some failed, each reported once.

        LoginError as soon as the brokers reject the login, which librdkafka retries.
        """
        self._client.forgive()
        while self._producer.flush(1.0):  # ends: every record is delivered or fails after `deliver_within`
            if (rejection := self._client.rejection) is not None:
                raise rejection
        new = self._failures[self._reported :]
        self._reported = len(self._failures)
        if new:
            raise self._produce_error(new)

    def await_reports(self, receipt: Receipt) -> None:
        """Wait until all records of a receipt are delivered; ProduceError if some failed."""
        while not receipt.is_complete:
            self._producer.poll(_POLL)  # ends: every record is delivered or fails
        if receipt.failures:
            raise self._produce_error(receipt.failures)

    def lacks(self, topic: str) -> bool:
        """Whether the brokers report that the topic does not exist; False if no broker answers."""
        try:
            found: Any = self._producer.list_topics(topic, timeout=_ANSWER_WITHIN)
        except KafkaException:
            return False
        error = found.topics[topic].error
        return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART

    def release(self) -> None:
        """Stop waiting for the lag, so that a producer that waits in another thread can end."""
        self._released.set()

    def close(self) -> None:
        """Flush, then close the connections."""
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
        except GearshiftError as error:
            _log.error("%s", error)  # it must not replace the exception that is being raised

    def _hold_back(self, topic: Topic) -> None:
        if self._pressure is None:
            self._pressure = Pressure(self._connection)
        while not self._released.is_set() and self._pressure.presses(topic):
            began = time.monotonic()
            if began - self._warned.get(topic.name, float("-inf")) > _WARN_EVERY:
                self._warned[topic.name] = began
                group, behind = self._pressure.slowest(topic.name) or ("?", 0)
                why = f"group {group} is {behind} records behind, more than max_lag={topic.max_lag}"
                _log.warning("producers of %s are waiting: %s", topic.name, why)
            self._producer.poll(_WAIT)  # serves the delivery reports of records in flight
            self.throttled += time.monotonic() - began

    def _prepare(self, topic: Topic) -> tuple[bytes, Callable[[Any], bytes]]:
        if self._registry is None:
            self._registry = self._owned_registry = Registry(self._connection)
        prepared = head(self._registry.register(topic)), codec(topic.value, topic.format).encode
        self._encoders[topic.name] = prepared
        return prepared

    def _produce_error(self, failures: list[Failure]) -> ProduceError:
        """One error for all records that were not delivered, with the reasons."""
        topics = sorted({failure.topic for failure in failures})
        denials = [
            self._client.denied(each.error, topic=each.topic)
            for each in failures
            if each.error is not None and is_denied(each.error)
        ]
        reasons = sorted({denial.what for denial in denials} or {failure.reason for failure in failures})
        count = "1 record" if len(failures) == 1 else f"{len(failures)} records"
        shown = "; ".join(reasons[:3]) + (
            f" and {len(reasons) - 3} other reasons" if len(reasons) > 3 else ""
        )
        return ProduceError(
            f"{count} could not be delivered to {', '.join(topics)}: {shown}",
            hint=denials[0].hint if denials else FAILURES_HINT,
            topic=topics[0] if len(topics) == 1 else None,
        )

    def _delivered(self, error: Any, record: Any) -> None:
        failure = _failure(error, record)
        if failure is not None:
            self._failures.append(failure)


def _failure(error: Any, record: Any) -> Failure | None:
    return None if error is None else Failure(record.topic(), record.key(), error.str(), error)


def key_bytes(key: object) -> bytes | None:
    """The bytes of a key: text as UTF-8, an int as its decimal digits.

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
            raise EncodeError("the key is not valid Unicode text", hint="fix the value") from None
    if isinstance(key, int) and not isinstance(key, bool):
        return b"%d" % key
    raise EncodeError(f"a {type(key).__name__} cannot be a key", hint="use str, int or bytes")
