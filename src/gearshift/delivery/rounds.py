"""One poll's worth of records after the other: the next begins when this one is finished and committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from gearshift.delivery.progress import Progress

Message = Any  # confluent_kafka.Message, of which the library types nothing
_SHORT, _LONG = 0.05, 0.2  # seconds of a round that could be longer, and of one that should be shorter


class Piece(NamedTuple):
    """Records of one partition that are worked on together."""

    progress: Progress
    messages: list[Message]


def place_of(messages: list[Message]) -> tuple[str, int]:
    """The partition that records are of."""
    return messages[0].topic(), messages[0].partition()


class Rounds:
    """Keeps records waiting until the round under way has ended.

    `start` hands the records of a round to the lanes; `end` commits, in the thread that finished the last of
    them, and gives back the records that are to be worked on again. A round has `size` records at first; then
    as many, between `least` and `most`, as are done in about a tenth of a second, or in the time that a commit
    takes: a quick handler is not kept waiting by its commits, and a slow one has little to repeat after a crash.
    """

    def __init__(
        self,
        start: Callable[[list[Piece]], None],
        end: Callable[[list[Piece]], list[Piece]],
        size: int,
        *,
        least: int | None = None,
        most: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start = start
        self._end = end
        self._size = size
        self._least = size if least is None else least
        self._most = size if most is None else most
        self._clock = clock
        self._count = 0
        self._singly = 0
        self._began = 0.0
        self._ending_since: float | None = None
        self._held: list[Piece] = []
        self._round: list[Piece] = []
        self._dropped: list[Piece] = []
        self._remaining = 0
        self._number = 0
        self._running = False
        self._changed = threading.Condition()

    def take(self, pieces: list[Piece]) -> None:
        """Add records; they begin when their turn comes."""
        with self._changed:
            self._held.extend(pieces)
            if self._running or not self._held:
                return
            self._running = True
            self._gather()
        self._start(self._round)
        self._count_down(1)

    def done(self, count: int) -> None:
        """Records of the round are finished, here or by another consumer."""
        self._count_down(count)

    def drop(self, piece: Piece) -> None:
        """Records of the round that nobody finished."""
        with self._changed:
            self._dropped.append(piece)
        self._count_down(len(piece.messages))

    def forget(self, gone: Iterable[Progress]) -> list[Message]:
        """Take the waiting records of some partitions out, and return them."""
        places = set(map(id, gone))
        with self._changed:
            taken = [
                message for piece in self._held if id(piece.progress) in places for message in piece.messages
            ]
            self._held = [piece for piece in self._held if id(piece.progress) not in places]
        return taken

    def one_by_one(self, count: int) -> None:
        """Give each of the next records a round of its own."""
        self._singly = count

    def await_end(self, seconds: float) -> bool:
        """Wait for the end of the round under way; False if it has not come after this time."""
        with self._changed:
            number = self._number
            return self._changed.wait_for(lambda: not self._running or self._number != number, seconds)

    def _gather(self) -> None:
        """Make a round of what is held."""
        size = 1 if self._singly else self._size
        self._round, self._dropped, room = [], [], size
        rest = 0
        for progress, messages in self._held:
            if not room:
                break
            self._round.append(Piece(progress, messages[:room]))
            if len(messages) > room:
                self._held[rest] = Piece(progress, messages[room:])
                room = 0
                break
            room -= len(messages)
            rest += 1
        self._held = self._held[rest:]
        self._count = size - room
        self._singly = max(0, self._singly - self._count)
        self._began = self._clock()
        # One more, our own: the round cannot end before all of it was handed over.
        self._remaining = self._count + 1

    def _fit(self, worked_until: float) -> None:
        """Choose the size of the next round from the time that the work of this one took, and its end."""
        work, end = worked_until - self._began, self._clock() - worked_until
        if self._count >= self._size and (work < _SHORT or work < end):
            self._size = min(self._most, self._size * 2)
        elif work > max(_LONG, 2 * end):
            self._size = max(self._least, self._count // 2 // self._least * self._least)

    def _count_down(self, by: int) -> None:
        while True:
            with self._changed:
                self._remaining -= by
                if self._remaining:
                    return
            worked_until = self._ending_since = self._clock()
            again = self._end(self._round)
            with self._changed:
                self._ending_since = None
                self._fit(worked_until)
                self._held[:0] = again
                self._number += 1
                self._running = bool(self._held)
                self._changed.notify_all()
                if not self._running:
                    return
                self._gather()
            self._start(self._round)
            by = 1

    @property
    def ending_for(self) -> float:
        """For how many seconds the end of a round has been under way."""
        since = self._ending_since
        return 0.0 if since is None else self._clock() - since

    @property
    def dropped(self) -> list[Piece]:
        """The records of the round that were dropped so far."""
        return self._dropped
