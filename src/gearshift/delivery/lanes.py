"""Work side by side that stays in order within a lane."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
_END = object()
_TURN = 0.02  # seconds of work after which a lane lets another have its thread


class Lanes(Generic[Item]):
    """So many threads; the items of one lane run one after the other, those of different lanes at once.

    A lane is there while it has items. A thread works on one for a short turn, and takes another then: a lane with
    many items keeps one thread busy and no other lane waiting. `run` works on an item until a moment on the
    monotonic clock, and returns what is left of it, or None; `after` is called at the end of each turn, before
    the next item of the lane can begin. If either raises, `failed` is told and no item of any lane begins any more:
    the failed one is not done, and what comes behind it in its lane must not overtake it.
    """

    def __init__(
        self,
        run: Callable[[Item, float], Item | None],
        threads: int,
        name: str,
        *,
        failed: Callable[[BaseException], None],
        after: Callable[[], None] | None = None,
    ) -> None:
        self._run = run
        self._after = after
        self._failed = failed
        self._has_failed = False
        self._lanes: dict[Hashable, deque[Item]] = {}
        self._ready: SimpleQueue[Any] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name} {number}", daemon=True)
            for number in range(threads)
        ]

    def open(self) -> None:
        """Begin to work."""
        for thread in self._threads:
            thread.start()

    def submit(self, items: Iterable[tuple[Hashable, Item]]) -> None:
        """Put each item at the end of its lane."""
        ready: list[Hashable] = []
        with self._lock:
            for lane, item in items:
                waiting = self._lanes.get(lane)
                if waiting is None:
                    self._lanes[lane] = deque((item,))
                    ready.append(lane)
                else:
                    waiting.append(item)
        for lane in ready:
            self._ready.put(lane)

    def close(self, seconds: float) -> None:
        """Let the threads end after the turn each has begun."""
        for _ in self._threads:
            self._ready.put(_END)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(seconds)

    def _work(self) -> None:
        while (lane := self._ready.get()) is not _END:
            waiting = self._lanes[lane]
            done = 0
            try:
                done = self._turn(waiting)
                if self._after is not None:
                    self._after()
            except BaseException as error:
                self._has_failed = True
                self._failed(error)
            if self._has_failed:
                return
            with self._lock:
                for _ in range(done):
                    waiting.popleft()
                empty = not waiting
                if empty:
                    del self._lanes[lane]
            if not empty:
                self._ready.put(lane)

    def _turn(self, waiting: deque[Item]) -> int:
        """Work on a lane for a while; how many of its items are done. Only this thread takes any from it."""
        until = time.monotonic() + _TURN
        done = 0
        while done < len(waiting) and not self._has_failed:
            left = self._run(waiting[done], until)
            if left is not None:
                waiting[done] = left
                break
            done += 1
            if time.monotonic() > until:
                break
        return done
