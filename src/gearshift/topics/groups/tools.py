"""Consumer groups seen from outside: their members, their lag, and resetting their offsets."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient  # pyright: ignore[reportPrivateImportUsage]

from gearshift.errors import DeliveryError, GearshiftError, SettingsError
from gearshift.topics.admin import Admin
from gearshift.topics.client import ANSWER_WITHIN, Client
from gearshift.topics.groups.offsets import GroupOffsets
from gearshift.topics.partitions import Offsets, TopicPartition

if TYPE_CHECKING:
    from gearshift.connection import Connection

_AT_ONCE = 8
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer in a group."""

    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group as the brokers describe it; `kind` is the protocol of its members."""

    group_id: str
    kind: str
    state: str
    members: tuple[Member, ...] = ()

    def owner(self, partition: TopicPartition) -> Member | None:
        """The member that a partition is assigned to."""
        return next((member for member in self.members if partition in member.partitions), None)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A group's position on one partition; without a committed offset its lag is unknown."""

    group_id: str
    topic: str
    partition: int
    committed: int | None
    end: int
    member: str | None = None

    @property
    def lag(self) -> int | None:
        """The records between the committed offset and the end offset."""
        return None if self.committed is None else max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class Move:
    """A group's offset on a partition before and after a reset."""

    topic: str
    partition: int
    before: int | None
    after: int


