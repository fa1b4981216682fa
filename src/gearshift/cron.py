"""Cron expressions: the wall-clock minutes at which a batch runs. Pure.

Clock changes are handled as in Debian's cron. A time with a fixed hour runs once a day: in a repeated hour the first
time, and for a skipped hour at the first minute after the gap. A time with a wildcard hour (`*` or `*/2`) follows
elapsed time: it runs twice in a repeated hour and not at all in a skipped one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import count

from gearshift.errors import DefinitionError

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
_WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)
_LEAP_YEARS_APART = 9 * 366  # days: between 29 February 2096 and 2104


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression: minute, hour, day of the month, month, day of the week.

    >>> Cron.parse("30 6 * * mon-fri").next_run(datetime(2026, 11, 13, 12, tzinfo=UTC), UTC).isoformat()
    '2026-11-16T06:30:00+00:00'
    """

    text: str
    minutes: frozenset[int] = field(repr=False)
    hours: frozenset[int] = field(repr=False)
    days: frozenset[int] = field(repr=False)
    months: frozenset[int] = field(repr=False)
    weekdays: frozenset[int] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Cron:
        """Parse `"0 6 * * 1-5"`, with lists, ranges, steps and names of months and days, or `"@monthly"`."""
        words = _WORDS.get(text.strip().lower(), text).lower().split()
        if len(words) != len(_FIELDS):
            raise DefinitionError(
                f"invalid cron expression {text!r}",
                hint="use minute, hour, day, month and weekday, such as '0 6 * * mon-fri'",
            )
        minutes, hours, days, months, weekdays = (
            _parse(word, *kind, text) for word, kind in zip(words, _FIELDS, strict=True)
        )
        cron = cls(" ".join(words), minutes, hours, days, months, frozenset(day % 7 for day in weekdays))
        if next(cron._days(date(2000, 1, 1), _DAY), None) is None:
            raise DefinitionError(
                f"cron expression {text!r} never matches", hint="use a day that the month has"
            )
        return cron

    def next_run(self, after: datetime, zone: tzinfo) -> datetime:
        """The first run after an instant."""
        # A run in the skipped last hour of the previous day may fall on this day.
        for day in self._days(after.astimezone(zone).date() - _DAY, _DAY):
            for instant in _instants(self, day, zone):
                if instant > after:
                    return instant.astimezone(zone)
        raise AssertionError("parse rejects expressions that never match")

    def last_run(self, at: datetime, zone: tzinfo) -> datetime:
        """The latest run up to an instant.

        >>> Cron.parse("0 0 29 2 *").last_run(datetime(2027, 3, 1, tzinfo=UTC), UTC).isoformat()
        '2024-02-29T00:00:00+00:00'
        """
        for day in self._days(at.astimezone(zone).date() + _DAY, -_DAY):
            for instant in reversed(_instants(self, day, zone)):
                if instant <= at:
                    return instant.astimezone(zone)
        raise AssertionError("parse rejects expressions that never match")

    def _days(self, first: date, step: timedelta) -> Iterator[date]:
        """The matching days, from the first in steps of one day."""
        days, months = self.days, self.months
        # As in every cron, a day of the month and a weekday that are both restricted match either.
        _, _, day_word, _, weekday_word = self.text.split()
        either = not day_word.startswith("*") and not weekday_word.startswith("*")
        last = None
        for number in count():
            day = first + number * step
            if last is not None and abs((day - last).days) > _LEAP_YEARS_APART:
                return
            last = last or day
            by_date, by_weekday = day.day in days, day.isoweekday() % 7 in self.weekdays
            if day.month in months and ((by_date or by_weekday) if either else (by_date and by_weekday)):
                last = day
                yield day

    def __str__(self) -> str:
        return self.text


@lru_cache(64)
def _instants(cron: Cron, day: date, zone: tzinfo) -> tuple[datetime, ...]:
    """The instants of the runs on one local day."""
    follows_elapsed_time = cron.text.split()[1].startswith("*")
    found: set[datetime] = set()
    for hour in cron.hours:
        for minute in cron.minutes:
            wall = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
            if _exists(wall):
                found.add(wall.astimezone(UTC))
                if follows_elapsed_time:
                    found.add(wall.replace(fold=1).astimezone(UTC))
            elif not follows_elapsed_time:
                found.add(_after_the_gap(wall))
    return tuple(sorted(found))


def _exists(wall: datetime) -> bool:
    """Whether a local time exists, that is, no clock change skips it."""
    return wall.astimezone(UTC).astimezone(wall.tzinfo).replace(tzinfo=None) == wall.replace(tzinfo=None)


def _after_the_gap(wall: datetime) -> datetime:
    while not _exists(wall):
        wall += _MINUTE  # adds to the local time, as arithmetic within one zone does
    return wall.astimezone(UTC)


def _parse(word: str, name: str, low: int, high: int, text: str) -> frozenset[int]:
    found: set[int] = set()
    for part in word.split(","):
        match = re.fullmatch(r"(\*|\w+)(?:-(\w+))?(?:/(\d+))?", part)
        first, last, step = (match[1], match[2], match[3]) if match else ("", None, None)
        start = low if first == "*" else _number(first, name)
        stop = high if first == "*" or (step and last is None) else _number(last or first, name)
        if start is None or stop is None or not low <= start <= stop <= high or step == "0":
            raise DefinitionError(
                f"invalid cron expression {text!r}: {part!r} is not a valid {name}",
                hint=f"use {low} to {high}, *, a range, a list or a step such as */{max(2, high // 4)}",
            )
        found.update(range(start, stop + 1, int(step or 1)))
    return frozenset(found)


def _number(word: str, name: str) -> int | None:
    if name == "month" and word in _MONTHS:
        return _MONTHS.index(word) + 1
    if name == "weekday" and word in _DAYS:
        return _DAYS.index(word)
    return int(word) if re.fullmatch(r"\d{1,2}", word) else None
