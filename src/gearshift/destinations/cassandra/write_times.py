"""Write timestamps for Cassandra that are unique per key, so that of two records with the same event time the later wins.

Cassandra resolves two writes with the same timestamp per cell: the larger value wins, and the row would mix both. So the
later one is written some microseconds after its event time, and the event time column at the event time itself: from
both timestamps, a consumer that has just started learns how the row was written.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

_KEPT = 100_000  # keys; about 30 MB


class WriteTimes:
    """Microseconds that order the writes of each recently written key by event time and then by offset.

    >>> times = WriteTimes()
    >>> times.of("a", 5000, (7, 0)), times.of("a", 5000, (8, 0)), times.of("a", 5001, (9, 0))
    (5000, 5001, 5002)
    >>> times.of("a", 4999, (10, 0)), times.of("a", 5000, (8, 0)), times.of("a", 5001, (9, 0))
    (4999, 5000, 5002)
    >>> after_a_restart = WriteTimes()
    >>> after_a_restart.learn("a", 5001, 5002)
    >>> after_a_restart.of("a", 5000, (8, 0)), after_a_restart.of("a", 5001, (10, 0))
    (5000, 5003)
    """

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._last: dict[Any, tuple[int, tuple[int, int], int]] = {}
        self._lock = Lock()

    def __contains__(self, key: Any) -> bool:
        with self._lock:
            return key in self._last

    def learn(self, key: Any, event_time: int, written: int) -> None:
        """Record how an earlier process wrote a row; records delivered from now on are later than that one.

        Redelivered records come in order, so the last of them is written last.
        """
        with self._lock:
            self._last.setdefault(key, (event_time, (-1, -1), written))

    def of(self, key: Any, event_time: int, place: tuple[int, int]) -> int:
        """The timestamp of a write; `place` is the record's offset and the row's index."""
        with self._lock:
            known = self._last.pop(key, None)
            if known is not None and (event_time, place) <= known[:2]:
                self._last[key] = known
                # Repeated or late: it must not overwrite later writes.
                return known[2] if (event_time, place) == known[:2] else min(event_time, known[2] - 1)
            written = event_time if known is None else max(event_time, known[2] + 1)
            self._last[key] = (event_time, place, written)
            if len(self._last) > self._kept:
                del self._last[next(iter(self._last))]
            return written
