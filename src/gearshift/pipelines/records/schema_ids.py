"""The schema ids that a pipeline can read, and those that the registry does not know."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from dataclasses import replace

from gearshift.definitions import Pipeline, Table, Topic
from gearshift.errors import GearshiftError
from gearshift.pipelines.context import Context
from gearshift.pipelines.records.reading import UNKNOWN_SCHEMA, Versions
from gearshift.schemas import Registry, Schema

_ASK_AGAIN = 5.0  # seconds between lookups of an unknown id: it may be registered later
_MOST_ASKED = 20  # unknown ids looked up individually each time
_MOST_REFUSED = 1000  # unknown ids in a query's plan; an older one is looked up again when it recurs


class KnownSchemas:
    """The schema versions of a pipeline's topics.

    A producer registers its schema before it sends a record. So an id that the registry does not know is garbage in
    every record written before the lookup; only in a later record may it be new, and stops the query for a new lookup.
    """

    def __init__(self, context: Context, pipeline: Pipeline, registry: Registry) -> None:
        self._context = context
        self._pipeline = pipeline
        self._registry = registry
        self._refused: dict[int, None] = {}
        self._others: set[int] = set()
        """Ids that occurred and are registered under another subject, since producers may choose their subjects."""
        self._read: dict[str, Versions] = {}
        self._lock = threading.Lock()
        self._asked = 0.0

    def read(self, since: int) -> dict[str, Versions]:
        """Ask the registry; unchanged versions compare equal to those read before, so that a plan can be kept."""
        ends = self._ends()  # before the lookup: later records may have a later version
        keeps = isinstance(self._pipeline.target, Table)
        with self._lock:
            refused = frozenset(self._refused)
        read: dict[str, Versions] = {}
        for topic in self._pipeline.topics.values():
            schemas = self._values(topic) if topic.is_registered else {}
            found = Versions(
                writers={id_: each.text for id_, each in schemas.items() if each.format == topic.format},
                foreign={
                    id_: f"schema {id_} is {each.format}, the topic is {topic.format}"
                    for id_, each in schemas.items()
                    if each.format != topic.format
                },
                refused=refused,
                keys=self._schemas(_key_subject(topic)) if topic.envelope and topic.is_registered else {},
                since=since if keeps and topic.as_of else None,
            )
            known = self._read.get(topic.name)
            unchanged = known is not None and replace(known, asked_until={}) == found
            read[topic.name] = (
                known if known and unchanged else replace(found, asked_until=ends.get(topic.name, {}))
            )
        self._read, self._asked = read, time.monotonic()
        return read

    def learn(self, failure: GearshiftError) -> str | None:
        """Look up the id that stopped a query; returns why it can restart, or None if no id stopped it."""
        found = re.search(rf"{UNKNOWN_SCHEMA}=(\d+);", str(failure))
        if found is None:
            return None
        if self._registered([int(found[1])]):
            return f"schema id {found[1]}"
        self.refuse([int(found[1])])
        return f"schema id {found[1]} is not registered"

    def refuse(self, ids: Iterable[int]) -> None:
        """Remember ids that the registry does not know, so that the next query treats them as corrupt."""
        with self._lock:
            for id_ in ids:
                self._refused.pop(id_, None)
                self._refused[id_] = None
            while len(self._refused) > _MOST_REFUSED:
                del self._refused[next(iter(self._refused))]

    def find_registered(self) -> int | None:
        """An unknown id that has been registered since; asks at most every few seconds."""
        if not self._refused or time.monotonic() - self._asked < _ASK_AGAIN:
            return None
        self._asked = time.monotonic()
        try:
            with self._lock:
                refused = list(self._refused)
            found = self._registered(refused)
        except GearshiftError:
            return None  # the query runs without it until the next lookup
        with self._lock:
            for id_ in found:
                self._refused.pop(id_, None)
        return min(found, default=None)

    def _registered(self, ids: list[int]) -> set[int]:
        """The ids that are registered now: under a subject of the topics or, for the newest ids, under any subject."""
        topics = [topic for topic in self._pipeline.topics.values() if topic.is_registered]
        subjects = [
            *(topic.subject for topic in topics),
            *(_key_subject(topic) for topic in topics if topic.envelope),
        ]
        ours = {id_ for subject in subjects for id_ in self._registry.versions(subject)}
        # An id that was found before and still stops the query does not help its topic.
        asked = [id_ for id_ in ids[-_MOST_ASKED:] if id_ not in ours and id_ not in self._others]
        others = {id_ for id_ in asked if self._registry.schema(id_) is not None}
        self._others |= others
        return ours.intersection(ids) | others

    def _values(self, topic: Topic) -> dict[int, Schema]:
        found = self._registry.versions(topic.subject)
        for id_ in self._others - found.keys():
            if (schema := self._registry.schema(id_)) is not None:
                found[id_] = schema
        return found

    def _schemas(self, subject: str) -> dict[int, str]:
        return {id_: schema.text for id_, schema in self._registry.versions(subject).items()}

    def _ends(self) -> dict[str, dict[int, int]]:
        names = [topic.name for topic in self._pipeline.topics.values()]
        ends: dict[str, dict[int, int]] = {}
        try:
            for (name, partition), offset in self._context.admin.end_offsets(names).items():
                ends.setdefault(name, {})[partition] = offset
        except GearshiftError:
            return {}  # then every unknown id is looked up
        return ends


def _key_subject(topic: Topic) -> str:
    return f"{topic.name}-key"
