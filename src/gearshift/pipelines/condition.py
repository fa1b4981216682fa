"""The state of a pipeline as `gearshift status` shows it, and the progress of its query."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql.streaming.query import StreamingQuery

from gearshift.pipelines.listener import Progress

_BATCH_ENDS_WITHIN = 10.0
_JUST_NOW_MS = 500  # the next batch has written little by then


@dataclass(slots=True)
class Condition:
    """State, latest error and latest progress of one pipeline."""

    state: str = "starting"
    error: str | None = None
    progress: Progress | None = None
    next_run: datetime | None = None
    restarts: int = 0
    _reported: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def show(self, state: str, error: str | None = None) -> None:
        """Set the state and its error."""
        self.state, self.error = state, error

    def report(self, progress: Progress) -> None:
        """Take the report of a batch and wake those who wait for it."""
        self.progress = progress
        with self._reported:
            self._reported.notify_all()

    def progress_of(self, query: StreamingQuery) -> Progress | None:
        """The latest report, if it is about this start of the query."""
        latest = self.progress
        return latest if latest is not None and latest.run_id == str(query.runId) else None

    def wait(self, seconds: float) -> None:
        """Wait for the next report, at most this long."""
        with self._reported:
            self._reported.wait(seconds)

    def wait_for_batch(
        self, query: StreamingQuery, until: float, *, after: int | None = None
    ) -> Progress | None:
        """The next report on a batch after a number; None if the query ends or the time is over."""
        if after is None:
            after = self._latest_batch(query)
        with self._reported:
            while time.monotonic() < until:
                latest = self.progress_of(query)
                if latest is not None and latest.batch_id > after:
                    return latest
                if not query.isActive:
                    return None
                self._reported.wait(0.05)
        return None

    def wait_for_end_of_batch(self, query: StreamingQuery) -> bool:
        """Wait for the report of a batch that ended after this was called; whether it came in time."""
        now_ms, until = time.time() * 1000, time.monotonic() + _BATCH_ENDS_WITHIN
        after = self._latest_batch(query)
        while (found := self.wait_for_batch(query, until, after=after)) is not None:
            if found.settled_ms >= now_ms:
                return True
            after = found.batch_id
        return False

    @property
    def just_committed(self) -> bool:
        """Whether a batch ended a moment ago."""
        latest = self.progress
        return latest is not None and time.time() * 1000 - latest.settled_ms < _JUST_NOW_MS

    def _latest_batch(self, query: StreamingQuery) -> int:
        latest = self.progress_of(query)
        return latest.batch_id if latest is not None else -1
