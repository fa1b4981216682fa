"""What a consumer has done and holds, for people and machines to see."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class Counts:
    """Counters of one consumer since it started."""

    delivered: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    retries: int = 0
    skipped: int = 0
    """Records that retention took before they were read."""
    failed_commits: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, name: str, by: int = 1) -> None:
        """Count."""
        with self._lock:
            setattr(self, name, getattr(self, name) + by)

    def as_dict(self) -> dict[str, int]:
        """The counters by name."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.type == "int"}


class Flight:
    """The records in hand, bounded in number and in bytes."""

    def __init__(self, records: int, size: int) -> None:
        self.records = 0
        self.bytes = 0
        self._most_records = records
        self._most_bytes = size
        self._changed = threading.Condition()

    @property
    def full(self) -> bool:
        """Whether no more should be taken."""
        return self.records >= self._most_records or self.bytes >= self._most_bytes

    @property
    def half_empty(self) -> bool:
        """Whether there is room for a good part again."""
        return self.records * 2 <= self._most_records and self.bytes * 2 <= self._most_bytes

    def take(self, records: int, size: int) -> None:
        """Take records in hand."""
        with self._changed:
            self.records += records
            self.bytes += size

    def give_back(self, records: int, size: int) -> None:
        """Be done with records."""
        with self._changed:
            was_full = self.full
            self.records -= records
            self.bytes -= size
            if was_full and not self.full:
                self._changed.notify_all()

    def await_room(self, seconds: float, unless: Callable[[], bool] = lambda: False) -> bool:
        """Wait for room; False if there is none after this time, or something else, told by `wake`, comes first."""
        with self._changed:
            self._changed.wait_for(lambda: not self.full or unless(), seconds)
            return not self.full

    def wake(self) -> None:
        """Let whoever waits for room look up."""
        with self._changed:
            self._changed.notify_all()
