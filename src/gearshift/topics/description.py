"""A topic as the brokers describe it: leaders, replicas, offsets, settings, and the groups that read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ConfigSource, OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

from gearshift.topics.admin_requests import AdminRequests
from gearshift.topics.client import ANSWER_WITHIN, kafka_error, missing
from gearshift.topics.groups.tools import Groups

if TYPE_CHECKING:
    from gearshift.connection import Connection

_ALWAYS = ("cleanup.policy", "retention.ms", "retention.bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A partition; without a leader its offsets are unknown."""

    number: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    begin: int | None = None
    end: int | None = None

    @property
    def records(self) -> int | None:
        """Its offsets from the first to the end; compaction and transactions leave some without a record."""
        return None if self.begin is None or self.end is None else self.end - self.begin


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSetting:
    """A setting of a topic, and whether it was set on the topic or comes from the brokers."""

    name: str
    value: str | None
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A consumer group that reads the topic; its lag is unknown where it has not committed."""

    group_id: str
    state: str
    members: int
    lag: int | None
    partitions: dict[int, int | None] = field(default_factory=dict[int, "int | None"])


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic with its partitions, settings and readers."""

    name: str
    id: str
    partitions: tuple[PartitionState, ...]
    settings: tuple[TopicSetting, ...] | None
    """Those set on the topic and those about retention; None if we are not authorized to read them."""
    groups: tuple[Reader, ...]

    @property
    def records(self) -> int:
        """The records of all partitions with a leader."""
        return sum(partition.records or 0 for partition in self.partitions)


def describe(connection: Connection, topic: str) -> TopicDescription:
    """Describe a topic; TopicMissingError if it does not exist. Works while partitions have no leader."""
    requests = AdminRequests(connection, answer_within=ANSWER_WITHIN)
    try:
        described = _described(requests, topic)
        states = _with_offsets(requests, topic, described.partitions)
        settings = _settings(requests, topic)
    finally:
        requests.close()
    return TopicDescription(
        name=topic,
        id=str(described.topic_id or ""),
        partitions=states,
        settings=settings,
        groups=_groups(connection, topic, states),
    )


def _described(requests: AdminRequests, topic: str) -> Any:
    futures = requests.call(
        lambda: requests.admin.describe_topics(TopicCollection([topic]), request_timeout=requests.seconds)
    )
    try:
        return futures[topic].result()
    except KafkaException as raised:
        error = kafka_error(raised)
        if error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise missing(topic) from None
        raise requests.translated(raised, topic) from None


def _with_offsets(requests: AdminRequests, topic: str, partitions: Any) -> tuple[PartitionState, ...]:
    led = [(topic, each.id) for each in partitions if each.leader is not None and each.leader.id >= 0]
    begins = requests.list_offsets(led, OffsetSpec.earliest())
    ends = requests.list_offsets(led, OffsetSpec.latest())
    return tuple(
        PartitionState(
            number=each.id,
            leader=each.leader.id if (topic, each.id) in begins else None,
            replicas=tuple(node.id for node in each.replicas),
            in_sync=tuple(node.id for node in each.isr),
            begin=begins.get((topic, each.id)),
            end=ends.get((topic, each.id)),
        )
        for each in sorted(partitions, key=lambda each: each.id)
    )


def _settings(requests: AdminRequests, topic: str) -> tuple[TopicSetting, ...] | None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    futures = requests.call(
        lambda: requests.admin.describe_configs([resource], request_timeout=requests.seconds)
    )
    try:
        entries = futures[resource].result()
    except KafkaException as raised:
        error = kafka_error(raised)
        if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return None
        raise requests.translated(raised, topic) from None
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return tuple(
        TopicSetting(
            name=name,
            value=None if entry.is_sensitive else entry.value,
            is_own=entry.source == own,
        )
        for name, entry in sorted(entries.items())
        if name in _ALWAYS or entry.source == own
    )


def _groups(connection: Connection, topic: str, states: tuple[PartitionState, ...]) -> tuple[Reader, ...]:
    places = [(topic, state.number) for state in states]
    ends = {state.number: state.end for state in states}
    found: list[Reader] = []
    with Groups(connection) as groups:
        described = groups.describe()
        all_committed = groups.committed_by([group.group_id for group in described], places)
        for group in described:
            committed = all_committed[group.group_id]
            assigned = {partition for member in group.members for partition in member.partitions}
            if not committed and not assigned.intersection(places):
                continue
            lags: dict[int, int | None] = {}
            for place in places:
                at, end = committed.get(place), ends[place[1]]
                lags[place[1]] = None if at is None or end is None else max(0, end - at)
            known = [lag for lag in lags.values() if lag is not None]
            found.append(
                Reader(
                    group_id=group.group_id,
                    state=group.state,
                    members=len(group.members),
                    lag=sum(known) if known else None,
                    partitions=lags,
                )
            )
    return tuple(found)
