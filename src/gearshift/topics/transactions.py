"""Records and offsets that are written together or not at all."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from gearshift.errors import (
    BrokerUnreachableError,
    FencedError,
    GearshiftError,
    NotAMemberError,
    ProduceError,
    RetriableError,
)
from gearshift.topics.client import LARGEST_RECORD, Client, kafka_error

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
_NEVER_TAKEN = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE, KafkaError.INVALID_RECORD}
_OVERTAKEN_WITHIN = 5.0
_CLOSES_WITHIN = 10.0
# What a group says of a consumer that is no longer the one it was: its offsets are not taken any more.
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

    Where the cluster only needs time, the call itself tries again. Where a transaction cannot succeed any more,
    it is aborted and RetriableError says so: nothing of it is seen, and the same records can be sent in a new
    one; ProduceError if one of them is larger than its topic will ever take. NotAMemberError if the group
    gave the partitions to another consumer, which takes the open transaction back as well. FencedError is the
    end of this producer: another one took its place, or the brokers ended a transaction that was open for too long,
    and whether a commit that was under way then took effect, only its offsets tell.
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
        """`within` is how long a transaction may stay open before the brokers abort it."""
        self.transactional_id = transactional_id
        self._within = within
        self._open = False
        self._never_taken: tuple[KafkaError, str] | None = None
        self.placed_at: int | None = None
        """The offset of the last record that was sent to a partition by its number."""
        self._client = Client(
            connection,
            transactional_id=transactional_id,
            transaction_timeout_ms=round(within / timedelta(milliseconds=1)),
            # A record may not outlive its transaction.
            delivery_timeout_ms=round(within / timedelta(milliseconds=1)),
            linger_ms=linger / timedelta(milliseconds=1),
            compression_type=compression,
            message_max_bytes=LARGEST_RECORD,
            partitioner="murmur2_random",  # as Producer, so that both put a key on the same partition
            sticky_partitioning_linger_ms=0,
            # Offsets go to the group's coordinator, which is remembered for as long as metadata. librdkafka looks
            # for another one only after some connection has changed (its issues 5511 and 5456), and else waits
            # for ever for one that is gone: so idle connections close, and what is remembered does not get old.
            connections_max_idle_ms=10_000,
            metadata_max_age_ms=10_000,
        )
        self._producer: Any = self._client.open(confluent_kafka.Producer)
        self._again(lambda seconds: self._producer.init_transactions(seconds))

    @property
    def is_open(self) -> bool:
        """Whether a transaction is under way."""
        return self._open

    @property
    def refusal(self) -> ProduceError | None:
        """Why this transaction can never be committed: one of its records is larger than its topic takes."""
        return None if self._never_taken is None else _too_large(*self._never_taken)

    def begin(self) -> None:
        """Begin a transaction."""
        self._again(lambda _: self._producer.begin_transaction())
        self._open = True
        self._never_taken = None

    def send_bytes(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> None:
        """Hand over a record; whether it arrived is known when `commit` returns.

        RetriableError if the transaction is over, because another thread found that it had to be aborted.
        """
        if not self._open:
            raise _over(topic)
        options: dict[str, Any] = {} if partition is None else {"partition": partition}
        if headers:
            options["headers"] = list(headers.items()) if isinstance(headers, Mapping) else headers
        deadline = time.monotonic() + self._within.total_seconds()
        try:
            while not self._taken(topic, value, key, options):
                if time.monotonic() > deadline:
                    raise self._aborted("the records do not leave in time", topic)
                self._producer.poll(0.1)
            self._producer.poll(0)  # which tells as well if this producer was fenced
        except KafkaException as raised:
            error = kafka_error(raised)
            if not self._open and error is not None and error.code() == KafkaError._STATE:
                raise _over(topic) from None
            raise self._refused(raised, topic) from None

    def send_offsets(
        self,
        offsets: Mapping[tuple[str, int], int],
        group_metadata: Any,
        note_of: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """Commit these offsets of a consumer's group with the transaction.

        `group_metadata` is what the consumer's `consumer_group_metadata()` gives; with it the brokers refuse
        the offsets of a consumer that has lost its partitions. `note_of` is what each says of its topic.
        """
        places = [
            TopicPartition(topic, partition, offset, metadata=note_of(topic) or "")
            for (topic, partition), offset in offsets.items()
        ]
        if places:
            self._again(
                lambda seconds: self._producer.send_offsets_to_transaction(places, group_metadata, seconds)
            )

    def commit(self) -> None:
        """Wait until everything has arrived and make it seen, all at once.

        BrokerUnreachableError if no answer comes in time, which is the end of this producer as well: it may neither
        take back what it did nor begin anew.
        """
        try:
            self._again(lambda seconds: self._producer.commit_transaction(seconds))
        except RetriableError:
            if not self._open:  # it was taken back
                raise
            self._open = False
            raise BrokerUnreachableError(
                f"no answer to a commit of producer {self.transactional_id} in {self._within.total_seconds():g} s",
                hint="nobody knows whether it took effect; open a new one, and go on from what is committed",
            ) from None
        self._open = False

    def abort(self) -> None:
        """Take back everything since `begin`; nothing happens if no transaction is open."""
        self._abort(self._within.total_seconds())

    def close(self) -> None:
        """Take back what was not committed, then let go."""
        with contextlib.suppress(FencedError, RetriableError):  # the brokers then abort it themselves
            self._abort(_CLOSES_WITHIN)

    def _abort(self, within: float) -> None:
        if self._open:
            self._open = False
            # An abort that overtakes the brokers, who still finish the last transaction, is refused for good.
            self._producer.flush(_OVERTAKEN_WITHIN)
            self._again(lambda seconds: self._producer.abort_transaction(seconds), within)

    def __enter__(self) -> TransactionalProducer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _taken(self, topic: str, value: bytes | None, key: bytes | None, options: dict[str, Any]) -> bool:
        try:
            told = self._placed if "partition" in options else self._delivered
            self._producer.produce(topic, value, key, on_delivery=told, **options)
        except BufferError:
            return False
        return True

    def _placed(self, error: KafkaError | None, record: Any) -> None:
        if error is None:
            self.placed_at = record.offset()
        self._delivered(error, record)

    def _delivered(self, error: KafkaError | None, record: Any) -> None:
        if error is not None and error.code() in _NEVER_TAKEN:
            self._never_taken = (error, record.topic())

    def _again(self, call: Callable[[float], object], within: float | None = None) -> None:
        """Make the call until it succeeds, or fails for good, or the time is over."""
        pause = Event()
        deadline = time.monotonic() + (self._within.total_seconds() if within is None else within)
        while True:
            try:
                call(max(1.0, deadline - time.monotonic()))
                return
            except KafkaException as raised:
                error = kafka_error(raised)
                if error is None or not error.retriable() or time.monotonic() > deadline:
                    raise self._refused(raised) from None
                pause.wait(0.1)

    def _refused(self, raised: KafkaException, topic: str | None = None) -> GearshiftError:
        error = kafka_error(raised)
        if error is None:
            return self._client.translated(raised, topic=topic)
        if _is_the_end(error):
            self._open = False
            return self._fenced(error, topic)
        if error.code() in _NOT_A_MEMBER:
            self._take_back()
            return NotAMemberError(
                f"the group takes no offsets of {self.transactional_id}: {error.str()}",
                hint="its partitions went to another member, which goes on from the last commit",
                topic=topic,
            )
        # An open transaction that takes no more records has failed already; aborting it tells how badly.
        if error.txn_requires_abort() or (self._open and error.code() == KafkaError._STATE):
            return self._aborted(error.str(), topic)
        if error.code() in _NEVER_TAKEN:
            return _too_large(error, topic)
        if error.retriable():
            return RetriableError(
                f"the transaction cannot go on: {error.str()}", hint="are all brokers up?", topic=topic
            )
        return self._client.translated(raised, topic=topic)

    def _fenced(self, error: KafkaError, topic: str | None = None) -> FencedError:
        return FencedError(
            f"producer {self.transactional_id} may write no more: {error.str()}",
            hint="another one with its name took over, or the brokers ended a transaction that was open for "
            f"{self._within.total_seconds():g} s; open a new one where that is wanted",
            topic=topic,
        )

    def _aborted(self, why: str, topic: str | None) -> GearshiftError:
        self._take_back()
        with contextlib.suppress(KafkaException):
            self._producer.poll(0)  # lets `_delivered` tell which record it was
        if self._never_taken is not None:
            return _too_large(*self._never_taken)
        return RetriableError(
            f"the transaction was aborted: {why}", hint="send the same records in a new one", topic=topic
        )

    def _take_back(self) -> None:
        if not self._open:
            return
        self._open = False
        try:
            # With records still under way behind a refused one, librdkafka's abort waits out its whole time limit.
            self._producer.flush(_OVERTAKEN_WITHIN)
            self._producer.abort_transaction(self._within.total_seconds())
        except KafkaException as raised:
            error = kafka_error(raised)
            if error is not None and _is_the_end(error):
                raise self._fenced(error) from None


def _is_the_end(error: KafkaError) -> bool:
    return error.fatal() or error.code() in _FENCED


def _over(topic: str) -> RetriableError:
    return RetriableError(
        "the transaction was aborted", hint="send the same records in a new one", topic=topic
    )


def _too_large(error: KafkaError, topic: str | None) -> ProduceError:
    return ProduceError(
        f"a record is never taken: {error.str()}", hint="raise the topic's max.message.bytes", topic=topic
    )
