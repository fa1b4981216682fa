"""How far a partition is done: the offset that may be committed never passes an unfinished record."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from itertools import islice


class Progress:
    """One partition for as long as one consumer holds it.

    >>> progress = Progress(10)
    >>> progress.begin([10, 11, 12])
    >>> progress.finish(11); progress.position
    10
    >>> progress.finish(10); progress.position
    12
    """

    def __init__(self, start: int, topic_id: str | None = None) -> None:
        self.topic_id = topic_id
        """Which topic of its name it is a partition of; None where the brokers do not say."""
        self.position = start
        """The lowest offset that is not finished."""
        self.committed: int | None = None
        self.unsure = False
        """Whether the last commit may not have been taken."""
        self.ours = True
        """Whether work on it may begin."""
        self.gone = False
        """Whether another consumer may be at work on it: then work that has begun may not write any more."""
        self._begun: deque[int] = deque()
        self._last_begun = start - 1
        self._finished: set[int] = set()
        self._running = 0
        self._changed = threading.Condition()

    def begin(self, offsets: Iterable[int]) -> None:
        """Take in records, in the order of their offsets; those that were taken in before are not taken twice."""
        with self._changed:
            last = self._last_begun
            new = [offset for offset in offsets if offset > last]
            if new:
                self._begun.extend(new)
                self._last_begun = new[-1]

    def undo(self, offsets: list[int]) -> None:
        """Make records unfinished again: some in a row that were taken in, with none finished behind them."""
        with self._changed:
            last = offsets[-1]
            self._begun = deque((*offsets, *(offset for offset in self._begun if offset > last)))
            self._finished.difference_update(offsets)
            self.position = offsets[0]

    def finish(self, *offsets: int) -> None:
        """Records are done, whatever became of them."""
        if not offsets:
            return
        with self._changed:
            begun, finished = self._begun, self._finished
            position = 0
            if (
                tuple(islice(begun, len(offsets))) == offsets
            ):  # as nearly always: the next ones, in their order
                for _ in offsets:
                    begun.popleft()
                position = offsets[-1] + 1
                offsets = ()
            for offset in offsets:
                if begun and offset == begun[0]:
                    begun.popleft()
                    position = offset + 1  # offsets can skip: compaction and transactions leave gaps
                else:
                    finished.add(offset)
            if not position:
                return
            while begun and begun[0] in finished:
                offset = begun.popleft()
                finished.discard(offset)
                position = offset + 1
            self.position = position

    def skip_to(self, offset: int) -> int:
        """Leave out records that are gone; how many they were."""
        skipped = offset - self.next
        if skipped <= 0:
            return 0
        # The gap is passed like a record that is finished: not before those in front of it are.
        self.begin([offset - 1])
        self.finish(offset - 1)
        return skipped

    @property
    def next(self) -> int:
        """The offset after the last record that was taken in."""
        return self._last_begun + 1

    @property
    def unfinished(self) -> int:
        """How many records are begun and not finished, nor known to be."""
        return len(self._begun) - len(self._finished)

    def has_gap_before(self, offset: int) -> bool:
        """Whether this record, or one before it, is finished and an earlier one is not."""
        with self._changed:
            return any(finished <= offset for finished in self._finished)

    def has_unfinished_before(self, offset: int) -> bool:
        """Whether a record before this one was taken in and is not finished."""
        with self._changed:
            return bool(self._begun) and self._begun[0] < offset

    # who works on it

    def enter(self) -> bool:
        """Begin to work on some of its records; False if they are no longer ours."""
        with self._changed:
            if self.ours:
                self._running += 1
            return self.ours

    def leave(self) -> None:
        """End the work that `enter` began."""
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def let_go(self) -> None:
        """Let nobody begin anything more; the waiting between attempts ends at once."""
        with self._changed:
            self.ours = False
            self._changed.notify_all()

    def await_idle(self, seconds: float) -> bool:
        """Wait until nobody works on it; False if somebody still does after this time."""
        until = time.monotonic() + seconds
        with self._changed:
            while self._running:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def wait(self, seconds: float) -> bool:
        """Wait for so long, or until it is no longer ours; whether it still is."""
        until = time.monotonic() + seconds
        with self._changed:
            while self.ours and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            return self.ours
