"""A consumer-group member that reports assignments through callbacks and commits offsets explicitly."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from gearshift.errors import (
    BrokerUnreachableError,
    DeliveryError,
    GearshiftError,
    LoginError,
    NotAMemberError,
    NotAuthorizedError,
    OffsetGoneError,
    RetriableError,
)
from gearshift.topics.client import UNPOLLED, Client, is_denied, kafka_error
from gearshift.topics.groups.commit_metadata import Committed, Note
from gearshift.topics.partitions import TopicPartition

if TYPE_CHECKING:
    from gearshift.connection import Connection

Message = Any  # confluent_kafka.Message, which is untyped
OnCommitted = Callable[[GearshiftError | None], None]

_log = logging.getLogger(__name__)
_CHUNK = 500
_ANSWER_WITHIN = 10.0
_NOT_A_MEMBER = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError._STATE,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._FENCED,
}
_TRUNCATED = re.compile(r"truncation detected .* broker end offset is (\d+)")
_GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}


class GroupConsumer:
    """One consumer of a group.

    `on_assigned` gets new partitions and returns the start offset of each; `on_revoked` is called before partitions
    move to another member, `on_lost` after they have moved. All three are called from within `poll`.

    confluent-kafka aborts the process if a callback follows a blocking call that an earlier callback made within the
    same poll. So there is a second client for lookups within callbacks, and callbacks commit only with
    `commit_soon`, which is answered before the partitions move.
    """

    def __init__(
        self,
        connection: Connection,
        group_id: str,
        topics: Iterable[str],
        *,
        on_assigned: Callable[[list[TopicPartition]], Mapping[TopicPartition, int]],
        on_revoked: Callable[[list[TopicPartition]], None],
        on_lost: Callable[[list[TopicPartition]], None],
        note_of: Callable[[TopicPartition], Note] = lambda _: Note(),
        max_poll_interval: timedelta = timedelta(minutes=5),
    ) -> None:
        """`note_of` returns the note to commit with a partition's offset."""
        self.group_id = group_id
        self._connection = connection
        self._topics = list(topics)
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost
        self._note_of = note_of
        self.in_callback = False
        self._admin: Any = None
        self._pending: dict[frozenset[tuple[str, int, int]], list[tuple[float, OnCommitted]]] = {}
        self._max_poll_interval = max_poll_interval
        self._moved: dict[TopicPartition, int | None] = {}
        self._lookups: Any = Client(connection, group_id=group_id, enable_auto_commit=False, **UNPOLLED).open(
            Consumer
        )
        self.protocol = "consumer"
        self._open()

    def poll(self, timeout: timedelta, limit: int = _CHUNK) -> list[Message]:
        """The records that arrived, after waiting at most `timeout` for the first; see `error_of` for errors among them."""
        # `consume` would wait until it has the number requested: the first record must not wait for others.
        self._moved.clear()
        try:
            first = self._consumer.poll(timeout.total_seconds())
            messages = [] if first is None else [first]
            if messages and limit > 1:
                messages += self._consumer.consume(limit - 1, 0)
        except KafkaException as raised:
            raise self._client.translated(raised) from None
        return self._of_one_assignment(messages) if self._moved and messages else messages

    def _of_one_assignment(self, messages: list[Message]) -> list[Message]:
        """Drop the records of partitions that were assigned or revoked during the poll: they may be of either side.

        A partition that was assigned is read again from its start offset.
        """
        kept = [each for each in messages if (each.topic(), each.partition()) not in self._moved]
        dropped = {(each.topic(), each.partition()) for each in messages}  # errors too: they occur again
        for partition, start in self._moved.items():
            if start is not None and partition in dropped:
                self.seek(partition, start)
        return kept

    def error_of(self, message: Message) -> GearshiftError | None:
        """The error of this partition; None if librdkafka recovers from it. OffsetGoneError needs a seek."""
        error: KafkaError = message.error()
        topic, partition = message.topic(), message.partition()
        code = error.code()
        if code == KafkaError._FATAL and "ConsumerGroupHeartbeat" in error.str() and self._fall_back():
            return None
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            truncated = _TRUNCATED.search(error.str())
            return OffsetGoneError(
                "the next record was deleted",
                topic=topic,
                partition=partition if partition >= 0 else None,
                offset=int(truncated[1]) if truncated else None,
            )
        if code in _GONE:
            return self._client.translated(KafkaException(error), topic=topic)
        if error.fatal() or code == KafkaError._FATAL:
            return DeliveryError(error.str(), hint="the consumer restarts", topic=topic)
        failure = self._client.translated(KafkaException(error), topic=topic)
        if isinstance(failure, LoginError | NotAuthorizedError):
            return failure
        if isinstance(failure, BrokerUnreachableError) or error.retriable():
            return None  # librdkafka resumes when the broker is back
        _log.warning("%s: %s", self.group_id, failure)
        return None

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions until `resume`."""
        self._consumer.pause([confluent_kafka.TopicPartition(*each) for each in partitions])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch these partitions again."""
        self._consumer.resume([confluent_kafka.TopicPartition(*each) for each in partitions])

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue reading a partition from this offset."""
        # An assignment with an offset works in every state of the partition, a seek only while it is fetched.
        self._consumer.incremental_unassign([confluent_kafka.TopicPartition(*partition)])
        self._consumer.incremental_assign([confluent_kafka.TopicPartition(*partition, offset)])

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit and wait for the broker's answer.

        NotAMemberError if this consumer is no longer a member of the group; RetriableError if no broker
        accepted the commit, which can take a minute. Not for use within a callback.
        """
        if not offsets:
            return
        positions = self._positions(offsets)
        try:
            done = self._consumer.commit(offsets=positions, asynchronous=False) or ()
        except KafkaException as raised:
            failure = self._commit_error(kafka_error(raised), str(raised))
            if failure is not None:
                raise failure from None
            return
        for each in done:
            failure = self._commit_error(each.error, str(each.error)) if each.error is not None else None
            if failure is not None:
                raise failure

    def commit_soon(self, offsets: Mapping[TopicPartition, int], on_committed: OnCommitted) -> None:
        """Commit without waiting; a later `poll` calls `on_committed` with `commit`'s error or None."""
        if not offsets:
            on_committed(None)
            return
        positions = self._positions(offsets)
        self._pending.setdefault(_key_of(positions), []).append((time.monotonic(), on_committed))
        try:
            self._consumer.commit(offsets=positions, asynchronous=True)
        except KafkaException as raised:
            self._committed(kafka_error(raised), positions)

    def _committed(self, error: KafkaError | None, positions: list[confluent_kafka.TopicPartition]) -> None:
        errors = [each for each in (error, *(position.error for position in positions)) if each is not None]
        failure = next((found for each in errors if (found := self._commit_error(each, str(each)))), None)
        for _, on_committed in self._pending.pop(_key_of(positions), ()):
            on_committed(failure)

    @property
    def unanswered(self) -> float:
        """The seconds since the oldest commit by `commit_soon` that has no answer yet; 0 without one."""
        began = min((sent[0][0] for sent in self._pending.values()), default=None)
        return 0.0 if began is None else time.monotonic() - began

    def _commit_error(self, error: KafkaError | None, reason: str) -> GearshiftError | None:
        if error is not None and error.code() in _NOT_A_MEMBER:
            return NotAMemberError(f"this consumer is no longer a member of group {self.group_id}: {reason}")
        if error is not None and is_denied(error):
            return self._client.denied(error)
        if error is not None and error.code() in _GONE:
            return None  # a deleted topic needs no offsets
        return RetriableError(
            f"group {self.group_id} could not commit: {reason}", hint="check that all brokers are running"
        )

    def committed(
        self, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, str | None]
    ) -> dict[TopicPartition, Committed]:
        """The group's committed offsets of these partitions; those without one are left out.

        So are offsets of an earlier topic with the same name, which a late commit may have left.
        """
        wanted = [confluent_kafka.TopicPartition(*partition) for partition in partitions]
        try:
            found: list[Any] = self._lookups.committed(wanted, timeout=_ANSWER_WITHIN) if wanted else []
        except KafkaException as raised:
            raise self._client.translated(raised) from None
        offsets: dict[TopicPartition, Committed] = {}
        for each in found:
            note, topic_id = Note.read(each.metadata), topic_ids.get(each.topic)
            if None not in (topic_id, note.topic_id) and topic_id != note.topic_id:
                _log.warning(
                    "%s: ignoring offset %d of %s/%d: the topic was deleted and created again",
                    self.group_id,
                    each.offset,
                    each.topic,
                    each.partition,
                )
            elif each.offset >= 0:
                offsets[each.topic, each.partition] = Committed(each.offset, note)
        return offsets

    def _positions(self, offsets: Mapping[TopicPartition, int]) -> list[confluent_kafka.TopicPartition]:
        return [
            confluent_kafka.TopicPartition(*partition, offset, metadata=str(self._note_of(partition)))
            for partition, offset in offsets.items()
        ]

    def _admin_client(self) -> Any:
        if self._admin is None:
            self._admin = Client(self._connection, **UNPOLLED).open(AdminClient)
        return self._admin

    def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """The beginning and end offsets of a partition."""
        topic, number = partition
        try:
            if partition not in self.partitions_of(topic):  # which also refreshes the client's metadata
                raise self._client.translated(KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION)))
            found = self._lookups.get_watermark_offsets(
                confluent_kafka.TopicPartition(*partition), timeout=_ANSWER_WITHIN
            )
        except KafkaException as raised:
            raise self._client.translated(raised, topic=topic, partition=number) from None
        if found is None:
            raise self._client.unreachable()
        return found

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic; empty if it does not exist."""
        try:
            known = self._lookups.list_topics(topic, timeout=_ANSWER_WITHIN).topics.get(topic)
        except KafkaException as raised:
            raise self._client.translated(raised, topic=topic) from None
        return [(topic, partition) for partition in sorted(known.partitions)] if known else []

    def owned(self) -> set[TopicPartition]:
        """The partitions that are assigned to this consumer according to the group's coordinator."""
        try:
            asked = self._admin_client().describe_consumer_groups(
                [self.group_id], request_timeout=_ANSWER_WITHIN
            )
            members: list[Any] = asked[self.group_id].result().members
        except KafkaException as raised:
            raise self._client.translated(raised) from None
        own = self._consumer.memberid()
        return {
            (each.topic, each.partition)
            for member in members
            if member.member_id == own
            for each in member.assignment.topic_partitions
        }

    @property
    def membership(self) -> Any:
        """The group metadata with which a transaction commits offsets for this member only."""
        return self._consumer.consumer_group_metadata()

    def join_again(self) -> None:
        """Leave the group, which calls `on_revoked`, and join it as a new member."""
        self._consumer.close()
        pending, self._pending = self._pending, {}
        for _, on_committed in (each for sent in pending.values() for each in sent):
            on_committed(RetriableError(f"left group {self.group_id} before it answered a commit"))
        self._open()

    def close(self) -> None:
        """Leave the group, which calls `on_revoked` for the assigned partitions."""
        self._consumer.close()
        self._lookups.close()

    def _open(self) -> None:
        classic: dict[str, Any] = (
            {"partition_assignment_strategy": "cooperative-sticky"} if self.protocol == "classic" else {}
        )
        self._client = Client(
            self._connection,
            group_id=self.group_id,
            group_protocol=self.protocol,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            auto_offset_reset="error",  # on_assigned alone decides where a partition starts
            isolation_level="read_committed",
            check_crcs=True,
            fetch_wait_max_ms=100,
            fetch_error_backoff_ms=50,
            fetch_queue_backoff_ms=50,  # the default of one second without a fetch after a full queue leaves a quick handler idle
            queued_min_messages=20_000,
            queued_max_messages_kbytes=16_384,
            max_poll_interval_ms=round(self._max_poll_interval / timedelta(milliseconds=1)),
            **classic,
        )
        self._client.properties["on_commit"] = self._committed
        self._consumer: Any = self._client.open(Consumer)
        self._consumer.subscribe(
            self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def _fall_back(self) -> bool:
        """Join again with the classic protocol; False if this consumer uses it already."""
        if self.protocol == "classic":
            return False
        _log.info("%s: the brokers are older than KIP-848; using the classic group protocol", self.group_id)
        self.protocol = "classic"
        self.join_again()
        return True

    def _assigned(self, _consumer: Any, partitions: list[confluent_kafka.TopicPartition]) -> None:
        assigned = [(each.topic, each.partition) for each in partitions]
        with self._calling_back():
            starts: Mapping[TopicPartition, int] = self._on_assigned(assigned) if assigned else {}
        self._moved.update(starts)
        self._consumer.incremental_assign(
            [confluent_kafka.TopicPartition(*each, starts[each]) for each in assigned]
        )

    def _revoked(self, _consumer: Any, partitions: list[confluent_kafka.TopicPartition]) -> None:
        revoked = [(each.topic, each.partition) for each in partitions]
        self._moved.update(dict.fromkeys(revoked))
        with self._calling_back():
            self._on_revoked(revoked)

    def _lost(self, _consumer: Any, partitions: list[confluent_kafka.TopicPartition]) -> None:
        lost = [(each.topic, each.partition) for each in partitions]
        self._moved.update(dict.fromkeys(lost))
        with self._calling_back():
            self._on_lost(lost)

    @contextmanager
    def _calling_back(self) -> Generator[None]:
        self.in_callback = True
        try:
            yield
        finally:
            self.in_callback = False


def _key_of(positions: Iterable[confluent_kafka.TopicPartition]) -> frozenset[tuple[str, int, int]]:
    return frozenset((each.topic, each.partition, each.offset) for each in positions)
