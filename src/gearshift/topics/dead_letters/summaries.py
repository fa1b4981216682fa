"""The open dead letters of all topics by cause, for those who ask again and again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from gearshift.topics.admin import Admin
from gearshift.topics.dead_letters.letters import SUFFIX, DeadLetterTopic, Summary, summarize
from gearshift.topics.partitions import Offsets

if TYPE_CHECKING:
    from gearshift.connection import Connection

_State = tuple[str, Offsets, Offsets]
"""The topic's id, its beginning offsets and its last stable offsets."""


class Summaries:
    """Summaries that are kept until their topic changes, because a summary reads the whole topic.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[_State, list[Summary]]] = {}
        self._lock = threading.Lock()

    def read(self, connection: Connection) -> dict[str, list[Summary]]:
        """Summarize the open letters of every dead-letter topic, by its name."""
        with self._lock:
            states = _states(connection)
            self._known = {name: known for name, known in self._known.items() if name in states}
            for name, state in states.items():
                if name not in self._known or self._known[name][0] != state:
                    self._known[name] = state, _summaries(connection, name, state)
            return {name: self._known[name][1] for name in states}


def summarize_all(connection: Connection) -> dict[str, list[Summary]]:
    """Summarize the open letters of every dead-letter topic, by its name."""
    return Summaries().read(connection)


def _states(connection: Connection) -> dict[str, _State]:
    with Admin(connection) as admin:
        topics = admin.describe(name for name in admin.names() if name.endswith(SUFFIX))
        begins, ends = admin.begin_offsets(topics), admin.stable_offsets(topics)
    return {name: (topics[name].id, _of(begins, name), _of(ends, name)) for name in sorted(topics)}


def _of(offsets: Offsets, name: str) -> Offsets:
    return {place: offset for place, offset in offsets.items() if place[0] == name}


def _summaries(connection: Connection, name: str, state: _State) -> list[Summary]:
    _, begins, ends = state
    is_used = any(end > begins[place] for place, end in ends.items())
    return summarize(DeadLetterTopic(connection, name).open_letters()) if is_used else []
