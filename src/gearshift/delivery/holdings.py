"""The partitions a consumer holds, and the commits of their offsets."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from gearshift.delivery.progress import Progress

Place = tuple[str, int]


class Commits(Protocol):
    """What takes commits: a consumer."""

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """Commit offsets, and return when it is done."""
        ...


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

    def add(self, place: Place, start: int, committed: int | None) -> None:
        """Hold a partition from an offset on."""
        progress = Progress(start)
        progress.committed = committed
        self._held[place] = progress

    def drop(self, places: Iterable[Place]) -> None:
        """Hold partitions no more."""
        for place in places:
            self._held.pop(place, None)

    def commit(self, to: Commits, *, anew: bool = False) -> None:
        """Commit what is finished; with `anew` also what was committed before, which proves that we are a member."""
        with self._committing:
            due = {
                place: progress.position
                for place, progress in self.items()
                if anew or progress.position != progress.committed
            }
            to.commit(due)
            for place, position in due.items():
                progress = self._held.get(place)
                if progress is not None:
                    progress.committed = position

    def positions(self) -> dict[Place, int]:
        """The offset of each partition that may be committed."""
        return {place: progress.position for place, progress in self.items()}
