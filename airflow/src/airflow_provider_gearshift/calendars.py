"""Gearshift's calendars, for an environment in which Gearshift is not installed. Pure.

A test compares them with Gearshift's own, so that a run in Airflow is an interval in Gearshift.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import count
from typing import Protocol

_REAL_TIME = {"second": timedelta(seconds=1), "minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
_DAYS = {"day": 1, "week": 7}
_MONTHS = {"month": 1, "year": 12}
_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)
_LEAP_YEARS_APART = 9 * 366  # days: between 29 February 2096 and 2104
_NAMES = {
    "month": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    "weekday": ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))


class Calendar(Protocol):
    """Cuts time into intervals without gaps or overlaps; all instants are in UTC."""

    def next_run(self, after: datetime, zone: tzinfo) -> datetime:
        """The first interval start after an instant."""
        ...

    def last_run(self, at: datetime, zone: tzinfo) -> datetime:
        """The latest interval start up to an instant."""
        ...


def parse(text: str) -> Calendar:
    """Parse a calendar such as `1 day`, `6 hours` or `30 6 * * mon-fri`.

    >>> from zoneinfo import ZoneInfo
    >>> after = datetime(2026, 3, 28, 23, tzinfo=UTC)
    >>> parse("1 day").next_run(after, ZoneInfo("Europe/Berlin")).isoformat()
    '2026-03-29T22:00:00+00:00'
    """
    match = re.fullmatch(r"(\d+) ([a-z]+?)s?", text)
    if match and match[2] in (*_REAL_TIME, *_DAYS, *_MONTHS):
        return Every(int(match[1]), match[2])
    return Cron.parse(text)


@dataclass(frozen=True, slots=True)
class Every:
    """A number of seconds, minutes, hours, days, weeks, months or years."""

    count: int
    unit: str

    def next_run(self, after: datetime, zone: tzinfo) -> datetime:
        """The first start after an instant."""
        last = self.last_run(after, zone)
        if self.unit in _REAL_TIME:
            then = last + self.count * _REAL_TIME[self.unit]
            if not self._divides_a_day:
                return then
            return min(then, _midnight(_local(after, zone).date() + _DAY, zone))
        start = _local(last, zone).date()
        if self.unit in _MONTHS:
            return _midnight(_month(start.year * 12 + start.month - 1 + self._months), zone)
        return _midnight(start + self._days, zone)

    def last_run(self, at: datetime, zone: tzinfo) -> datetime:
        """The latest start up to an instant."""
        today = _local(at, zone).date()
        if self.unit in _REAL_TIME:
            # Hours that divide a day start at local midnight; all others count from one fixed Monday.
            first = _midnight(today, zone) if self._divides_a_day else _MONDAY
            length = self.count * _REAL_TIME[self.unit]
            return first + (at - first) // length * length
        if self.unit in _MONTHS:
            index = today.year * 12 + today.month - 1
            return _midnight(_month(index - index % self._months), zone)
        return _midnight(today - (today - _MONDAY.date()) % self._days, zone)

    @property
    def _divides_a_day(self) -> bool:
        return self.unit == "hour" and 24 % self.count == 0

    @property
    def _days(self) -> timedelta:
        return timedelta(days=self.count * _DAYS[self.unit])

    @property
    def _months(self) -> int:
        return self.count * _MONTHS[self.unit]


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression. A time with a fixed hour runs once a day; a wildcard hour follows elapsed time."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Cron:
        """Parse five fields: minute, hour, day, month, weekday."""
        words = text.lower().split()
        if len(words) != len(_FIELDS):
            raise ValueError(
                f"this version of airflow-provider-gearshift does not know the calendar {text!r}"
            )
        minutes, hours, days, months, weekdays = (
            _numbers(word, *kind) for word, kind in zip(words, _FIELDS, strict=True)
        )
        return cls(" ".join(words), minutes, hours, days, months, frozenset(day % 7 for day in weekdays))

    def next_run(self, after: datetime, zone: tzinfo) -> datetime:
        """The first run after an instant."""
        # A run in the skipped last hour of the previous day may fall on this day.
        for day in self._days(_local(after, zone).date() - _DAY, _DAY):
            for instant in self._instants(day, zone):
                if instant > after:
                    return instant
        raise ValueError(f"cron expression {self.text!r} never matches")

    def last_run(self, at: datetime, zone: tzinfo) -> datetime:
        """The latest run up to an instant."""
        for day in self._days(_local(at, zone).date() + _DAY, -_DAY):
            for instant in reversed(self._instants(day, zone)):
                if instant <= at:
                    return instant
        raise ValueError(f"cron expression {self.text!r} never matches")

    def _days(self, first: date, step: timedelta) -> Iterator[date]:
        _, _, day_word, _, weekday_word = self.text.split()
        either = not day_word.startswith("*") and not weekday_word.startswith("*")
        last = first
        for number in count():
            day = first + number * step
            if abs((day - last).days) > _LEAP_YEARS_APART:
                return
            by_date, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
            if day.month in self.months and ((by_date or by_weekday) if either else (by_date and by_weekday)):
                last = day
                yield day

    def _instants(self, day: date, zone: tzinfo) -> list[datetime]:
        follows_elapsed_time = self.text.split()[1].startswith("*")
        found: set[datetime] = set()
        for hour in self.hours:
            for minute in self.minutes:
                wall = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
                if _exists(wall):
                    found.add(wall.astimezone(UTC))
                    if follows_elapsed_time:
                        found.add(wall.replace(fold=1).astimezone(UTC))
                elif not follows_elapsed_time:
                    while not _exists(wall):
                        wall += _MINUTE
                    found.add(wall.astimezone(UTC))
        return sorted(found)


def _numbers(word: str, name: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in word.split(","):
        match = re.fullmatch(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?", part)
        if match is None:
            raise ValueError(f"{part!r} is not a valid {name} in a cron expression")
        first, last, step = match[1], match[2], match[3]
        start = low if first == "*" else _number(first, name)
        stop = high if first == "*" or (step and last is None) else _number(last or first, name)
        found.update(range(start, stop + 1, int(step or 1)))
    return frozenset(found)


def _number(word: str, name: str) -> int:
    names = _NAMES.get(name, ())
    return names.index(word) + (name == "month") if word in names else int(word)


def _local(instant: datetime, zone: tzinfo) -> datetime:
    return instant.astimezone(UTC).astimezone(zone)


def _midnight(day: date, zone: tzinfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def _month(index: int) -> date:
    return date(index // 12, index % 12 + 1, 1)


def _exists(wall: datetime) -> bool:
    return wall.astimezone(UTC).astimezone(wall.tzinfo).replace(tzinfo=None) == wall.replace(tzinfo=None)
