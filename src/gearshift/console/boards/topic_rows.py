"""The records of topics as rows for the panels of a board."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta, tzinfo
from typing import Any

from gearshift.boards import Feed, Keyed, Number, Panel
from gearshift.connection import Connection
from gearshift.console.boards.states import State, Total, reach
from gearshift.definitions import Topic
from gearshift.errors import DecodeError
from gearshift.schemas import Decoder, Registry
from gearshift.topics import Admin, Offsets, Tail

_MOST_RECORDS = 100_000
"""Records of a partition that are read when a board is opened; what is older is not shown."""


class TopicRows:
    """Reads the topics of a board once for all its panels, outside of any consumer group."""

    def __init__(
        self, connection: Connection, panels: Mapping[str, tuple[Panel, State]], zone: tzinfo
    ) -> None:
        self.skipped: dict[str, int] = {}
        """The records that could not be decoded, by topic."""
        self._of: dict[str, list[tuple[str, State, tuple[str, ...]]]] = {}
        self._topics: dict[str, Topic] = {}
        for name, (panel, state) in panels.items():
            assert isinstance(panel.source, Topic)
            self._topics[panel.source.name] = panel.source
            self._of.setdefault(panel.source.name, []).append((name, state, _fields(panel)))
        self._exit = ExitStack()
        try:
            registry = self._exit.enter_context(Registry(connection))
            self._decoders = {name: Decoder(topic, registry) for name, topic in self._topics.items()}
            start = _starts(connection, panels, zone)
            self._tail = self._exit.enter_context(Tail(connection, self._topics, start=start))
        except BaseException:
            self._exit.close()
            raise

    def poll(self, timeout: timedelta) -> set[str]:
        """Take what has arrived; returns the panels that may have changed."""
        changed: set[str] = set()
        for record in self._tail.poll(timeout):
            if record.value is None:
                continue
            try:
                value = self._decoders[record.topic](record.value)
            except (DecodeError, RecursionError):
                self.skipped[record.topic] = self.skipped.get(record.topic, 0) + 1
                continue
            for name, state, fields in self._of[record.topic]:
                state.take({field: getattr(value, field) for field in fields}, record.timestamp)
                changed.add(name)
        return changed

    def skipped_for(self, panel: Panel) -> int:
        """The records of a panel's topic that could not be decoded."""
        return self.skipped.get(panel.source.name, 0)

    def close(self) -> None:
        """Close the connections."""
        self._exit.close()


def _fields(panel: Panel) -> tuple[str, ...]:
    keys = panel.keys if isinstance(panel, Keyed | Number) else ()
    return tuple(dict.fromkeys((*keys, *panel.named.values())))


def _starts(connection: Connection, panels: Mapping[str, tuple[Panel, State]], zone: tzinfo) -> Offsets:
    """Where to begin in each partition: as far back as a panel needs, within the limit."""
    names = {panel.source.name for panel, _ in panels.values()}
    now = datetime.now(zone)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    with Admin(connection) as admin:
        begins, ends = admin.begin_offsets(names), admin.stable_offsets(names)
        needed = {place: ends[place] for place in ends}
        whole: dict[str, Offsets] = {}
        for name, (panel, _) in panels.items():
            topic = panel.source.name
            since = midnight if isinstance(panel, Number) and panel.today else None
            if (back := reach(panel)) is not None:
                since = now - back
            first: Any = admin.offsets_at([topic], since) if since is not None else begins
            if isinstance(panel, Feed):
                first = {place: end - panel.top for place, end in ends.items()}
            whole[name] = {place: first[place] for place in ends if place[0] == topic}
            for place, offset in whole[name].items():
                needed[place] = min(needed[place], offset)
    starts = {
        place: max(begins[place], ends[place] - _MOST_RECORDS, offset) for place, offset in needed.items()
    }
    for name, (panel, state) in panels.items():
        if isinstance(state, Total) and not panel.where:
            state.before = sum(max(0, starts[place] - offset) for place, offset in whole[name].items())
    return starts