class Groups:
    """The consumer groups of one cluster, as a context manager."""

    def __init__(self, connection: Connection, *, answer_within: timedelta = ANSWER_WITHIN) -> None:
        self._connection = connection
        self._seconds = answer_within.total_seconds()
        self._admin = Admin(connection, answer_within=answer_within)
        self._client = Client(connection)
        # Any: confluent_kafka does not type the results of its futures.
        self._kafka: Any = self._client.open(AdminClient)
        self._offsets: dict[str, GroupOffsets] = {}

    def names(self) -> list[str]:
        """The ids of all groups, with and without members."""
        try:
            listed = self._kafka.list_consumer_groups(request_timeout=self._seconds).result()
        except KafkaException as raised:
            raise self._translated(raised) from None
        if listed.errors and not listed.valid:
            raise self._translated(listed.errors[0])
        for error in listed.errors:
            # The groups of a broker that is down move to another one within seconds.
            _log.warning("not every broker listed its groups: %s", self._translated(error))
        return sorted(group.group_id for group in listed.valid)

    def describe(self, names: Iterable[str] | None = None) -> list[Group]:
        """These groups, or all of them; a group that does not exist has the state `dead`."""
        wanted = self.names() if names is None else list(names)
        if not wanted:
            return []
        try:
            futures = self._kafka.describe_consumer_groups(wanted, request_timeout=self._seconds)
        except KafkaException as raised:
            raise self._translated(raised) from None
        return [self._described(name, future) for name, future in futures.items()]

    def _described(self, group_id: str, future: Any) -> Group:
        try:
            return _group(future.result())
        except KafkaException as raised:
            raise self._translated(raised, group=group_id) from None

    def find(self, group_id: str) -> Group:
        """The group with this id; DeliveryError if it does not exist."""
        names = self.names()
        if group_id not in names:
            raise DeliveryError(
                f"group {group_id!r} does not exist",
                hint=f"use one of {', '.join(names[:20])}" if names else None,
            )
        return self.describe([group_id])[0]

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> Offsets:
        """The offsets that the group has committed on these partitions."""
        return self._of(group_id).committed(partitions)

    def committed_by(
        self, group_ids: Sequence[str], partitions: Sequence[TopicPartition]
    ) -> dict[str, Offsets]:
        """The same for many groups, several at once: each needs a connection of its own."""
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="group offsets") as pool:
            found = [pool.submit(self.committed, group_id, partitions) for group_id in group_ids]
            return {group_id: each.result() for group_id, each in zip(group_ids, found, strict=True)}

    def lag(self, group_id: str | None = None) -> list[PartitionLag]:
        """The lag of one group, or of every group, on each partition of the topics that it reads."""
        return self.lag_of(self.describe() if group_id is None else [self.find(group_id)])

    def lag_of(self, groups: Sequence[Group]) -> list[PartitionLag]:
        """The lag of these groups, on each partition of the topics that each reads."""
        topics = self._admin.describe(self._admin.names())
        partitions = [
            (state.name, partition) for state in topics.values() for partition in range(state.partitions)
        ]
        committed = self.committed_by([group.group_id for group in groups], partitions)
        shown = {
            group.group_id: _partitions_read(group, committed[group.group_id], partitions) for group in groups
        }
        ends = self._admin.end_offsets(sorted({topic for each in shown.values() for topic, _ in each}))
        found: list[PartitionLag] = []
        for group in groups:
            for partition in shown[group.group_id]:
                member = group.owner(partition)
                found.append(
                    PartitionLag(
                        group.group_id,
                        *partition,
                        committed[group.group_id].get(partition),
                        ends[partition],
                        member and f"{member.client_id}@{member.host}",
                    )
                )
        return found

    def plan_reset(self, group_id: str, topic: str, to: str) -> list[Move]:
        """The changes of a `reset` to `earliest`, `latest`, a time or an offset, partition by partition.

        An offset outside of a partition's range becomes the nearest one within it.
        """
        self.find(group_id)
        begins, ends = self._admin.begin_offsets([topic]), self._admin.end_offsets([topic])
        target = parse_target(to)
        if target == "earliest":
            wanted = begins
        elif target == "latest":
            wanted = ends
        elif isinstance(target, datetime):
            wanted = self._admin.offsets_at([topic], target)
        else:
            wanted = {each: min(max(int(target), begins[each]), ends[each]) for each in ends}
        before = self.committed(group_id, list(wanted))
        return [Move(*each, before.get(each), offset) for each, offset in sorted(wanted.items())]

    def reset(self, group_id: str, moves: Sequence[Move]) -> None:
        """Set the group's offsets; DeliveryError if it has members, whose next commit would undo it."""
        self.require_no_members(group_id)
        self._of(group_id).commit({(move.topic, move.partition): move.after for move in moves})

    def require_no_members(self, group_id: str) -> None:
        """Raise DeliveryError if the group has members."""
        members = self.find(group_id).members
        if members:
            count = "1 member" if len(members) == 1 else f"{len(members)} members"
            named = ", ".join(sorted({f"{member.client_id}@{member.host}" for member in members})[:5])
            raise DeliveryError(
                f"group {group_id} is active: {count} ({named})",
                hint="stop its consumers first; a killed one leaves after its session timeout",
            )

    def _translated(self, raised: Exception, group: str | None = None) -> GearshiftError:
        self._kafka.poll(0)  # serves error_cb, which has the reason
        return self._client.translated(raised, group=group)

    def close(self) -> None:
        """Close the connections."""
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="group offsets") as pool:
            while self._offsets:
                pool.submit(self._offsets.popitem()[1].close)
        self._admin.close()

    def _of(self, group_id: str) -> GroupOffsets:
        if group_id not in self._offsets:
            self._offsets[group_id] = GroupOffsets(self._connection, group_id)
        return self._offsets[group_id]

    def __enter__(self) -> Groups:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def parse_target(text: str) -> str | int | datetime:
    """The target of a reset: `earliest`, `latest`, an offset, or a time.

    >>> parse_target("latest"), parse_target("42")
    ('latest', 42)
    >>> parse_target("2026-01-31T12:00:00Z").isoformat()
    '2026-01-31T12:00:00+00:00'
    """
    if text in ("earliest", "latest"):
        return text
    if text.isdecimal():
        return int(text)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(
            f"{text!r} is not a valid offset or time",
            hint="use earliest, latest, an offset such as 42, or a time such as 2026-01-31T12:00:00Z",
        ) from None
    if instant.tzinfo is None:
        raise SettingsError(
            f"{text!r} has no time zone", hint=f"use {instant.isoformat()}Z, or another time zone"
        )
    return instant


def _partitions_read(
    group: Group, committed: Offsets, partitions: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """The partitions of the topics on which the group has committed offsets or assigned members."""
    topics = {topic for topic, _ in committed}
    topics.update(topic for member in group.members for topic, _ in member.partitions)
    return sorted(partition for partition in partitions if partition[0] in topics)


def _group(described: Any) -> Group:
    members = tuple(
        Member(
            member.client_id,
            str(member.host).removeprefix("/"),
            tuple((each.topic, each.partition) for each in _assigned(member)),
        )
        for member in described.members
    )
    return Group(described.group_id, described.type.name.lower(), described.state.name.lower(), members)


def _assigned(member: Any) -> list[Any]:
    return list(member.assignment.topic_partitions) if member.assignment is not None else []
