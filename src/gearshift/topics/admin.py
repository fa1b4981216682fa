"""Topics, offsets and consumer groups: what a broker is asked about and told outside of records."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

from gearshift.errors import BrokerUnreachableError, GearshiftError, TopicError, TopicMissingError
from gearshift.topics.client import ANSWER_WITHIN, LARGEST_RECORD, Client, kafka_error, millis, missing
from gearshift.topics.groups import MIRROR, GroupOffsets, Offsets

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Topic

_READY_WITHIN = timedelta(seconds=30)
_MOVING = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError._NOENT,  # librdkafka's word for partitions none of which has a leader yet
    KafkaError.UNKNOWN_TOPIC_OR_PART,  # `require` saw the topic: this broker has yet to hear of it
}
# A copy with headers that say what happened to it is larger than the record was, and may compress less well.
_ROOMY = {"max.message.bytes": str(LARGEST_RECORD)}
_NO_ID = "A" * 22  # sixteen zero bytes: the brokers are older than topic ids
T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as the brokers have it."""

    name: str
    partitions: int
    replicas: int
    leaderless: tuple[int, ...] = ()
    id: str = ""
    """What tells a topic from an earlier one of its name; empty if the brokers give none."""


class Admin:
    """Asks and tells the brokers of one cluster."""

    def __init__(self, connection: Connection, *, answer_within: timedelta = ANSWER_WITHIN) -> None:
        self._seconds = answer_within.total_seconds()
        self._connection = connection
        self._groups: dict[str, GroupOffsets] = {}
        self._client = Client(connection)
        # Any: the library types its futures as holding nothing in particular.
        self._admin: Any = self._client.open(AdminClient)

    def ping(self) -> None:
        """Return if a broker answers; raise BrokerUnreachableError if none does."""
        self._answer(self._admin.describe_cluster(request_timeout=self._seconds))

    def ensure(
        self, topics: Iterable[Topic], *, replicas_default: int | None = None, dead_letters: bool = True
    ) -> list[str]:
        """Create the topics that are missing, each with its dead letters, and return the names of the new ones.

        A topic with fewer partitions than declared is refused: adding them here would move keys between
        partitions behind the back of whoever relies on their order.
        """
        declared: dict[str, Topic] = {}
        for topic in topics:
            declared[topic.name] = topic
            if dead_letters:
                declared.setdefault(topic.dead_letters, topic)
        present = self.describe(declared)
        for name, state in present.items():
            if (
                name in declared
                and state.partitions < declared[name].partitions
                and name == declared[name].name
            ):
                raise _too_few(declared[name], state)
        new = [name for name in declared if name not in present]
        self._create(
            NewTopic(
                name,
                topic.partitions,
                topic.replicas or replicas_default or -1,
                config={} if name == topic.name else _ROOMY,
            )
            for name, topic in declared.items()
            if name in new
        )
        self._await_leaders(list(declared))
        return new

    def describe(self, names: Iterable[str]) -> dict[str, TopicState]:
        """The topics that exist among these, by name."""
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return {}
        futures = self._call(
            lambda: self._admin.describe_topics(TopicCollection(wanted), request_timeout=self._seconds)
        )
        found: dict[str, TopicState] = {}
        for name, future in futures.items():
            try:
                described = future.result()
            except KafkaException as raised:
                error = kafka_error(raised)
                if error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                raise self._translated(raised, name) from None
            partitions, id_ = described.partitions, described.topic_id
            leaderless = tuple(each.id for each in partitions if each.leader is None or each.leader.id < 0)
            found[name] = TopicState(
                name,
                len(partitions),
                min(len(each.replicas) for each in partitions),
                leaderless,
                "" if id_ is None or str(id_) == _NO_ID else str(id_),
            )
        return found

    def require(self, names: Iterable[str]) -> dict[str, TopicState]:
        """The topics with these names; TopicMissingError if one does not exist."""
        wanted = list(names)
        found = self.describe(wanted)
        for name in wanted:
            if name not in found:
                raise missing(name)
        return found

    def names(self) -> list[str]:
        """The names of all topics but Kafka's own."""
        found = self._call(lambda: self._admin.list_topics(timeout=self._seconds))
        return sorted(name for name in found.topics if not name.startswith("__"))

    def ensure_like(self, name: str, model: str) -> None:
        """Create a topic for records of another one, with its partitions and replicas, unless it exists."""
        state = self.require([model])[model]
        if name not in self.describe([name]):
            self._create([NewTopic(name, state.partitions, state.replicas, config=_ROOMY)])
        self._await_leaders([name])

    def ensure_compacted(self, name: str, *, partitions: int, kept: timedelta | None) -> None:
        """Create a topic that keeps the latest record of each key, for so long or for ever, unless it exists."""
        if name not in self.describe([name]):
            config = {"cleanup.policy": "compact"}
            if kept is not None:
                config = {
                    "cleanup.policy": "compact,delete",
                    "retention.ms": str(kept // timedelta(milliseconds=1)),
                    "segment.ms": str(max(kept // 24, timedelta(minutes=10)) // timedelta(milliseconds=1)),
                }
            self._create([NewTopic(name, partitions, -1, config=config)])
        self._await_leaders([name])

    def begin_offsets(self, names: Iterable[str]) -> Offsets:
        """The first offset of each partition."""
        return self._offsets(names, OffsetSpec.earliest())

    def end_offsets(self, names: Iterable[str]) -> Offsets:
        """The offset that the next record of each partition will have."""
        return self._offsets(names, OffsetSpec.latest())

    def stable_offsets(self, names: Iterable[str]) -> Offsets:
        """The offset up to which each partition has no open transaction, and so can be read by everyone."""
        return self._offsets(names, OffsetSpec.latest(), isolation_level=IsolationLevel.READ_COMMITTED)

    def await_stable(self, names: Iterable[str], within: timedelta = timedelta(seconds=5)) -> None:
        """Wait until all that is on the topics now can be read: a commit returns a moment before it is seen.

        Somebody else's transaction may stay open for longer; that is not waited for.
        """
        ends = self.end_offsets(names)
        topics = {topic for topic, _ in ends}

        def waiting() -> list[tuple[str, int]]:
            stable = self.stable_offsets(topics)
            return [place for place, end in ends.items() if stable[place] < end]

        _until_none(waiting, within)

    def offsets_at(self, names: Iterable[str], instant: datetime) -> Offsets:
        """The offset of each partition's first record from this instant on; its end if there is none."""
        wanted = list(names)
        ends = self.end_offsets(wanted)
        found = self._offsets(wanted, OffsetSpec.for_timestamp(millis(instant)))
        return {place: offset if offset >= 0 else ends[place] for place, offset in found.items()}

    def commit_group(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set the offsets of a consumer group that has no members."""
        if offsets:
            self._group(group_id).commit(offsets)

    def mirror_group(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Show where a pipeline is as the offsets of a group, so that Kafka's tools show its lag."""
        if offsets:
            self._group(group_id).commit(offsets, said=MIRROR)

    def group_offsets(self, group_id: str, names: Iterable[str]) -> Offsets:
        """The committed offsets of a consumer group on these topics; empty if it has none."""
        topics = self.require(names).values()
        places = [(state.name, partition) for state in topics for partition in range(state.partitions)]
        return self._group(group_id).committed(places)

    def delete(self, names: Iterable[str]) -> None:
        """Delete the topics that exist among these, with all their records."""
        present = list(self.describe(names))
        if not present:
            return
        futures = self._call(lambda: self._admin.delete_topics(present, request_timeout=self._seconds))
        for name, future in futures.items():
            self._answer(future, name)
        _until_none(lambda: list(self.describe(present)), _READY_WITHIN)

    def close(self) -> None:
        """Close the connections."""
        while self._groups:
            self._groups.popitem()[1].close()
        self._admin.__exit__(None, None, None)

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _group(self, group_id: str) -> GroupOffsets:
        if group_id not in self._groups:
            self._groups[group_id] = GroupOffsets(self._connection, group_id)
        return self._groups[group_id]

    def _create(self, topics: Iterable[NewTopic]) -> None:
        new = list(topics)
        if not new:
            return
        futures = self._call(
            lambda: self._admin.create_topics(new, request_timeout=_READY_WITHIN.total_seconds())
        )
        refused: set[str] = set()
        for name, future in futures.items():
            try:
                future.result()
                _log.info("created topic %s", name)
            except KafkaException as raised:
                error = kafka_error(raised)
                if error is not None and error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    continue  # someone else was faster
                if error is None or error.code() not in (
                    KafkaError.INVALID_CONFIG,
                    KafkaError.POLICY_VIOLATION,
                ):
                    raise self._translated(raised, name) from None
                refused.add(name)
                if any(topic.topic == name and topic.config != _ROOMY for topic in new):
                    raise self._translated(raised, name) from None
        # Some clusters do not let their users choose: then the topic is as large as theirs are.
        self._create(
            NewTopic(topic.topic, topic.num_partitions, topic.replication_factor)
            for topic in new
            if topic.topic in refused
        )

    def _await_leaders(self, names: list[str]) -> None:
        def waiting() -> list[str]:
            found = self.describe(names)
            return [name for name in names if name not in found or found[name].leaderless]

        late = _until_none(waiting, _READY_WITHIN)
        if late:
            raise TopicError(
                f"no leader for every partition after {_READY_WITHIN.seconds} s",
                hint="are all brokers up?",
                topic=late[0],
            )
        # A leader is named before it takes requests; once it tells its offsets it takes the rest as well.

        def denied() -> list[str]:
            try:
                self._offsets(names, OffsetSpec.latest(), within=_READY_WITHIN)
            except TopicMissingError as error:
                return [error.topic or ""]  # one broker knows of a new topic before the next to be asked
            return []

        if late := _until_none(denied, _READY_WITHIN):
            raise missing(late[0])

    def _offsets(
        self, names: Iterable[str], spec: Any, *, within: timedelta | None = None, **options: Any
    ) -> Offsets:
        remaining = {
            (state.name, partition)
            for state in self.require(names).values()
            for partition in range(state.partitions)
        }
        found: Offsets = {}

        def waiting() -> list[tuple[str, int]]:
            asked = {TopicPartition(topic, partition): spec for topic, partition in remaining}
            futures = self._call(
                lambda: self._admin.list_offsets(asked, request_timeout=self._seconds, **options)
            )
            for place, future in futures.items():
                offset = self._offset(future, place.topic)
                if offset is not None:
                    found[place.topic, place.partition] = offset
                    remaining.discard((place.topic, place.partition))
            return sorted(remaining)

        late = _until_none(waiting, within or timedelta(seconds=self._seconds)) if remaining else []
        if late:
            topic, partition = late[0]
            raise BrokerUnreachableError(
                "the partition has no leader", hint="is a broker down?", topic=topic, partition=partition
            )
        return dict(sorted(found.items()))

    def _offset(self, future: Future[Any], topic: str) -> int | None:
        """The offset, or None while leadership moves."""
        try:
            return future.result().offset
        except KafkaException as raised:
            error = kafka_error(raised)
            if error is not None and error.code() in _MOVING:
                return None
            raise self._translated(raised, topic) from None

    def _call(self, request: Callable[[], Any]) -> Any:
        try:
            return request()
        except KafkaException as raised:
            raise self._translated(raised) from None

    def _answer(self, future: Future[Any], topic: str | None = None) -> Any:
        try:
            return future.result()
        except KafkaException as raised:
            raise self._translated(raised, topic) from None

    def _translated(self, raised: Exception, topic: str | None = None) -> GearshiftError:
        self._admin.poll(0)  # lets error_cb tell why
        return self._client.translated(raised, topic=topic)


def _until_none(waiting: Callable[[], list[T]], within: timedelta) -> list[T]:
    """Ask until nothing is waited for, or the time is over; what is still waited for."""
    deadline = time.monotonic() + within.total_seconds()
    pause = Event()
    while late := waiting():
        if time.monotonic() > deadline:
            break
        pause.wait(0.05)
    return late


def _too_few(topic: Topic, state: TopicState) -> TopicError:
    return TopicError(
        f"the topic has {state.partitions} partitions and the app declares {topic.partitions}",
        hint=f"declare partitions={state.partitions}, or raise it with kafka-topics --alter "
        "knowing that keys then move between partitions",
        topic=topic.name,
        file=topic.defined_at.file,
        line=topic.defined_at.line,
    )
