"""Back pressure toward producers: how far the slowest reader of a topic is behind."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from gearshift.errors import GearshiftError
from gearshift.topics.admin import Admin
from gearshift.topics.group_tools import Group, Groups
from gearshift.topics.groups import GroupOffsets

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import Topic

_LOOK_FOR_READERS_EVERY = 5.0
_ASK_AGAIN_AFTER = 30.0  # a group without members that does not read a topic seldom begins to
_IDLE_AFTER = 10.0
_STALE_AFTER = 30.0
_GO_ON_BELOW = 0.9
"""Producers go on at this part of `max_lag`, so that they do not stop and go with every record read."""

_NEVER = float("-inf")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Watched:
    slowest: tuple[str, int] | None = None
    measured: float = _NEVER
    tried: float = _NEVER
    asked: float = _NEVER
    looked_for_readers: float = _NEVER
    readers: set[str] = field(default_factory=set[str])


class Pressure:
    """Knows how far the slowest consumer group of a topic is behind; asked at any rate, it looks about once a second.

    A group counts on the partitions of which it has committed an offset; without any such group there is no
    pressure. Nor is there when the brokers have not told for half a minute: what cannot be known holds nobody back.
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
        """How many records the slowest group is behind on this topic; 0 if none reads it."""
        slowest = self.slowest(topic)
        return slowest[1] if slowest is not None else 0

    def slowest(self, topic: str) -> tuple[str, int] | None:
        """The group that is furthest behind, and how far; None if none reads the topic."""
        watched = self._watched.setdefault(topic, _Watched())
        now = watched.asked = time.monotonic()
        if now - watched.measured > _IDLE_AFTER:
            # Nobody asked for long, or never: what is answered now must be true now.
            self._measure([topic])
            watched.measured = max(
                watched.measured, now - _IDLE_AFTER
            )  # not again for every record, if it failed
        self._watch()
        return watched.slowest

    def presses(self, topic: Topic) -> bool:
        """Whether producers of this topic should wait, because a group is more than `max_lag` behind.

        Once it presses, it does until that group is down to nine tenths of it.
        """
        if topic.max_lag is None:
            return False
        limit = topic.max_lag * (_GO_ON_BELOW if topic.name in self._pressing else 1)
        if self.behind(topic.name) > limit:
            self._pressing.add(topic.name)
            return True
        self._pressing.discard(topic.name)
        return False

    def close(self) -> None:
        """Look no more, and close the connections."""
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
        # While producers wait they should not do so for longer than they must.
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
                    _log.info("the lag on %s is not known: %s", name, error)
                finally:
                    watched.tried = time.monotonic()

    def _slowest(self, topic: str, watched: _Watched) -> tuple[str, int] | None:
        if self._admin is None or self._groups is None:
            self._admin, self._groups = Admin(self._connection), Groups(self._connection)
        ends = self._admin.end_offsets([topic])
        if time.monotonic() - watched.looked_for_readers > _LOOK_FOR_READERS_EVERY:
            watched.readers = self._readers(self._groups.describe(), topic, list(ends))
            watched.looked_for_readers = time.monotonic()
            self._forget_others()
        found: list[tuple[str, int]] = []
        for group in watched.readers:
            committed = self._committed(group, list(ends))
            if committed:
                behind = sum(max(0, ends[place] - offset) for place, offset in committed.items())
                found.append((group, behind))
        return max(found, key=lambda entry: entry[1], default=None)

    def _readers(self, groups: list[Group], topic: str, places: list[tuple[str, int]]) -> set[str]:
        """The groups that have a member on the topic, and those without members that have an offset there."""
        readers: set[str] = set()
        now = time.monotonic()
        for group in groups:
            if group.members:
                if any(place[0] == topic for member in group.members for place in member.places):
                    readers.add(group.group_id)
                continue
            if now - self._elsewhere.get((group.group_id, topic), _NEVER) < _ASK_AGAIN_AFTER:
                continue
            # A pipeline is behind by design until its next batch or checkpoint: nobody should wait for that.
            if self._committed(group.group_id, places) and not self._offsets[group.group_id].mirrors:
                readers.add(group.group_id)
            else:
                self._elsewhere[group.group_id, topic] = now
        return readers

    def _committed(self, group_id: str, places: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        if group_id not in self._offsets:
            self._offsets[group_id] = GroupOffsets(self._connection, group_id)
        return self._offsets[group_id].committed(places)

    def _forget_others(self) -> None:
        """Each connection is a few threads: only groups that read a topic of interest keep one."""
        kept = {group for watched in list(self._watched.values()) for group in watched.readers}
        for group in set(self._offsets) - kept:
            self._offsets.pop(group).close()
