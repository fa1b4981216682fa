"""Only one thread talks to the consumer: the others ask it to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from gearshift.delivery.life import Life
from gearshift.errors import RetriableError

T = TypeVar("T")


class _Errand:
    """Something that the polling thread is asked to do."""

    def __init__(self, do: Callable[[], Any]) -> None:
        self._do = do
        self.answer: Any = None
        self.error: Exception | None = None
        self.answered = threading.Event()

    def act(self) -> None:
        """Do it, and tell whoever asked."""
        try:
            self.answer = self._do()
        except Exception as error:
            self.error = error
        self.answered.set()


class Errands:
    """What the polling thread, which keeps the consumer from everybody else while it polls, does for others."""

    def __init__(self, life: Life, wake: Callable[[], None]) -> None:
        """`wake` is called when there is something to do."""
        self._life = life
        self._wake = wake
        self._asked: SimpleQueue[_Errand] = SimpleQueue()
        self._poller = threading.get_ident()

    @property
    def are_own(self) -> bool:
        """Whether this is the polling thread."""
        return threading.get_ident() == self._poller

    @property
    def are_waiting(self) -> bool:
        """Whether somebody has asked."""
        return not self._asked.empty()

    def ask(self, act: Callable[[], T]) -> T:
        """Let the polling thread do something with the consumer, and return what came of it."""
        if self.are_own:
            return act()
        errand = _Errand(act)
        self._asked.put(errand)
        self._wake()
        while not errand.answered.wait(0.1):
            if self._life.is_over:
                raise RetriableError("the consumer has ended")
        if errand.error is not None:
            raise errand.error
        return errand.answer

    def run(self) -> None:
        """Do what was asked; only the polling thread does."""
        while not self._asked.empty():
            self._asked.get().act()
