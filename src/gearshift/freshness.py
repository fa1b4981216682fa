"""Freshness: how old a result may be, and the gear and trigger that follow from it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum

from gearshift.errors import DefinitionError


class Gear(StrEnum):
    """The three speeds at which a pipeline can run."""

    BATCH = "batch"
    NEAR_REAL_TIME = "near-real-time"
    REAL_TIME = "real-time"

    @classmethod
    def named(cls, word: str) -> Gear:
        """The gear with this name.

        >>> Gear.named("batch")
        <Gear.BATCH: 'batch'>
        """
        try:
            return cls(word)
        except ValueError:
            raise DefinitionError(f"unknown gear {word!r}", hint=f"use {', '.join(cls)}") from None


_SECONDS = {
    "millisecond": 0.001,
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86_400,
    "week": 7 * 86_400,
    "month": 30 * 86_400,
    "year": 365 * 86_400,
}
_SHORT = {
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "m": "minute",
    "h": "hour",
    "d": "day",
}
_CALENDAR = ("hour", "day", "week", "month", "year")
REAL_TIME_BELOW = timedelta(seconds=10)
BATCH_FROM = timedelta(hours=1)
LONGEST = timedelta(days=100 * 365)
_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Freshness:
    """A promise: the result is never older than this duration.

    >>> Freshness.parse("1 second").gear.value, Freshness.parse("1 minute").gear.value
    ('real-time', 'near-real-time')
    >>> Freshness.parse("1 month").gear.value, str(Freshness.parse("90 s"))
    ('batch', '90 seconds')
    """

    count: int
    unit: str

    @classmethod
    def parse(cls, text: str) -> Freshness:
        """Read `"1 second"`, `"500 ms"`, `"2 hours"`, `"month"`.

        >>> Freshness.parse("month")
        Freshness(count=1, unit='month')
        """
        match = re.fullmatch(r"\s*(\d{1,15})?\s*([a-zA-Z]+)\s*", str(text))
        word = match[2].lower() if match else ""
        unit = _SHORT.get(word, word.removesuffix("s"))
        count = int(match[1] or 1) if match else 0
        if unit not in _SECONDS or count < 1:
            raise DefinitionError(
                f"{text!r} is not a duration", hint="use a number and a unit, such as '1 second' or '1 month'"
            )
        if count * _SECONDS[unit] > LONGEST.total_seconds():
            raise DefinitionError(f"duration {text!r} is too long", hint="use at most 100 years")
        return cls(count, unit)

    @property
    def duration(self) -> timedelta:
        """The duration, with 30 days per month and 365 per year."""
        return timedelta(seconds=self.count * _SECONDS[self.unit])

    @property
    def gear(self) -> Gear:
        """The slowest, and so the cheapest, gear that keeps the promise."""
        if self.duration < REAL_TIME_BELOW:
            return Gear.REAL_TIME
        return Gear.NEAR_REAL_TIME if self.duration < BATCH_FROM else Gear.BATCH

    @property
    def trigger(self) -> timedelta:
        """The micro-batch interval: half the freshness, so that a record which just missed a batch is still in time.

        >>> str(Freshness.parse("1 minute").trigger)
        '0:00:30'
        """
        return self.duration / 2

    def next_run(self, after: datetime, zone: tzinfo) -> datetime:
        """The first batch start after an instant, on the calendar of a time zone.

        >>> Freshness.parse("1 month").next_run(datetime(2026, 1, 31, 12, tzinfo=UTC), UTC).isoformat()
        '2026-02-01T00:00:00+00:00'
        >>> Freshness.parse("6 hours").next_run(datetime(2026, 1, 31, 12, tzinfo=UTC), UTC).isoformat()
        '2026-01-31T18:00:00+00:00'
        """
        if self.unit not in _CALENDAR:
            return after + self.duration
        if self.unit == "hour":
            # Hours are counted in absolute time, so a 23- or 25-hour day neither skips nor repeats one. Periods that
            # divide a day start at local midnight; the others count from one fixed Monday.
            divides_a_day = 24 % self.count == 0
            midnight = after.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
            first = midnight.astimezone(UTC) if divides_a_day else _MONDAY
            run = first + ((after - first) // self.duration + 1) * self.duration
            tomorrow = (midnight + timedelta(days=1)).astimezone(UTC)
            return (min(run, tomorrow) if divides_a_day else run).astimezone(zone)
        local = after.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        if self.unit in ("day", "week"):
            length = self.count * (7 if self.unit == "week" else 1)
            since = (local - _MONDAY.replace(tzinfo=None)).days
            return (local + timedelta(days=length - since % length)).replace(tzinfo=zone)
        months = self.count * (12 if self.unit == "year" else 1)
        index = local.year * 12 + local.month - 1
        index += months - index % months
        return datetime(index // 12, index % 12 + 1, 1, tzinfo=zone)

    def last_run(self, at: datetime, zone: tzinfo) -> datetime:
        """The latest batch start up to an instant, which is the start of the interval that contains it.

        >>> Freshness.parse("1 month").last_run(datetime(2028, 2, 29, 12, tzinfo=UTC), UTC).isoformat()
        '2028-02-01T00:00:00+00:00'
        """
        midnight = at.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        if self.unit not in _CALENDAR or self.unit == "hour":
            divides_a_day = self.unit == "hour" and 24 % self.count == 0
            first = midnight.astimezone(UTC) if divides_a_day else _MONDAY
            return (first + (at - first) // self.duration * self.duration).astimezone(zone)
        local = midnight.replace(tzinfo=None)
        if self.unit in ("day", "week"):
            length = self.count * (7 if self.unit == "week" else 1)
            since = (local - _MONDAY.replace(tzinfo=None)).days
            return (local - timedelta(days=since % length)).replace(tzinfo=zone)
        months = self.count * (12 if self.unit == "year" else 1)
        index = local.year * 12 + local.month - 1
        index -= index % months
        return datetime(index // 12, index % 12 + 1, 1, tzinfo=zone)

    def __str__(self) -> str:
        return f"{self.count} {self.unit}{'' if self.count == 1 else 's'}"
