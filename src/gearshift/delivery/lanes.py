"""Work side by side that stays in order within a lane."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
_END = object()


class Lanes(Generic[Item]):
    """So many threads; the items of one lane run one after the other, those of different lanes at once.

    A lane is there while it has items, and a thread takes one item of it at a time: a lane with many items keeps
    one thread busy and no other lane waiting.
    """

    def __init__(self, run: Callable[[Item], None], threads: int, name: str) -> None:
        self._run = run
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
        """Let the threads end after the item each has in hand."""
        for _ in self._threads:
            self._ready.put(_END)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(seconds)

    def _work(self) -> None:
        while (lane := self._ready.get()) is not _END:
            waiting = self._lanes[lane]
            self._run(waiting[0])
            with self._lock:
                waiting.popleft()
                if not waiting:
                    del self._lanes[lane]
            if waiting:
                self._ready.put(lane)
