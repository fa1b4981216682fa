"""A pipeline's offsets in a consumer group with its name: Spark commits none, and Kafka's tools show the lag of groups."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from gearshift.errors import GearshiftError

log = logging.getLogger(__name__)

_QUIET = 5
"""Failures before a warning: the first commit of all waits until Kafka has made its topic for offsets."""


class Mirror:
    """Commits the offsets after each batch, and again while Kafka does not answer."""

    def __init__(self, pipeline: str, commit: Callable[[], None], *, again_after: float = 2.0) -> None:
        self._pipeline = pipeline
        self._commit = commit
        self._again_after = again_after  # seconds
        self._batch = -1
        self._failures = 0
        self.due: float | None = None
        """When to try again, on the monotonic clock; None if the last commit did not fail."""

    def is_due(self, newest: int, *, closing: bool) -> bool:
        """Whether there is something to commit now; when the app stops, a last time without a wait."""
        waits = self.due is not None and time.monotonic() < self.due and not closing
        return self._batch != newest and not waits

    def commit(self, newest: int, *, closing: bool) -> None:
        """Commit the offsets, of which this is the newest batch."""
        try:
            self._commit()
        except GearshiftError as error:
            self._failures += 1
            if not error.retriable or closing or self._failures == _QUIET:
                log.warning("%s: offsets not mirrored: %s", self._pipeline, error)
            if error.retriable and not closing:
                self.due = time.monotonic() + self._again_after
                return
        self._batch, self._failures, self.due = newest, 0, None
