"""How long a failed query waits before its next attempt."""

from __future__ import annotations

import math
import time

_FIRST = 1.0
_LONGEST = 60.0


class Backoff:
    """Doubles the wait with each failure, up to a minute."""

    def __init__(self) -> None:
        self._wait = _FIRST
        self._until = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether the next attempt is not due yet."""
        return time.monotonic() < self._until

    def fail(self) -> float:
        """Put the next attempt off; returns by how many seconds."""
        wait = self._wait
        self._until = time.monotonic() + wait
        self._wait = min(wait * 2, _LONGEST)
        return wait

    def stop(self) -> None:
        """Allow no further attempt: a person has to decide."""
        self._until = math.inf

    def reset(self) -> None:
        """Begin with the shortest wait again, after a success."""
        self._wait = _FIRST
