"""The records in flight: their limit, and pausing of the partitions when it is reached."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from gearshift.delivery.assignment import Assignment

if TYPE_CHECKING:
    from gearshift.delivery.confirmation import TopicConfirmation
    from gearshift.delivery.poll_thread import PollThread
    from gearshift.delivery.rebalance import GroupMember

_PAUSE_AFTER = 0.2  # waiting a moment is cheaper than a pause, which discards what was fetched
_SOON = 0.001  # while an answer is expected that only a poll brings


@dataclass(slots=True)
class Counts:
    """Counters of one consumer since it started."""

    delivered: int = 0
    duplicates: int = 0
    dead_letters: int = 0
    retries: int = 0
    skipped: int = 0
    """Records that retention deleted before they were read."""
    failed_commits: int = 0
    _failure: tuple[float, str] | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, name: str, by: int = 1) -> None:
        """Increase a counter."""
        with self._lock:
            setattr(self, name, getattr(self, name) + by)

    def note_failure(self, why: str, *, until: float) -> None:
        """Show why a record is retried, until a time on the monotonic clock."""
        self._failure = until, why

    @property
    def retrying(self) -> str | None:
        """Why a record is being retried; None if none is."""
        failure = self._failure
        return failure[1] if failure is not None and time.monotonic() < failure[0] else None

    def as_dict(self) -> dict[str, int]:
        """The counters by name."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.type == "int"}


class InFlight:
    """The number and bytes of the records polled and not finished, with a limit for each."""

    def __init__(self, max_records: int, max_bytes: int) -> None:
        self.records = 0
        self.bytes = 0
        self.paused = False
        """Whether fetching is paused because the limit was reached."""
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._changed = threading.Condition()

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return self.records >= self._max_records or self.bytes >= self._max_bytes

    @property
    def half_empty(self) -> bool:
        """Whether half of the limit is free."""
        return self.records * 2 <= self._max_records and self.bytes * 2 <= self._max_bytes

    def add(self, records: int, size: int) -> None:
        """Count polled records."""
        with self._changed:
            self.records += records
            self.bytes += size

    def remove(self, records: int, size: int) -> None:
        """Count finished or dropped records."""
        with self._changed:
            was_full = self.full
            self.records -= records
            self.bytes -= size
            if was_full and not self.full:
                self._changed.notify_all()

    def await_room(self, seconds: float, unless: Callable[[], bool] = lambda: False) -> bool:
        """Wait for room; False on timeout, or when `wake` was called and `unless` holds."""
        with self._changed:
            self._changed.wait_for(lambda: not self.full or unless(), seconds)
            return not self.full

    def wake(self) -> None:
        """Let a thread that waits for room check its `unless` condition."""
        with self._changed:
            self._changed.notify_all()


class FlowControl:
    """Pauses and resumes fetching."""

    def __init__(
        self,
        member: GroupMember,
        *,
        assignment: Assignment,
        in_flight: InFlight,
        confirmation: TopicConfirmation,
        poll_thread: PollThread,
    ) -> None:
        self._member = member
        self._assignment = assignment
        self._in_flight = in_flight
        self._confirmation = confirmation
        self._poll_thread = poll_thread
        self._full_since: float | None = None

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached and partitions are not paused yet."""
        return self._in_flight.full and not self._in_flight.paused

    def regulate(self) -> None:
        """Wait a moment for room, then pause; resume when half of the limit is free."""
        if self.is_full:
            now = time.monotonic()
            self._full_since = self._full_since or now
            left = self._full_since + _PAUSE_AFTER - now
            if left > 0:
                answer_expected = self._member.consumer.unanswered > 0 or self._confirmation.is_asking
                self._in_flight.await_room(
                    min(left, _SOON) if answer_expected else left, lambda: self._poll_thread.has_tasks
                )
            else:
                self._in_flight.paused = True
                self.apply()
        elif self._in_flight.paused and self._in_flight.half_empty:
            self._in_flight.paused = False
            self.apply()
        if not self._in_flight.full:
            self._full_since = None
        if self._member.finish_loading():
            self.apply()

    def apply(self) -> None:
        """Fetch if there is room, except partitions whose dedup marks are still loading."""
        loading = self._member.loading
        flowing = [] if self._in_flight.paused else [each for each in self._assignment if each not in loading]
        self._member.consumer.pause([each for each in self._assignment if each not in flowing])
        self._member.consumer.resume(flowing)
