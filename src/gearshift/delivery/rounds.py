"""One poll's worth of records after the other: the next begins when this one is finished and committed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

Message = Any
Place = tuple[str, int]


class Rounds:
    """Keeps records waiting until the round under way has ended.

    `start` hands the records of a round to the lanes; `end` commits, in the thread that finished the last of
    them, and gives back the records that are to be worked on again.
    """

    def __init__(
        self,
        start: Callable[[list[Message]], None],
        end: Callable[[list[Message]], list[Message]],
        size: int,
    ) -> None:
        self._start = start
        self._end = end
        self._size = size
        self._held: list[Message] = []
        self._round: list[Message] = []
        self._dropped: list[Message] = []
        self._remaining = 0
        self._number = 0
        self._running = False
        self._changed = threading.Condition()

    def take(self, messages: list[Message]) -> None:
        """Add records; they begin when their turn comes."""
        with self._changed:
            self._held.extend(messages)
            if self._running or not self._held:
                return
            self._running = True
        self._begin()

    def done(self, count: int) -> None:
        """Records of the round are finished."""
        self._count_down(count)

    def drop(self, messages: list[Message]) -> None:
        """Records of the round that nobody finished."""
        with self._changed:
            self._dropped.extend(messages)
        self._count_down(len(messages))

    def forget(self, places: Iterable[Place]) -> list[Message]:
        """Take the waiting records of some partitions out, and return them."""
        gone = set(places)
        with self._changed:
            taken = [m for m in self._held if (m.topic(), m.partition()) in gone]
            self._held = [m for m in self._held if (m.topic(), m.partition()) not in gone]
        return taken

    def await_end(self, seconds: float) -> bool:
        """Wait for the end of the round under way; False if it has not come after this time."""
        with self._changed:
            number = self._number
            return self._changed.wait_for(lambda: not self._running or self._number != number, seconds)

    def _begin(self) -> None:
        with self._changed:
            self._round, self._held = self._held[: self._size], self._held[self._size :]
            self._dropped = []
            self._remaining = len(self._round) + 1
        self._start(self._round)
        self._count_down(1)  # our own: the round cannot end before all of it was handed over

    def _count_down(self, by: int) -> None:
        with self._changed:
            self._remaining -= by
            if self._remaining:
                return
        again = self._end(self._round)
        with self._changed:
            self._held[:0] = again
            self._number += 1
            self._running = bool(self._held)
            self._changed.notify_all()
            if not self._running:
                return
        self._begin()

    @property
    def dropped(self) -> list[Message]:
        """The records of the round that were dropped so far."""
        return self._dropped
