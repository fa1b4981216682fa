"""Timetables: the gear of each hour of the week, in the local time of a zone. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from gearshift.errors import DefinitionError
from gearshift.freshness import Gear

OTHERWISE = "otherwise"
"""The entry for the hours that no other entry names."""

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = 24 * 60
_WEEK = 7 * _DAY
_MINUTE = timedelta(minutes=1)
_HOURS = re.compile(r"(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})")
_HINT = "write days and hours, such as 'mon-fri 09:00-17:30', 'sat,sun' or '22:00-06:00'"


@dataclass(frozen=True, slots=True)
class Hours:
    """A part of the week and its gear; minutes count from Monday, 00:00."""

    start: int
    end: int
    gear: Gear


@dataclass(frozen=True, slots=True)
class Timetable:
    """The gears of a week without a gap or an overlap.

    >>> timetable = Timetable.parse({"mon-fri 09:00-17:30": "real-time", "otherwise": "near-real-time"})
    >>> timetable.gear_at(datetime(2026, 1, 5, 9, tzinfo=UTC), UTC).value
    'real-time'
    >>> timetable.next_change(datetime(2026, 1, 5, 9, tzinfo=UTC), UTC).isoformat()
    '2026-01-05T17:30:00+00:00'
    """

    hours: tuple[Hours, ...]
    """In the order of the week; neighbours have different gears."""
    text: str

    @classmethod
    def parse(cls, gears: Mapping[str, str]) -> Timetable:
        """Read `{"mon-fri 09:00-17:30": "real-time", "otherwise": "near-real-time"}`."""
        owner: list[str | None] = [None] * _WEEK
        for words in gears:
            Gear.named(gears[words])
            if words == OTHERWISE:
                continue
            for start, end in _spans(words):
                for minute in (each % _WEEK for each in range(start, end)):
                    if owner[minute] not in (None, words):
                        raise DefinitionError(
                            f"{owner[minute]!r} and {words!r} both include {_moment(minute)}",
                            hint="name each hour of the week once",
                        )
                    owner[minute] = words
        if None in owner and OTHERWISE not in gears:
            raise DefinitionError(
                f"the timetable has no gear for {_moment(owner.index(None))}",
                hint="add an entry 'otherwise', such as 'otherwise': 'near-real-time'",
            )
        found = [Gear(gears[words if words is not None else OTHERWISE]) for words in owner]
        starts = [minute for minute in range(_WEEK) if minute == 0 or found[minute] is not found[minute - 1]]
        ends = [*starts[1:], _WEEK]
        hours = tuple(Hours(start, end, found[start]) for start, end in zip(starts, ends, strict=True))
        return cls(hours, ", ".join(f"{words} {gear}" for words, gear in gears.items()))

    @property
    def gears(self) -> frozenset[Gear]:
        """The gears that it uses."""
        return frozenset(each.gear for each in self.hours)

    def gear_at(self, moment: datetime, zone: tzinfo) -> Gear:
        """The gear at an instant."""
        minute = _minute_of_week(moment, zone)
        return next(each.gear for each in self.hours if each.start <= minute < each.end)

    def next_change(self, after: datetime, zone: tzinfo) -> datetime | None:
        """The first instant after another at which the gear changes; None if it never does."""
        if len(self.gears) == 1:
            return None
        now = self.gear_at(after, zone)
        monday = _monday(after, zone)
        for week in (0, 1, 2):
            for each in self.hours:
                day = monday + timedelta(weeks=week, days=each.start // _DAY)
                wall = (day + timedelta(minutes=each.start % _DAY)).replace(tzinfo=zone)
                while not _exists(
                    wall
                ):  # a clock change skips it: the gear changes right after the skipped hour
                    wall += _MINUTE
                instant = wall.astimezone(UTC)
                if instant > after and self.gear_at(instant, zone) is not now:
                    return instant.astimezone(zone)
        raise AssertionError("a timetable with two gears changes every week")

    def __str__(self) -> str:
        return self.text


def _minute_of_week(moment: datetime, zone: tzinfo) -> int:
    """The minute of the week on a local clock that stands still while an hour is repeated.

    A change inside the repeated hour so happens once, when the hour is first reached.
    """
    wall = moment.astimezone(zone)
    if wall.fold:
        while _is_repeated(wall.replace(fold=0) + _MINUTE):
            wall += _MINUTE
    return wall.weekday() * _DAY + wall.hour * 60 + wall.minute


def _is_repeated(wall: datetime) -> bool:
    return wall.utcoffset() != wall.replace(fold=1).utcoffset() and _exists(wall)


def _exists(wall: datetime) -> bool:
    return wall.astimezone(UTC).astimezone(wall.tzinfo).replace(tzinfo=None) == wall.replace(tzinfo=None)


def _monday(moment: datetime, zone: tzinfo) -> datetime:
    midnight = moment.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    return midnight - timedelta(days=midnight.weekday())


def _spans(words: str) -> list[tuple[int, int]]:
    """The minutes of the week that an entry names; a span over midnight belongs to the day on which it starts."""
    parts = words.lower().split()
    times = parts.pop() if parts and _HOURS.fullmatch(parts[-1]) else None
    if len(parts) > 1 or (not parts and times is None):
        raise DefinitionError(f"invalid hours {words!r}", hint=_HINT)
    days = _days(parts[0], words) if parts else list(range(7))
    start, end = _times(times, words) if times is not None else (0, _DAY)
    return [(day * _DAY + start, day * _DAY + end) for day in days]


def _days(text: str, words: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in _DAYS or (last or first) not in _DAYS:
            raise DefinitionError(f"invalid days {text!r} in {words!r}", hint=_HINT)
        begin = _DAYS.index(first)
        count = (_DAYS.index(last or first) - begin) % 7 + 1
        found += [(begin + each) % 7 for each in range(count)]
    return found


def _times(text: str, words: str) -> tuple[int, int]:
    match = _HOURS.fullmatch(text)
    assert match is not None
    hour, minute, end_hour, end_minute = (int(each) for each in match.groups())
    start, end = hour * 60 + minute, end_hour * 60 + end_minute
    if minute > 59 or end_minute > 59 or start >= _DAY or end > _DAY or start == end:
        raise DefinitionError(f"invalid hours {text!r} in {words!r}", hint=_HINT)
    return start, end if end > start else end + _DAY


def _moment(minute: int) -> str:
    return f"{_DAYS[minute // _DAY]} {minute % _DAY // 60:02}:{minute % 60:02}"
