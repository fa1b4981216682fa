"""Back pressure on producers: the lag of a topic's slowest consumer group."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from gearshift.errors import GearshiftError
from gearshift.topics.admin import Admin
from gearshift.topics.groups.offsets import GroupOffsets
from gearshift.topics.groups.tools import Group, Groups
from gearshift.topics.partitions import Offsets, TopicPartition

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Topic

_FIND_READERS_EVERY = 5.0
_CHECK_AGAIN_AFTER = 30.0  # a group without members rarely starts to read another topic
_IDLE_AFTER = 10.0
_STALE_AFTER = 30.0
_RESUME_BELOW = 0.9
"""Producers resume at this fraction of `max_lag`, so that they do not stop again after each record."""

_NEVER = float("-inf")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Watched:
    slowest: tuple[str, int] | None = None
    measured: float = _NEVER
    tried: float = _NEVER
    asked: float = _NEVER
    readers_found: float = _NEVER
    readers: set[str] = field(default_factory=set[str])


class Pressure:
    """The lag of each topic's slowest consumer group, measured about once a second however often it is read.

    A group counts on the partitions on which it has committed an offset; without any such group there is no
    pressure. Neither is there when the brokers have not answered for half a minute: an unknown lag stops no producer.
    """

    def __init__(self, connection: Connection, *, every: timedelta = timedelta(seconds=1)) -> None:
        self._connection = connection
        self._every = every.total_seconds()
        self._watched: dict[str, _Watched] = {}
        self._pressing: set[str] = set()
        self._groups: Groups | None = None
        self._admin: Admin | None = None
        self._offsets: dict[str, GroupOffsets] = {}
        self._elsewhere: dict[tuple[str, str], float] = {}
        self._measuring = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def behind(self, topic: str) -> int:
        """The lag of the slowest group on this topic; 0 if no group reads it."""
        slowest = self.slowest(topic)
        return slowest[1] if slowest is not None else 0

    def slowest(self, topic: str) -> tuple[str, int] | None:
        """The group with the highest lag, and that lag; None if no group reads the topic."""
        watched = self._watched.setdefault(topic, _Watched())
        now = watched.asked = time.monotonic()
        if now - watched.measured > _IDLE_AFTER:
            # The background thread does not measure a topic that is not asked for, so the last value may be old.
            self._measure([topic])
            # After a failure, do not measure again for every record.
            watched.measured = max(watched.measured, now - _IDLE_AFTER)
        self._watch()
        return watched.slowest

    def presses(self, topic: Topic) -> bool:
        """Whether producers of this topic should wait, because a group's lag is above `max_lag`.

        Once it is, they wait until the lag is below nine tenths of it.
        """
        if topic.max_lag is None:
            return False
        limit = topic.max_lag * (_RESUME_BELOW if topic.name in self._pressing else 1)
        if self.behind(topic.name) > limit:
            self._pressing.add(topic.name)
            return True
        self._pressing.discard(topic.name)
        return False

    def close(self) -> None:
        """Stop measuring and close the connections."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        with self._measuring:
            while self._offsets:
                self._offsets.popitem()[1].close()
            if self._groups is not None:
                self._groups.close()
            if self._admin is not None:
                self._admin.close()

    def __enter__(self) -> Pressure:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _watch(self) -> None:
        if self._thread is None and not self._closing.is_set():
            self._thread = threading.Thread(target=self._run, name="pressure", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        # While producers wait, measure more often, so that they resume soon.
        while not self._closing.wait(self._every / 5 if self._pressing else self._every):
            now = time.monotonic()
            watching = dict(self._watched)
            self._measure([name for name, watched in watching.items() if now - watched.asked < _IDLE_AFTER])
            for watched in watching.values():
                if now - watched.measured > _STALE_AFTER:
                    watched.slowest = None

    def _measure(self, names: list[str]) -> None:
        with self._measuring:
            for name in names:
                watched = self._watched[name]
                try:
                    watched.slowest = self._slowest(name, watched)
                    watched.measured = time.monotonic()
                except GearshiftError as error:
                    _log.info("the lag on %s is unknown: %s", name, error)
                finally:
                    watched.tried = time.monotonic()

    def _slowest(self, topic: str, watched: _Watched) -> tuple[str, int] | None:
        if self._admin is None or self._groups is None:
            self._admin, self._groups = Admin(self._connection), Groups(self._connection)
        ends = self._admin.end_offsets([topic])
        if time.monotonic() - watched.readers_found > _FIND_READERS_EVERY:
            watched.readers = self._readers(self._groups.describe(), topic, list(ends))
            watched.readers_found = time.monotonic()
            self._forget_others()
        found: list[tuple[str, int]] = []
        for group in watched.readers:
            committed = self._committed(group, list(ends))
            if committed:
                behind = sum(max(0, ends[partition] - offset) for partition, offset in committed.items())
                found.append((group, behind))
        return max(found, key=lambda entry: entry[1], default=None)

    def _readers(self, groups: list[Group], topic: str, partitions: list[TopicPartition]) -> set[str]:
        """The groups with a member on the topic, and those without members that committed offsets there."""
        readers: set[str] = set()
        now = time.monotonic()
        for group in groups:
            if group.members:
                if any(name == topic for member in group.members for name, _ in member.partitions):
                    readers.add(group.group_id)
                continue
            if now - self._elsewhere.get((group.group_id, topic), _NEVER) < _CHECK_AGAIN_AFTER:
                continue
            # A pipeline has a lag by design until its next batch or checkpoint: no producer should wait for it.
            if self._committed(group.group_id, partitions) and not self._offsets[group.group_id].mirrors:
                readers.add(group.group_id)
            else:
                self._elsewhere[group.group_id, topic] = now
        return readers

    def _committed(self, group_id: str, partitions: list[TopicPartition]) -> Offsets:
        if group_id not in self._offsets:
            self._offsets[group_id] = GroupOffsets(self._connection, group_id)
        return self._offsets[group_id].committed(partitions)

    def _forget_others(self) -> None:
        """Close the connections of groups that read no watched topic: each uses a few threads."""
        kept = {group for watched in list(self._watched.values()) for group in watched.readers}
        for group in set(self._offsets) - kept:
            self._offsets.pop(group).close()
