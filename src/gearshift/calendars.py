"""Calendars: time cut into intervals without gaps or overlaps, one batch run each. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Protocol

EARLIEST = datetime(1000, 1, 1, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""Event times outside of these are placeholders for "never" or "always"."""


class Calendar(Protocol):
    """When batches run: a `Freshness` such as "1 month", or a `Cron`."""

    def next_run(self, after: datetime, zone: tzinfo) -> datetime: ...
    def last_run(self, at: datetime, zone: tzinfo) -> datetime: ...


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """The time range that one run computes: from `start`, up to and excluding `end`.

    Both are local times of the app's zone with fixed offsets, so that their difference is elapsed time.
    """

    start: datetime
    end: datetime

    @property
    def key(self) -> str:
        """The start in ISO 8601, as in the result column `interval_start`.

        >>> Interval(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)).key
        '2026-02-01T00:00:00+00:00'
        """
        return self.start.isoformat()

    @property
    def name(self) -> str:
        """The start in UTC, in a form that is valid as a file name.

        >>> Interval(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)).name
        '20260201T000000Z'
        """
        return f"{self.start.astimezone(UTC):%Y%m%dT%H%M%SZ}"

    def __contains__(self, moment: datetime) -> bool:
        return self.start <= moment < self.end

    def __str__(self) -> str:
        return f"{self.start.isoformat()} to {self.end.isoformat()}"


def interval_at(calendar: Calendar, moment: datetime, zone: tzinfo) -> Interval:
    """The interval that contains an instant.

    >>> from zoneinfo import ZoneInfo
    >>> from gearshift.freshness import Freshness
    >>> berlin = ZoneInfo("Europe/Berlin")
    >>> day = interval_at(Freshness(1, "day"), datetime(2026, 10, 25, 12, tzinfo=berlin), berlin)
    >>> str(day), day.end - day.start == timedelta(hours=25)
    ('2026-10-25T00:00:00+02:00 to 2026-10-26T00:00:00+01:00', True)
    """
    start = calendar.last_run(moment.astimezone(UTC), zone).astimezone(UTC)
    return Interval(local(start, zone), local(calendar.next_run(start, zone), zone))


def intervals_from(calendar: Calendar, moment: datetime, zone: tzinfo) -> Iterator[Interval]:
    """The interval that contains an instant, and all later ones."""
    interval = interval_at(calendar, moment, zone)
    while True:
        yield interval
        interval = Interval(interval.end, local(calendar.next_run(interval.end, zone), zone))


def intervals_between(
    calendar: Calendar, start: datetime, end: datetime, zone: tzinfo, *, most: int | None = None
) -> list[Interval]:
    """The intervals that begin between two instants, excluding the second; the first `most` of them if given.

    >>> from gearshift.freshness import Freshness
    >>> year = datetime(2028, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC)
    >>> months = intervals_between(Freshness(1, "month"), *year, UTC)
    >>> len(months), (months[1].end - months[1].start).days
    (12, 29)
    """
    found: list[Interval] = []
    for interval in intervals_from(calendar, start, zone):
        if interval.start >= end or len(found) == most:
            return found
        if interval.start >= start:
            found.append(interval)
    return found


def local(instant: datetime, zone: tzinfo) -> datetime:
    """An instant in a zone's local time, with a fixed offset.

    Python compares and subtracts two times of one named zone by wall clock, which is wrong across a clock change;
    times with fixed offsets are compared as instants.
    """
    moment = instant.astimezone(UTC).astimezone(zone)
    return moment.replace(tzinfo=timezone(moment.utcoffset() or timedelta(0)), fold=0)
