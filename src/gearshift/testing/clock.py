"""The time at which a pipeline's calendar looks for intervals that are due."""

from __future__ import annotations

from datetime import datetime, timedelta

from gearshift.errors import DefinitionError


class Clock:
    """Stands still until it is moved; a clock that was never set leaves the time to the rows.

    It does not change the time of Spark, of Kafka or of `datetime.now()`.

    >>> from datetime import UTC
    >>> clock = Clock()
    >>> clock.set(datetime(2026, 3, 2, tzinfo=UTC))
    >>> clock.advance(timedelta(hours=1))
    >>> clock.time.isoformat()
    '2026-03-02T01:00:00+00:00'
    """

    def __init__(self) -> None:
        self._time: datetime | None = None

    @property
    def time(self) -> datetime | None:
        """The time that was set; None before that."""
        return self._time

    def set(self, time: datetime) -> None:
        """Set the time, which must have a time zone."""
        if time.tzinfo is None:
            raise DefinitionError(
                "the time has no time zone", hint="write clock.set(datetime(…, tzinfo=UTC))"
            )
        self._time = time

    def advance(self, by: timedelta) -> None:
        """Move the time forward, or backward by a negative duration."""
        if self._time is None:
            raise DefinitionError("the clock was not set", hint="call clock.set(datetime(…)) first")
        self._time += by
