"""The poll thread: the only one that uses the Kafka consumer; other threads queue tasks for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from gearshift.errors import RetriableError

T = TypeVar("T")


class Lifecycle:
    """The state of a consumer that its threads share."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        """Set when the consumer was asked to stop, or has to."""
        self.failure: BaseException | None = None
        self.revoking = False
        """Partitions are being revoked and wait for the records in flight."""
        self.ending_round = False
        """No record may begin, because the current round has to end."""
        self.closing = False
        """No further poll follows."""
        self.ended = False

    @property
    def is_over(self) -> bool:
        """Whether the poll thread runs no further tasks."""
        return self.ended or self.failure is not None


class _Task:
    """A function to run in the poll thread, with its result."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self.result: Any = None
        self.error: Exception | None = None
        self.done = threading.Event()

    def run(self) -> None:
        """Run it and wake the thread that waits."""
        try:
            self.result = self._function()
        except Exception as error:
            self.error = error
        self.done.set()


class PollThread:
    """Runs functions of other threads in the poll thread, between two polls."""

    def __init__(self, lifecycle: Lifecycle, wake: Callable[[], None]) -> None:
        """`wake` is called when a task was queued."""
        self._lifecycle = lifecycle
        self._wake = wake
        self._tasks: SimpleQueue[_Task] = SimpleQueue()
        self._ident = threading.get_ident()

    @property
    def is_current(self) -> bool:
        """Whether the calling thread is the poll thread."""
        return threading.get_ident() == self._ident

    @property
    def has_tasks(self) -> bool:
        """Whether a task is queued."""
        return not self._tasks.empty()

    def call(self, function: Callable[[], T]) -> T:
        """Run a function in the poll thread and return its result."""
        if self.is_current:
            return function()
        task = _Task(function)
        self._tasks.put(task)
        self._wake()
        while not task.done.wait(0.1):
            if self._lifecycle.is_over:
                raise RetriableError("the consumer has stopped")
        if task.error is not None:
            raise task.error
        return task.result

    def run_tasks(self) -> None:
        """Run the queued tasks; only the poll thread calls this."""
        while not self._tasks.empty():
            self._tasks.get().run()
