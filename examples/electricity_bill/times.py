"""From the texts of times in meter files to instants."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = (
    r"(?:[T, ]+(?P<hour>\d{1,2}):?(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?:\s*(?P<half>[AaPp])\.?[Mm]\.?)?)?"
)
_OFFSET = r"\s*(?P<zulu>Z|UTC|GMT)?(?P<offset>[+-]\d{2}:?\d{2})?"
_YEAR_FIRST = re.compile(
    r"(?P<year>\d{4})(?P<mark>[-/.]?)(?P<one>\d{1,2})(?P=mark)(?P<two>\d{1,2})" + _CLOCK + _OFFSET, re.ASCII
)
_YEAR_LAST = re.compile(
    r"(?P<one>\d{1,2})(?P<mark>[-/.])(?P<two>\d{1,2})(?P=mark)(?P<year>\d{4}|\d{2})" + _CLOCK + _OFFSET,
    re.ASCII,
)
_NAMED = re.compile(
    r"(?P<two>\d{1,2})(?P<mark>[- ])(?P<one>[A-Za-z]{3})[a-z]*(?P=mark)(?P<year>\d{4}|\d{2})"
    + _CLOCK
    + _OFFSET,
    re.ASCII,
)
_PATTERNS = (_YEAR_FIRST, _YEAR_LAST, _NAMED)


def matched(text: str) -> re.Match[str] | None:
    """The parts of a date or time, or None if the text is neither."""
    return next((found for pattern in _PATTERNS if (found := pattern.fullmatch(text))), None)


def needs_order(text: str) -> bool:
    """Whether the text is read by the order that the file proves; 01.02.2013 is written where days come first.

    >>> needs_order("13/02/2013 00:30"), needs_order("01.02.2013"), needs_order("2013-02-01")
    (True, False, False)
    """
    found = _YEAR_LAST.fullmatch(text)
    return found is not None and found["mark"] != "."


def is_open(text: str) -> bool:
    """Whether the text alone does not say which number is the day.

    >>> is_open("01/02/2013 00:30"), is_open("01.02.2013"), is_open("13/02/2013"), is_open("2013-02-01")
    (True, False, False, False)
    """
    found = _YEAR_LAST.fullmatch(text)
    return (
        found is not None
        and needs_order(text)
        and found["one"] != found["two"]
        and max(int(found["one"]), int(found["two"])) <= 12
    )


def months_come_first(texts: Iterable[str]) -> bool | None:
    """The order that the times of a file prove; None if they prove none.

    A number above 12 is a day. Otherwise they are the days of the shorter span: readings come day after day.

    >>> months_come_first(["01/02/2013", "01/13/2013"]), months_come_first(["01/02/2013", "02/02/2013"])
    (True, False)
    >>> months_come_first(["01/02/2013 00:00", "01/02/2013 00:30"])
    """
    dates: set[tuple[int, int, int]] = set()
    for text in texts:
        found = _YEAR_LAST.fullmatch(text)
        if found is None or not needs_order(text):
            continue
        one, two = int(found["one"]), int(found["two"])
        if one > 12 or two > 12:
            return one <= 12
        if one and two:
            dates.add((_year(found["year"]), one, two))
    if len(dates) < 2:
        return None
    spans = [
        max(made) - min(made)
        for made in (
            [date(year, one, two) for year, one, two in dates],
            [date(year, two, one) for year, one, two in dates],
        )
    ]
    return None if spans[0] == spans[1] else spans[0] < spans[1]


@dataclass
class Clock:
    """Reads the times of one file; raises ValueError with what is wrong."""

    months_first: bool
    twice: set[tuple[str, datetime]] = field(default_factory=set)
    """The local times that occur twice and of which a meter has sent the first."""

    def instant(self, text: str, meter: str, zone: str | None) -> datetime | None:
        """The instant; a time without an offset is in `zone`, or UTC. None if the zone's clock skips it."""
        found = matched(text)
        if found is None:
            raise ValueError(f"{text!r} is not a time")
        wall = self._wall(found)
        parts = found.groupdict()
        if offset := parts["offset"]:
            minutes = int(offset[1:3]) * 60 + int(offset[-2:])
            return wall.replace(
                tzinfo=timezone(timedelta(minutes=minutes if offset[0] == "+" else -minutes))
            ).astimezone(UTC)
        if parts["zulu"] or zone is None:
            return wall.replace(tzinfo=UTC)
        return self._local(wall, meter, zone)

    def midnight(self, text: str) -> datetime:
        """The begin of the day that the text names, without a zone."""
        found = matched(text)
        if found is None:
            raise ValueError(f"{text!r} is not a date")
        return self._wall(found).replace(hour=0, minute=0, second=0, microsecond=0)

    def _wall(self, found: re.Match[str]) -> datetime:
        parts = found.groupdict()
        month, day = parts["one"], parts["two"]
        if found.re is _YEAR_LAST and (parts["mark"] == "." or not self.months_first):
            month, day = day, month
        if found.re is _NAMED:
            month = MONTHS.index(month.lower()) + 1 if month.lower() in MONTHS else 0
        hour, minute = int(parts["hour"] or 0), int(parts["minute"] or 0)
        if half := parts["half"]:
            if not 1 <= hour <= 12:
                raise ValueError(f"{found[0]!r} is not a time: it has no such hour")
            hour = hour % 12 + 12 * (half in "pP")
        ends_day = hour == 24 and minute == 0
        try:
            wall = datetime(  # noqa: DTZ001  (its zone is added by the caller)
                _year(parts["year"]),
                int(month),
                int(day),
                0 if ends_day else hour,
                minute,
                int(parts["second"] or 0),
                int(f"{parts['fraction'] or '0':0<6}"[:6]),
            )
            return wall + timedelta(days=ends_day)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{found[0]!r} is not a time: {error}") from None

    def _local(self, wall: datetime, meter: str, zone: str) -> datetime | None:
        one, two = (wall.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1))
        if one > two:  # clocks were put forward over it
            return None
        if one == two:
            return one
        if (meter, wall) in self.twice:
            return two
        self.twice.add((meter, wall))
        return one


def _year(text: str) -> int:
    return int(text) if len(text) == 4 else 2000 + int(text)
