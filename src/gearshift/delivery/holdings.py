"""The partitions a consumer holds, and the commits of their offsets."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from gearshift.delivery.progress import Progress

Place = tuple[str, int]


class Commits(Protocol):
    """What takes commits: a consumer."""

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """Commit offsets, and return when it is done."""
        ...


class Due(NamedTuple):
    """An offset of a partition to commit."""

    place: Place
    progress: Progress
    position: int


class Holdings:
    """One Progress per partition held; commits are made one at a time, so that none can overtake a later one."""

    def __init__(self) -> None:
        self._held: dict[Place, Progress] = {}
        self._committing = threading.Lock()

    def __contains__(self, place: Place) -> bool:
        return place in self._held

    def __iter__(self) -> Iterator[Place]:
        return iter(list(self._held))

    def get(self, place: Place) -> Progress | None:
        """The progress of a partition, if it is held."""
        return self._held.get(place)

    def items(self) -> list[tuple[Place, Progress]]:
        """All that is held."""
        return list(self._held.items())

    def add(self, place: Place, start: int, committed: int | None, topic_id: str | None = None) -> None:
        """Hold a partition from an offset on."""
        self.drop([place])
        progress = Progress(start, topic_id)
        progress.committed = committed
        self._held[place] = progress

    def drop(self, places: Iterable[Place]) -> None:
        """Hold partitions no more."""
        for place in places:
            progress = self._held.pop(place, None)
            if progress is not None:
                progress.gone = True

    def due(self) -> list[Due]:
        """What is finished now and not committed."""
        return [
            Due(place, progress, progress.position)
            for place, progress in self.items()
            if progress.position != progress.committed or progress.unsure
        ]

    def commit(self, to: Commits, due: Iterable[Due]) -> None:
        """Commit what was due; not what has been committed further meanwhile, or is not held any more."""
        with self._committing:
            offsets: dict[Place, int] = {}
            for place, progress, position in due:
                before = -1 if progress.committed is None else progress.committed
                if self._held.get(place) is progress and position >= before + (not progress.unsure):
                    offsets[place] = position
            to.commit(offsets)
            for place, position in offsets.items():
                progress = self._held.get(place)
                if progress is not None:
                    progress.committed = position
                    progress.unsure = False

    def doubt(self) -> None:
        """A commit that nobody waited for has failed: what was committed last is committed once more."""
        for _, progress in self.items():
            progress.unsure = True
