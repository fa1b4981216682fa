"""Administration of topics, and lookups and commits of offsets, as Kafka's Admin client offers them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, NewTopic, OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

from gearshift.errors import TopicError, TopicMissingError
from gearshift.topics.admin_requests import LARGE_RECORDS, READY_WITHIN, AdminRequests, wait_until_empty
from gearshift.topics.client import ANSWER_WITHIN, kafka_error, millis, missing
from gearshift.topics.groups.offsets import MIRROR, GroupOffsets
from gearshift.topics.partitions import Offsets, TopicPartition

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Topic

_DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
_NO_ID = "A" * 22  # sixteen zero bytes: the brokers are older than topic ids


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as the brokers describe it."""

    name: str
    partitions: int
    replicas: int
    leaderless: tuple[int, ...] = ()
    id: str = ""
    """Distinguishes a topic from an earlier one of the same name; empty if the brokers have no topic ids."""

    def require_partition(self, partition: int | None) -> None:
        """Raise TopicError if the topic has no such partition."""
        if partition is not None and not 0 <= partition < self.partitions:
            only = "only partition 0" if self.partitions == 1 else f"partitions 0 to {self.partitions - 1}"
            raise TopicError(
                "no such partition", hint=f"the topic has {only}", topic=self.name, partition=partition
            )


