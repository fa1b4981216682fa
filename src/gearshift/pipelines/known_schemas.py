"""Which schema ids a pipeline can read, and which the registry was asked for in vain."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from dataclasses import replace

from gearshift.definitions import Pipeline, Table, Topic
from gearshift.errors import GearshiftError
from gearshift.pipelines.engine import Engine
from gearshift.pipelines.reading import UNKNOWN_SCHEMA, Versions
from gearshift.schemas import Registry

_ASK_AGAIN = 5.0  # seconds between two looks for a refused id: the registry may give it out later
_MOST_REFUSED = 1000  # ids in a query's plan; an older one is asked for once more when it comes again


class KnownSchemas:
    """The schema versions of a pipeline's topics.

    A producer registers its schema before it sends a record. So once the registry has been asked, an id that it does
    not know is garbage in every record that was on the topic before; only an id in a later record may be new, and
    stops the query so that the registry is asked again.
    """

    def __init__(self, engine: Engine, pipeline: Pipeline, registry: Registry) -> None:
        self._engine = engine
        self._pipeline = pipeline
        self._registry = registry
        self._refused: dict[int, None] = {}
        self._read: dict[str, Versions] = {}
        self._lock = threading.Lock()
        self._asked = 0.0

    def read(self, since: int) -> dict[str, Versions]:
        """Ask the registry; without news, the versions are those that were read before, so that a plan can be kept."""
        ends = (
            self._ends()
        )  # before the registry is asked: what comes later may be of a version that comes later
        keeps = isinstance(self._pipeline.target, Table)
        with self._lock:
            refused = frozenset(self._refused)
        read: dict[str, Versions] = {}
        for topic in self._pipeline.topics.values():
            found = Versions(
                writers=self._schemas(topic.subject) if topic.is_registered else {},
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
        """Ask for the id that stopped a query, and say why it can start again; None if no id did."""
        found = re.search(rf"{UNKNOWN_SCHEMA}=(\d+);", str(failure))
        if found is None:
            return None
        if int(found[1]) in self._registered():
            return f"schema id {found[1]}"
        self.refuse([int(found[1])])
        return f"schema id {found[1]} is not registered"

    def refuse(self, ids: Iterable[int]) -> None:
        """Remember ids that the registry does not know, so that the next query passes over them."""
        with self._lock:
            for id_ in ids:
                self._refused.pop(id_, None)
                self._refused[id_] = None
            while len(self._refused) > _MOST_REFUSED:
                del self._refused[next(iter(self._refused))]

    def find_registered(self) -> int | None:
        """A refused id that has been registered since; the registry is asked every few seconds, and only if there are any."""
        if not self._refused or time.monotonic() - self._asked < _ASK_AGAIN:
            return None
        self._asked = time.monotonic()
        try:
            found = self._registered() & self._refused.keys()
        except GearshiftError:
            return None  # the query runs without it; the registry is asked again
        with self._lock:
            for id_ in found:
                del self._refused[id_]
        return min(found, default=None)

    def _registered(self) -> set[int]:
        topics = [topic for topic in self._pipeline.topics.values() if topic.is_registered]
        subjects = [
            *(topic.subject for topic in topics),
            *(_key_subject(topic) for topic in topics if topic.envelope),
        ]
        return {id_ for subject in subjects for id_ in self._registry.versions(subject)}

    def _schemas(self, subject: str) -> dict[int, str]:
        return {id_: schema.text for id_, schema in self._registry.versions(subject).items()}

    def _ends(self) -> dict[str, dict[int, int]]:
        names = [topic.name for topic in self._pipeline.topics.values()]
        ends: dict[str, dict[int, int]] = {}
        try:
            for (name, partition), offset in self._engine.admin.end_offsets(names).items():
                ends.setdefault(name, {})[partition] = offset
        except GearshiftError:
            return {}  # then every unknown id is asked for
        return ends


def _key_subject(topic: Topic) -> str:
    return f"{topic.name}-key"
