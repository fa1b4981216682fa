"""A transactional producer: records and offsets become visible together or not at all."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from gearshift.errors import (
    BrokerUnreachableError,
    FencedError,
    GearshiftError,
    NotAMemberError,
    ProduceError,
    RetriableError,
)
from gearshift.topics.client import LARGEST_RECORD, Client, is_denied, kafka_error
from gearshift.topics.partitions import TopicPartition

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.topics.producer import Headers

_FENCED = {
    KafkaError._FATAL,
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.TRANSACTION_COORDINATOR_FENCED,
}
_TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE, KafkaError.INVALID_RECORD}
_FLUSH_SECONDS = 5.0
_CLOSE_SECONDS = 10.0
# Answers to a consumer that has lost its membership or its partitions.
_NOT_A_MEMBER = {
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.UNKNOWN_MEMBER_ID,
}


class TransactionalProducer:
    """Sends records in transactions; opening it fences every older producer with the same `transactional_id`.

    Calls retry errors that pass with time. Other errors:

    - RetriableError: the transaction was aborted; the same records can be sent in a new one.
    - ProduceError: a record is larger than its topic allows.
    - NotAMemberError: the group assigned the partitions to another consumer; the transaction was aborted.
    - FencedError: this producer can no longer be used, because another one has its id, or the brokers aborted a
      transaction that was open for too long. Only the group's offsets show whether a pending commit took effect.
    """

    def __init__(
        self,
        connection: Connection,
        transactional_id: str,
        *,
        within: timedelta = timedelta(seconds=60),
        linger: timedelta = timedelta(milliseconds=5),
        compression: str = "lz4",
    ) -> None:
        """`within` is the transaction timeout, after which the brokers abort an open transaction."""
        self.transactional_id = transactional_id
        self._within = within
        self._open = False
        self._rejected: tuple[KafkaError, str] | None = None
        self.last_offset: int | None = None
        """The offset of the last delivered record that was sent to an explicit partition."""
        self._client = Client(
            connection,
            transactional_id=transactional_id,
            transaction_timeout_ms=round(within / timedelta(milliseconds=1)),
            # A record must not outlive its transaction.
            delivery_timeout_ms=round(within / timedelta(milliseconds=1)),
            linger_ms=linger / timedelta(milliseconds=1),
            compression_type=compression,
            message_max_bytes=LARGEST_RECORD,
            partitioner="murmur2_random",  # as in Producer, so that both choose the same partition for a key
            sticky_partitioning_linger_ms=0,
            # Offsets go to the group's coordinator, which librdkafka caches like metadata. It looks for a new one only
            # after a connection has changed, and otherwise waits without a limit for one that is down (librdkafka
            # issues 5511 and 5456): so idle connections are closed soon, and metadata expires soon.
            connections_max_idle_ms=10_000,
            metadata_max_age_ms=10_000,
        )
        self._producer: Any = self._client.open(confluent_kafka.Producer)
        self._retrying(lambda seconds: self._producer.init_transactions(seconds))

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""
        return self._open

    @property
    def refusal(self) -> ProduceError | None:
        """The error if this transaction can never be committed because a record is too large for its topic."""
        if self._rejected is None or is_denied(self._rejected[0]):
            return None
        return _too_large_error(*self._rejected)

    def begin(self) -> None:
        """Begin a transaction."""
        self._retrying(lambda _: self._producer.begin_transaction())
        self._open = True
        self._rejected = None

    def send_bytes(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> None:
        """Queue a record for sending; `commit` waits for its delivery.

        RetriableError if another thread has aborted the transaction.
        """
        if not self._open:
            raise _aborted_error(topic)
        options: dict[str, Any] = {} if partition is None else {"partition": partition}
        if headers:
            options["headers"] = list(headers.items()) if isinstance(headers, Mapping) else headers
        deadline = time.monotonic() + self._within.total_seconds()
        try:
            while not self._queued(topic, value, key, options):
                if time.monotonic() > deadline:
                    raise self._aborted("the records could not be sent in time", topic)
                self._producer.poll(0.1)
            self._producer.poll(0)  # which also raises if this producer was fenced
        except KafkaException as raised:
            error = kafka_error(raised)
            if not self._open and error is not None and error.code() == KafkaError._STATE:
                raise _aborted_error(topic) from None
            raise self._error(raised, topic) from None

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int],
        group_metadata: Any,
        note_of: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """Commit these offsets of a consumer group with the transaction.

        `group_metadata` is the consumer's `consumer_group_metadata()`; with it the brokers reject the offsets
        of a consumer that has lost its partitions. `note_of` returns the metadata for a topic's offsets.
        """
        positions = [
            confluent_kafka.TopicPartition(topic, partition, offset, metadata=note_of(topic) or "")
            for (topic, partition), offset in offsets.items()
        ]
        if positions:
            self._retrying(
                lambda seconds: self._producer.send_offsets_to_transaction(positions, group_metadata, seconds)
            )

    def commit(self) -> None:
        """Wait until all records are delivered, then make them visible atomically.

        BrokerUnreachableError if no answer comes in time; then this producer can neither abort nor begin another
        transaction.
        """
        try:
            self._retrying(lambda seconds: self._producer.commit_transaction(seconds))
        except RetriableError:
            if not self._open:  # it was aborted
                raise
            self._open = False
            raise BrokerUnreachableError(
                f"no answer to a commit of producer {self.transactional_id} in {self._within.total_seconds():g} s",
                hint="it may have taken effect; open a new producer and continue from the committed offsets",
            ) from None
        self._open = False

    def abort(self) -> None:
        """Abort the transaction, if one is open."""
        self._abort(self._within.total_seconds())

    def close(self) -> None:
        """Abort the open transaction, if any."""
        with contextlib.suppress(FencedError, RetriableError):  # the brokers abort it after its timeout
            self._abort(_CLOSE_SECONDS)

    def _abort(self, within: float) -> None:
        if self._open:
            self._open = False
            # An abort that reaches the brokers while they still finish the last transaction fails for good.
            self._producer.flush(_FLUSH_SECONDS)
            self._retrying(lambda seconds: self._producer.abort_transaction(seconds), within)

    def __enter__(self) -> TransactionalProducer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _queued(self, topic: str, value: bytes | None, key: bytes | None, options: dict[str, Any]) -> bool:
        try:
            on_delivery = self._delivered_to_partition if "partition" in options else self._delivered
            self._producer.produce(topic, value, key, on_delivery=on_delivery, **options)
        except BufferError:
            return False
        return True

    def _delivered_to_partition(self, error: KafkaError | None, record: Any) -> None:
        if error is None:
            self.last_offset = record.offset()
        self._delivered(error, record)

    def _delivered(self, error: KafkaError | None, record: Any) -> None:
        if error is not None and (error.code() in _TOO_LARGE or is_denied(error)):
            self._rejected = (error, record.topic())

    def _retrying(self, call: Callable[[float], object], within: float | None = None) -> None:
        """Repeat the call until it succeeds, fails for good, or the time is over."""
        pause = Event()
        deadline = time.monotonic() + (self._within.total_seconds() if within is None else within)
        while True:
            try:
                call(max(1.0, deadline - time.monotonic()))
                return
            except KafkaException as raised:
                error = kafka_error(raised)
                if error is None or not error.retriable() or time.monotonic() > deadline:
                    raise self._error(raised) from None
                pause.wait(0.1)

    def _error(self, raised: KafkaException, topic: str | None = None) -> GearshiftError:
        error = kafka_error(raised)
        if error is None:
            return self._client.translated(raised, topic=topic)
        if is_denied(error) and not error.txn_requires_abort():
            self._open = False
            return self._client.denied(error, topic=topic)
        if _is_fatal(error):
            self._open = False
            return self._fenced(error, topic)
        if error.code() in _NOT_A_MEMBER:
            self._abort_failed()
            return NotAMemberError(
                f"the group rejected the offsets of {self.transactional_id}: {error.str()}",
                hint="its partitions moved to another member, which continues from the last commit",
                topic=topic,
            )
        # An open transaction that accepts no records has failed already; aborting it shows whether it is fatal.
        if error.txn_requires_abort() or (self._open and error.code() == KafkaError._STATE):
            return self._aborted(error.str(), topic)
        if error.code() in _TOO_LARGE:
            return _too_large_error(error, topic)
        if error.retriable():
            return RetriableError(
                f"the transaction cannot continue: {error.str()}",
                hint="check that all brokers are running",
                topic=topic,
            )
        return self._client.translated(raised, topic=topic)

    def _fenced(self, error: KafkaError, topic: str | None = None) -> FencedError:
        return FencedError(
            f"producer {self.transactional_id} was fenced: {error.str()}",
            hint="another producer with its id took over, or the brokers aborted a transaction that was open for "
            f"{self._within.total_seconds():g} s; open a new one to continue",
            topic=topic,
        )

    def _aborted(self, why: str, topic: str | None) -> GearshiftError:
        self._abort_failed()
        with contextlib.suppress(KafkaException):
            self._producer.poll(0)  # calls `_delivered` with the record that failed
        if self._rejected is not None:
            error, rejecting = self._rejected
            if is_denied(error):
                return self._client.denied(error, topic=rejecting)
            return _too_large_error(error, rejecting)
        return RetriableError(
            f"the transaction was aborted: {why}", hint="send the same records in a new one", topic=topic
        )

    def _abort_failed(self) -> None:
        if not self._open:
            return
        self._open = False
        try:
            # With records in flight behind a failed one, librdkafka's abort would wait for its whole timeout.
            self._producer.flush(_FLUSH_SECONDS)
            self._producer.abort_transaction(self._within.total_seconds())
        except KafkaException as raised:
            error = kafka_error(raised)
            if error is not None and _is_fatal(error):
                raise self._fenced(error) from None


def _is_fatal(error: KafkaError) -> bool:
    return error.fatal() or error.code() in _FENCED


def _aborted_error(topic: str) -> RetriableError:
    return RetriableError(
        "the transaction was aborted", hint="send the same records in a new one", topic=topic
    )


def _too_large_error(error: KafkaError, topic: str | None) -> ProduceError:
    return ProduceError(
        f"a record cannot be delivered: {error.str()}",
        hint="raise the topic's max.message.bytes",
        topic=topic,
    )