class Admin:
    """Manages the topics and offsets of one cluster."""

    def __init__(self, connection: Connection, *, answer_within: timedelta = ANSWER_WITHIN) -> None:
        self._connection = connection
        self._groups: dict[str, GroupOffsets] = {}
        self._requests = AdminRequests(connection, answer_within=answer_within)
        self._admin = self._requests.admin
        self._seconds = self._requests.seconds

    def ping(self) -> None:
        """Return if a broker answers; otherwise raise BrokerUnreachableError."""
        self._requests.result(self._admin.describe_cluster(request_timeout=self._seconds))

    def ensure(
        self, topics: Iterable[Topic], *, replicas_default: int | None = None, dead_letters: bool = True
    ) -> list[str]:
        """Create the missing topics and their dead-letter topics; return the names of the new ones.

        An external topic is not created, but its dead-letter topic is, with the same number of partitions.
        A topic with fewer partitions than declared raises TopicError: adding partitions here would move keys
        between partitions, and consumers may rely on the order of their records.
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
        for topic in declared.values():
            if topic.external:
                self.require_external(topic)
        new = [name for name in declared if name not in present]
        self._requests.create(
            NewTopic(
                name,
                present[topic.name].partitions if topic.external else topic.partitions,
                topic.replicas or replicas_default or -1,
                config={} if name == topic.name else LARGE_RECORDS,
            )
            for name, topic in declared.items()
            if name in new
        )
        self._await_leaders(list(declared))
        return new

    def describe(self, names: Iterable[str]) -> dict[str, TopicState]:
        """Those of these topics that exist, by name."""
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return {}
        futures = self._requests.call(
            lambda: self._admin.describe_topics(TopicCollection(wanted), request_timeout=self._seconds)
        )
        found: dict[str, TopicState] = {}
        for name, future in futures.items():
            try:
                described = self._requests.answer(future)
            except KafkaException as raised:
                error = kafka_error(raised)
                if error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                raise self._requests.translated(raised, name) from None
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

    def require_external(self, topic: Topic) -> None:
        """Raise unless an external topic exists and has at least as many partitions as declared."""
        state = self.describe([topic.name]).get(topic.name)
        if state is None:
            raise _external_missing(topic)
        if state.partitions < topic.partitions:
            raise _too_few(topic, state)

    def names(self) -> list[str]:
        """The names of all topics except Kafka's internal ones."""
        found = self._requests.call(lambda: self._admin.list_topics(timeout=self._seconds))
        return sorted(name for name in found.topics if not name.startswith("__"))

    def ensure_like(self, name: str, model: str) -> None:
        """Create a topic with the partitions and replicas of another one, unless it exists."""
        state = self.require([model])[model]
        if name not in self.describe([name]):
            self._requests.create([NewTopic(name, state.partitions, state.replicas, config=LARGE_RECORDS)])
        self._await_leaders([name])

    def ensure_letters(self, name: str) -> None:
        """Create a dead-letter topic for rows that never were records, unless it exists."""
        if name not in self.describe([name]):
            self._requests.create([NewTopic(name, 1, -1, config=LARGE_RECORDS)])
            self._await_leaders([name])

    def ensure_compacted(self, name: str, *, partitions: int, kept: timedelta | None) -> None:
        """Create a compacted topic unless it exists; `kept` limits how long it keeps records."""
        if name not in self.describe([name]):
            config = {"cleanup.policy": "compact"}
            if kept is not None:
                config = {
                    "cleanup.policy": "compact,delete",
                    "retention.ms": str(kept // timedelta(milliseconds=1)),
                    "segment.ms": str(max(kept // 24, timedelta(minutes=10)) // timedelta(milliseconds=1)),
                }
            self._requests.create([NewTopic(name, partitions, -1, config=config)])
        self._await_leaders([name])

    def largest_record(self, name: str) -> int:
        """The topic's max.message.bytes; Kafka's default if we are not authorized to read it."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        futures = self._requests.call(
            lambda: self._admin.describe_configs([resource], request_timeout=self._seconds)
        )
        try:
            return int(futures[resource].result()["max.message.bytes"].value)
        except (KafkaException, KeyError):
            return _DEFAULT_MAX_MESSAGE_BYTES

    def begin_offsets(self, names: Iterable[str]) -> Offsets:
        """The beginning offset of each partition."""
        return self._offsets(names, OffsetSpec.earliest())

    def end_offsets(self, names: Iterable[str]) -> Offsets:
        """The end offset of each partition: that of its next record."""
        return self._offsets(names, OffsetSpec.latest())

    def stable_offsets(self, names: Iterable[str]) -> Offsets:
        """The last stable offset of each partition: read_committed consumers can read up to it."""
        return self._offsets(names, OffsetSpec.latest(), isolation_level=IsolationLevel.READ_COMMITTED)

    def await_stable(self, names: Iterable[str], within: timedelta = timedelta(seconds=5)) -> None:
        """Wait until the present records can be read: a commit returns shortly before they become visible.

        A transaction of another producer may stay open for longer than `within`; then return anyway.
        """
        ends = self.end_offsets(names)
        topics = {topic for topic, _ in ends}

        def unstable() -> list[TopicPartition]:
            stable = self.stable_offsets(topics)
            return [partition for partition, end in ends.items() if stable[partition] < end]

        wait_until_empty(unstable, within)

    def offsets_at(self, names: Iterable[str], instant: datetime) -> Offsets:
        """The offset of each partition's first record at or after this time; its end offset if there is none."""
        wanted = list(names)
        ends = self.end_offsets(wanted)
        # Kafka gives negative times other meanings, and no record is older than 1970.
        found = self._offsets(wanted, OffsetSpec.for_timestamp(max(0, millis(instant))))
        return {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}

    def commit_group(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the offsets of a consumer group that has no members."""
        if offsets:
            self._group(group_id).commit(offsets)

    def mirror_group(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit a pipeline's position as offsets of a group, so that Kafka's tools show its lag."""
        if offsets:
            self._group(group_id).commit(offsets, metadata=MIRROR)

    def group_offsets(self, group_id: str, names: Iterable[str]) -> Offsets:
        """The committed offsets of a consumer group on these topics; empty if it has none."""
        topics = self.require(names).values()
        partitions = [(state.name, partition) for state in topics for partition in range(state.partitions)]
        return self._group(group_id).committed(partitions)

    def delete(self, names: Iterable[str]) -> None:
        """Delete those of these topics that exist, with their records."""
        present = list(self.describe(names))
        if not present:
            return
        futures = self._requests.call(
            lambda: self._admin.delete_topics(present, request_timeout=self._seconds)
        )
        for name, future in futures.items():
            try:
                self._requests.answer(future)
            except KafkaException as raised:
                raise self._requests.translated(raised, name, "Delete") from None
        wait_until_empty(lambda: list(self.describe(present)), READY_WITHIN)

    def close(self) -> None:
        """Close the connections."""
        while self._groups:
            self._groups.popitem()[1].close()
        self._requests.close()

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _group(self, group_id: str) -> GroupOffsets:
        if group_id not in self._groups:
            self._groups[group_id] = GroupOffsets(self._connection, group_id)
        return self._groups[group_id]

    def _await_leaders(self, names: list[str]) -> None:
        def leaderless() -> list[str]:
            found = self.describe(names)
            return [name for name in names if name not in found or found[name].leaderless]

        late = wait_until_empty(leaderless, READY_WITHIN)
        if late:
            raise TopicError(
                f"not every partition has a leader after {READY_WITHIN.seconds} s",
                hint="check that all brokers are running",
                topic=late[0],
            )
        # A leader is announced before it serves requests; once it lists offsets, it serves the others too.

        def unserved() -> list[str]:
            try:
                self._offsets(names, OffsetSpec.latest(), within=READY_WITHIN)
            except TopicMissingError as error:
                return [error.topic or ""]  # another broker may not have the new topic's metadata yet
            return []

        if late := wait_until_empty(unserved, READY_WITHIN):
            raise missing(late[0])

    def _offsets(self, names: Iterable[str], spec: Any, **options: Any) -> Offsets:
        partitions = [
            (state.name, partition)
            for state in self.require(names).values()
            for partition in range(state.partitions)
        ]
        return self._requests.list_offsets(partitions, spec, **options)


def _external_missing(topic: Topic) -> TopicMissingError:
    return TopicMissingError(
        "the topic does not exist and is declared with external=True",
        hint="ask its owner for the name, check bootstrap_servers, or remove external=True to create it",
        topic=topic.name,
        file=topic.defined_at.file,
        line=topic.defined_at.line,
    )


def _too_few(topic: Topic, state: TopicState) -> TopicError:
    return TopicError(
        f"the topic has {state.partitions} partitions and the app declares {topic.partitions}",
        hint=f"declare partitions={state.partitions}, or add partitions with kafka-topics --alter, "
        "which moves keys between partitions",
        topic=topic.name,
        file=topic.defined_at.file,
        line=topic.defined_at.line,
    )
