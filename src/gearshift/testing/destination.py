"""A destination that keeps what it gets, and fails on command."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Any

from gearshift.errors import PermanentError, RetriableError
from gearshift.record import Row


class _Failure(Enum):
    RETRIABLE = "retriable"
    PERMANENT = "permanent"
    AFTER_EFFECT = "after effect"


class FakeDestination:
    """Stores rows by their idempotency key, as a destination must: the same row again changes nothing.

    >>> destination = FakeDestination()
    >>> destination.fail(permanent=True)
    >>> destination.write([])
    Traceback (most recent call last):
    gearshift.errors.PermanentError: the destination failed on command
    >>> destination.writes, destination.values
    (1, [])
    """

    def __init__(self, *, batch_size: int = 1) -> None:
        self.batch_size = batch_size
        self.writes = 0
        """How often it was called, failures included."""
        self._failures: deque[_Failure] = deque()
        self._rows: dict[str, Row] = {}
        self._lock = threading.Lock()  # a delivery with parallelism writes from several threads

    @property
    def rows(self) -> list[Row]:
        """What it holds, each idempotency key once, in the order of the first writes."""
        with self._lock:
            return list(self._rows.values())

    @property
    def values(self) -> list[Any]:
        """The values of the rows: what the delivery's function returned."""
        return [row.value for row in self.rows]

    def fail(self, times: int = 1, *, permanent: bool = False) -> None:
        """Fail the next writes before they have an effect; a delivery does not retry a permanent failure."""
        with self._lock:
            self._failures.extend([_Failure.PERMANENT if permanent else _Failure.RETRIABLE] * times)

    def fail_after_effect(self, times: int = 1) -> None:
        """Store the rows of the next writes and then fail, as if the answer was lost."""
        with self._lock:
            self._failures.extend([_Failure.AFTER_EFFECT] * times)

    def open(self, group_id: str) -> None:
        """Nothing to connect to."""

    def write(self, rows: Sequence[Row]) -> None:
        """Store the rows, or fail on command."""
        with self._lock:
            self.writes += 1
            failure = self._failures.popleft() if self._failures else None
            if failure in (None, _Failure.AFTER_EFFECT):
                for row in rows:
                    self._rows.setdefault(row.idempotency_key, row)
        if failure is _Failure.PERMANENT:
            raise PermanentError("the destination failed on command")
        if failure is not None:
            raise RetriableError("the destination failed on command")

    def flush(self) -> None:
        """Rows are stored when `write` returns."""

    def close(self) -> None:
        """Keep the rows, so that a test can read them."""
