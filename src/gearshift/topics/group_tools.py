"""Consumer groups seen from outside: who is in them, how far behind they are, and where they go on."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient  # pyright: ignore[reportPrivateImportUsage]

from gearshift.errors import DeliveryError, SettingsError
from gearshift.topics.admin import Admin
from gearshift.topics.client import ANSWER_WITHIN, Client
from gearshift.topics.groups import GroupOffsets, Offsets

if TYPE_CHECKING:
    from gearshift.connection import Connection

Place = tuple[str, int]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer in a group."""

    client_id: str
    host: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group as the brokers have it; `kind` is the protocol its members speak."""

    group_id: str
    kind: str
    state: str
    members: tuple[Member, ...] = ()

    def holder(self, place: Place) -> Member | None:
        """The member that a partition is assigned to."""
        return next((member for member in self.members if place in member.places), None)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group is on one partition; without a committed offset nobody knows its lag."""

    group_id: str
    topic: str
    partition: int
    committed: int | None
    end: int
    member: str | None = None

    @property
    def lag(self) -> int | None:
        """The records between the committed offset and the end."""
        return None if self.committed is None else max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class Move:
    """Where a group's offset on a partition is, and where a reset puts it."""

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
        # Any: the library types its futures as holding nothing in particular.
        self._kafka: Any = self._client.open(AdminClient)
        self._offsets: dict[str, GroupOffsets] = {}

    def names(self) -> list[str]:
        """The ids of all groups, with and without members."""
        try:
            listed = self._kafka.list_consumer_groups(request_timeout=self._seconds).result()
        except KafkaException as raised:
            raise self._client.translated(raised) from None
        if listed.errors and not listed.valid:
            raise self._client.translated(listed.errors[0])
        for error in listed.errors:
            # The groups of a broker that is down move to another one within seconds.
            _log.warning("not every broker tells its groups: %s", self._client.translated(error))
        return sorted(group.group_id for group in listed.valid)

    def describe(self, names: Iterable[str] | None = None) -> list[Group]:
        """These groups, or all of them; one that does not exist is in state `dead`."""
        wanted = self.names() if names is None else list(names)
        if not wanted:
            return []
        try:
            futures = self._kafka.describe_consumer_groups(wanted, request_timeout=self._seconds)
            return [_group(future.result()) for future in futures.values()]
        except KafkaException as raised:
            raise self._client.translated(raised) from None

    def find(self, group_id: str) -> Group:
        """The group of this name; DeliveryError if there is none."""
        names = self.names()
        if group_id not in names:
            raise DeliveryError(
                f"there is no group {group_id!r}", hint=f"there are {', '.join(names[:20]) or 'none yet'}"
            )
        return self.describe([group_id])[0]

    def committed(self, group_id: str, places: Iterable[Place]) -> Offsets:
        """The offsets the group has committed on these partitions."""
        return self._of(group_id).committed(places)

    def lag(self, group_id: str | None = None) -> list[PartitionLag]:
        """How far one group is, or every group, on each partition that it has read or was given."""
        groups = self.describe() if group_id is None else [self.find(group_id)]
        topics = self._admin.describe(self._admin.names())
        places = [
            (state.name, partition) for state in topics.values() for partition in range(state.partitions)
        ]
        committed = {group.group_id: self.committed(group.group_id, places) for group in groups}
        shown = {group.group_id: _read_or_given(group, committed[group.group_id], places) for group in groups}
        ends = self._admin.end_offsets(sorted({topic for each in shown.values() for topic, _ in each}))
        found: list[PartitionLag] = []
        for group in groups:
            for place in shown[group.group_id]:
                member = group.holder(place)
                found.append(
                    PartitionLag(
                        group.group_id,
                        *place,
                        committed[group.group_id].get(place),
                        ends[place],
                        member and f"{member.client_id}@{member.host}",
                    )
                )
        return found

    def plan_reset(self, group_id: str, topic: str, to: str) -> list[Move]:
        """What `reset` to `earliest`, `latest`, an instant or an offset would change, partition by partition.

        An offset that a partition does not have becomes the nearest one that it has.
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
            wanted = {place: min(max(int(target), begins[place]), ends[place]) for place in ends}
        before = self.committed(group_id, list(wanted))
        return [Move(*place, before.get(place), offset) for place, offset in sorted(wanted.items())]

    def reset(self, group_id: str, moves: Sequence[Move]) -> None:
        """Set the group's offsets; DeliveryError while it has members, whose next commit would undo it."""
        self.refuse_members(group_id)
        self._of(group_id).commit({(move.topic, move.partition): move.after for move in moves})

    def refuse_members(self, group_id: str) -> None:
        """DeliveryError if the group has members."""
        members = self.find(group_id).members
        if members:
            count = "1 member" if len(members) == 1 else f"{len(members)} members"
            named = ", ".join(sorted({f"{member.client_id}@{member.host}" for member in members})[:5])
            raise DeliveryError(
                f"group {group_id} is active: {count} ({named})",
                hint="stop its consumers first; a stopped one leaves within its session timeout",
            )

    def close(self) -> None:
        """Close the connections."""
        while self._offsets:
            self._offsets.popitem()[1].close()
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
    """Where a reset goes to: `earliest`, `latest`, an offset, or an instant.

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
            f"{text!r} is no place to go to",
            hint="say earliest, latest, an offset such as 42, or a time such as 2026-01-31T12:00:00Z",
        ) from None
    if instant.tzinfo is None:
        raise SettingsError(
            f"{text!r} names no time zone", hint=f"say {instant.isoformat()}Z, or another zone"
        )
    return instant


def _read_or_given(group: Group, committed: Offsets, places: Iterable[Place]) -> list[Place]:
    """Every partition of the topics that the group has committed offsets of or has members on."""
    topics = {topic for topic, _ in committed}
    topics.update(topic for member in group.members for topic, _ in member.places)
    return sorted(place for place in places if place[0] in topics)


def _group(described: Any) -> Group:
    members = tuple(
        Member(
            member.client_id,
            str(member.host).removeprefix("/"),
            tuple((place.topic, place.partition) for place in _assigned(member)),
        )
        for member in described.members
    )
    return Group(described.group_id, described.type.name.lower(), described.state.name.lower(), members)


def _assigned(member: Any) -> list[Any]:
    return list(member.assignment.topic_partitions) if member.assignment is not None else []
