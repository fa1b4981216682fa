"""A member of a consumer group: assignments told, offsets under our own control."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from gearshift.errors import (
    BrokerUnreachableError,
    DeliveryError,
    GearshiftError,
    NotAMemberError,
    OffsetGoneError,
    RetriableError,
)
from gearshift.topics.client import UNPOLLED, Client, kafka_error

if TYPE_CHECKING:
    from gearshift.connection import Connection

Place = tuple[str, int]
Message = Any  # confluent_kafka.Message, of which the library types nothing
Heard = Callable[[GearshiftError | None], None]

_log = logging.getLogger(__name__)
_CHUNK = 500
_ANSWER_WITHIN = 10.0
_NO_MEMBER = {
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
_TOPIC_ID = "topic-id:"
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # the zero that brokers older than topic ids give
_TRUNCATED = re.compile(r"truncation detected .* broker end offset is (\d+)")
_GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}


class GroupConsumer:
    """One consumer of a group.

    `on_assigned` is told of new partitions and says where each begins; `on_revoked` is told before partitions
    go to another member, `on_lost` after they went. All three are called from within `poll`.

    confluent-kafka aborts the process if one of its callbacks comes after a blocking call made by an earlier one
    within the same poll. So there are two clients: what is looked up within a callback is asked of the second,
    and a commit within a callback is one of those that do not wait; it is answered before the partitions go.
    """

    def __init__(
        self,
        connection: Connection,
        group_id: str,
        topics: Iterable[str],
        *,
        on_assigned: Callable[[list[Place]], Mapping[Place, int]],
        on_revoked: Callable[[list[Place]], None],
        on_lost: Callable[[list[Place]], None],
        max_poll_interval: timedelta = timedelta(minutes=5),
    ) -> None:
        self.group_id = group_id
        self._connection = connection
        self._topics = list(topics)
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost
        self.in_callback = False
        self._admin: Any = None
        self._waiting: dict[frozenset[tuple[str, int, int]], list[tuple[float, Heard]]] = {}
        self._max_poll_interval = max_poll_interval
        self._moved: dict[Place, int | None] = {}
        self._topic_ids: dict[str, str | None] = {}
        self._lookups: Any = Client(connection, group_id=group_id, enable_auto_commit=False, **UNPOLLED).open(
            Consumer
        )
        self._open("consumer")

    def poll(self, timeout: timedelta, limit: int = _CHUNK) -> list[Message]:
        """The records that came, at most after this time; what those that bring an error mean, `error_of` tells."""
        # `consume` would wait until it has all it was asked for: the first record must not wait for others.
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
        """Without the records of partitions that came or went meanwhile: nobody can tell which assignment they are of.

        A partition that came is read from its beginning again.
        """
        kept = [each for each in messages if (each.topic(), each.partition()) not in self._moved]
        dropped = {(each.topic(), each.partition()) for each in messages}  # errors too: they come again
        for place, start in self._moved.items():
            if start is not None and place in dropped:
                self.seek(place, start)
        return kept

    def error_of(self, message: Message) -> GearshiftError | None:
        """What stands in the way of this partition, or None if it passes by itself; OffsetGoneError has its own way."""
        error: KafkaError = message.error()
        topic, partition = message.topic(), message.partition()
        code = error.code()
        if code == KafkaError._FATAL and "ConsumerGroupHeartbeat" in error.str() and self._fall_back():
            return None
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            truncated = _TRUNCATED.search(error.str())
            return OffsetGoneError(
                "the next record is gone",
                topic=topic,
                partition=partition if partition >= 0 else None,
                offset=int(truncated[1]) if truncated else None,
            )
        if code in _GONE:
            return self._client.translated(KafkaException(error), topic=topic)
        if error.fatal() or code == KafkaError._FATAL:
            return DeliveryError(error.str(), hint="the consumer starts again", topic=topic)
        refused = self._client.translated(KafkaException(error), topic=topic)
        if isinstance(refused, BrokerUnreachableError) or error.retriable():
            return None  # librdkafka goes on by itself when the broker is back
        _log.warning("%s: %s", self.group_id, refused)
        return None

    def pause(self, places: Iterable[Place]) -> None:
        """Fetch no records of these partitions until `resume`."""
        self._consumer.pause([TopicPartition(*place) for place in places])

    def resume(self, places: Iterable[Place]) -> None:
        """Fetch records of these partitions again."""
        self._consumer.resume([TopicPartition(*place) for place in places])

    def seek(self, place: Place, offset: int) -> None:
        """Go on reading a partition from this offset."""
        # An assignment with an offset works in every state of the partition, a seek only while it is fetched.
        self._consumer.incremental_unassign([TopicPartition(*place)])
        self._consumer.incremental_assign([TopicPartition(*place, offset)])

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """Commit, and return when the broker has it.

        NotAMemberError if the group went on without us; RetriableError if no broker took it, which can take
        a minute. Not from within a callback.
        """
        if not offsets:
            return
        places = self._noted(offsets)
        try:
            done = self._consumer.commit(offsets=places, asynchronous=False) or ()
        except KafkaException as raised:
            refused = self._refused(kafka_error(raised), str(raised))
            if refused is not None:
                raise refused from None
            return
        for place in done:
            refused = self._refused(place.error, str(place.error)) if place.error is not None else None
            if refused is not None:
                raise refused

    def commit_soon(self, offsets: Mapping[Place, int], heard: Heard) -> None:
        """Commit without waiting; a later `poll` tells `heard` the error that `commit` would raise, or None."""
        if not offsets:
            heard(None)
            return
        places = self._noted(offsets)
        self._waiting.setdefault(_known_by(places), []).append((time.monotonic(), heard))
        try:
            self._consumer.commit(offsets=places, asynchronous=True)
        except KafkaException as raised:
            self._committed(kafka_error(raised), places)

    def _committed(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        errors = [each for each in (error, *(place.error for place in places)) if each is not None]
        refused = next((found for each in errors if (found := self._refused(each, str(each)))), None)
        for _, heard in self._waiting.pop(_known_by(places), ()):
            heard(refused)

    @property
    def unanswered(self) -> float:
        """For how many seconds the oldest commit that was not waited for has no answer."""
        began = min((sent[0][0] for sent in self._waiting.values()), default=None)
        return 0.0 if began is None else time.monotonic() - began

    def _refused(self, error: KafkaError | None, words: str) -> GearshiftError | None:
        if error is not None and error.code() in _NO_MEMBER:
            return NotAMemberError(f"group {self.group_id} went on without this consumer: {words}")
        if error is not None and error.code() in _GONE:
            return None  # a topic that was deleted has no offsets to keep
        return RetriableError(f"group {self.group_id} could not commit: {words}", hint="is a broker down?")

    def committed(self, places: Iterable[Place]) -> dict[Place, int]:
        """The group's committed offsets of those of these partitions that have one.

        Not those of a topic that was deleted and created again since: a late commit may have outlived it.
        """
        wanted = [TopicPartition(*place) for place in places]
        try:
            found: list[Any] = self._lookups.committed(wanted, timeout=_ANSWER_WITHIN) if wanted else []
        except KafkaException as raised:
            raise self._client.translated(raised) from None
        return {
            (place.topic, place.partition): place.offset
            for place in found
            if place.offset >= 0 and self._is_of_this_topic(place)
        }

    def _is_of_this_topic(self, committed: TopicPartition) -> bool:
        noted, now = committed.metadata or "", self._topic_ids.get(committed.topic)
        if now is None or not noted.startswith(_TOPIC_ID) or noted == f"{_TOPIC_ID}{now}":
            return True
        _log.warning(
            "%s: offset %d of %s/%d is of a topic that was deleted and created again; it does not count",
            self.group_id,
            committed.offset,
            committed.topic,
            committed.partition,
        )
        return False

    def note_of(self, topic: str) -> str | None:
        """What a commit of this topic's offsets says of it."""
        topic_id = self._topic_ids.get(topic)
        return None if topic_id is None else f"{_TOPIC_ID}{topic_id}"

    def _noted(self, offsets: Mapping[Place, int]) -> list[TopicPartition]:
        return [
            TopicPartition(topic, partition, offset, metadata=self.note_of(topic) or "")
            for (topic, partition), offset in offsets.items()
        ]

    def topic_id(self, topic: str) -> str | None:
        """Which topic of this name there is now; None if there is none, or the brokers do not say."""
        asked = self._asking().describe_topics(TopicCollection([topic]), request_timeout=_ANSWER_WITHIN)
        try:
            found = str(asked[topic].result().topic_id)
        except KafkaException as raised:
            error = kafka_error(raised)
            if error is None or error.code() not in _GONE:
                raise self._client.translated(raised, topic=topic) from None
            found = _NO_ID
        self._topic_ids[topic] = None if found == _NO_ID else found
        return self._topic_ids[topic]

    def _asking(self) -> Any:
        if self._admin is None:
            self._admin = Client(self._connection).open(AdminClient)
        return self._admin

    def bounds(self, place: Place) -> tuple[int, int]:
        """The first offset of a partition and the one its next record will have."""
        try:
            if place not in self.partitions_of(place[0]):  # which also lets the client learn of a new one
                raise self._client.translated(KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION)))
            found = self._lookups.get_watermark_offsets(TopicPartition(*place), timeout=_ANSWER_WITHIN)
        except KafkaException as raised:
            raise self._client.translated(raised, topic=place[0], partition=place[1]) from None
        if found is None:
            raise self._client.unreachable()
        return found

    def partitions_of(self, topic: str) -> list[Place]:
        """All partitions of a topic; none if it does not exist."""
        try:
            known = self._lookups.list_topics(topic, timeout=_ANSWER_WITHIN).topics.get(topic)
        except KafkaException as raised:
            raise self._client.translated(raised, topic=topic) from None
        return [(topic, partition) for partition in sorted(known.partitions)] if known else []

    def owned(self) -> set[Place]:
        """The partitions that are this consumer's, as the group's coordinator sees it."""
        try:
            asked = self._asking().describe_consumer_groups([self.group_id], request_timeout=_ANSWER_WITHIN)
            members: list[Any] = asked[self.group_id].result().members
        except KafkaException as raised:
            raise self._client.translated(raised) from None
        own = self._consumer.memberid()
        return {
            (place.topic, place.partition)
            for member in members
            if member.member_id == own
            for place in member.assignment.topic_partitions
        }

    @property
    def membership(self) -> Any:
        """What a transaction needs in order to commit offsets for this member and no former one."""
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        """Leave the group; `on_revoked` is called for what is held."""
        self._consumer.close()
        self._lookups.close()

    def _open(self, protocol: str) -> None:
        self.protocol = protocol
        classic: dict[str, Any] = (
            {"partition_assignment_strategy": "cooperative-sticky"} if protocol == "classic" else {}
        )
        self._client = Client(
            self._connection,
            group_id=self.group_id,
            group_protocol=protocol,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            auto_offset_reset="error",  # where a partition begins is decided in on_assigned, never in passing
            isolation_level="read_committed",
            check_crcs=True,
            fetch_wait_max_ms=100,
            fetch_error_backoff_ms=50,
            fetch_queue_backoff_ms=50,  # the usual second without a fetch after a full queue leaves a quick handler idle
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
        """Join by the classic protocol, unless we did."""
        if self.protocol == "classic":
            return False
        _log.info("%s: the brokers are older than KIP-848; using the classic group protocol", self.group_id)
        self._consumer.close()
        self._open("classic")
        return True

    def _assigned(self, _consumer: Any, partitions: list[TopicPartition]) -> None:
        places = [(place.topic, place.partition) for place in partitions]
        with self._calling_back():
            begins: Mapping[Place, int] = self._on_assigned(places) if places else {}
        self._moved.update(begins)
        self._consumer.incremental_assign([TopicPartition(*place, begins[place]) for place in places])

    def _revoked(self, _consumer: Any, partitions: list[TopicPartition]) -> None:
        places = [(place.topic, place.partition) for place in partitions]
        self._moved.update(dict.fromkeys(places))
        with self._calling_back():
            self._on_revoked(places)

    def _lost(self, _consumer: Any, partitions: list[TopicPartition]) -> None:
        places = [(place.topic, place.partition) for place in partitions]
        self._moved.update(dict.fromkeys(places))
        with self._calling_back():
            self._on_lost(places)

    @contextmanager
    def _calling_back(self) -> Generator[None]:
        self.in_callback = True
        try:
            yield
        finally:
            self.in_callback = False


def _known_by(places: Iterable[TopicPartition]) -> frozenset[tuple[str, int, int]]:
    return frozenset((place.topic, place.partition, place.offset) for place in places)
