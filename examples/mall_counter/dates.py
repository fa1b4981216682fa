"""The dates of public counts: their many spellings, and whether 11/01 is a day of November or of January."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Literal

Order = Literal["day-first", "month-first"]

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(r"(\d{1,2})(?:[:.](\d{2}))?(?:[:.](\d{2}))?(?:\.\d+)?\s*([AaPp]\.?[Mm]\.?)?")
_NUMBERS = re.compile(r"(\d{1,2})[/.-](\d{1,2})[/.-](\d{4}|\d{2})")
_YEAR_FIRST = re.compile(r"(\d{4})[/.-](\d{1,2})[/.-](\d{1,2})")
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})")
_NAMED = re.compile(r"([A-Za-z]{3,9})\.?\s+(\d{1,2}),?\s+(\d{4})|(\d{1,2})[ -]([A-Za-z]{3,9})[ -](\d{4})")


@dataclass(frozen=True)
class Hints:
    """What else a row says about its date: columns for the month, the day of the month and the weekday."""

    month: str = ""
    day: str = ""
    weekday: str = ""


def split(written: str) -> tuple[str, str]:
    """The date and the time of a cell.

    >>> split("11/01/2019 05:00:00 PM"), split("2019-01-11T17:00"), split("November 01, 2019 05:00:00 PM")
    (('11/01/2019', '05:00:00 PM'), ('2019-01-11', '17:00'), ('November 01, 2019', '05:00:00 PM'))
    """
    written = " ".join(written.split())
    for pattern in (_YEAR_FIRST, _NUMBERS, _NAMED, _COMPACT):
        if found := pattern.match(written):
            return found[0], written[found.end() :].lstrip("T, ")
    raise ValueError(f"the date {written!r} cannot be read")


def clock_of(written: str) -> time:
    """The time of day; nothing is midnight.

    >>> clock_of("05:00:00 PM"), clock_of("12:30 am"), clock_of("17"), clock_of("")
    (datetime.time(17, 0), datetime.time(0, 30), datetime.time(17, 0), datetime.time(0, 0))
    """
    if not written.strip():
        return time(0)
    found = _CLOCK.fullmatch(written.strip())
    if found is None:
        raise ValueError(f"the time {written!r} cannot be read")
    hour, half = int(found[1]), (found[4] or "")[:1].lower()
    if half and not 1 <= hour <= 12:
        raise ValueError(f"the time {written!r} has no such hour")
    try:
        return time(hour % 12 + 12 * (half == "p") if half else hour, int(found[2] or 0), int(found[3] or 0))
    except ValueError:
        raise ValueError(f"the time {written!r} cannot be read") from None


def offset_of(written: str) -> tuple[str, datetime | None]:
    """The time without its offset from UTC, and a moment that carries the offset, if the cell has one."""
    found = re.search(r"(Z|[+-]\d{2}:?\d{2})$", written)
    if found is None:
        return written, None
    return written[: found.start()].rstrip(), datetime.fromisoformat(f"2000-01-01T00:00{found[0]}")


def order_of(rows: Iterable[tuple[str, Hints]]) -> Order | None:
    """The order that the rows prove, None if every date could be both; raises if they contradict each other.

    >>> order_of([("11/01/2019", Hints()), ("11/13/2019", Hints())]), order_of([("11/01/2019", Hints(day="1"))])
    ('month-first', 'month-first')
    """
    proven: Order | None = None
    for written, hints in rows:
        found = _NUMBERS.fullmatch(written)
        # 1.11.2019 is written where days come first; 11/11/2019 is the same in both orders.
        if found is None or "." in written or found[1] == found[2]:
            continue
        proof = _proof(int(found[1]), int(found[2]), _year(found[3]), hints)
        if proof and proven and proof != proven:
            raise ValueError(f"the date {written!r} is {proof}, but earlier dates of the file are {proven}")
        proven = proof or proven
    return proven


def is_ambiguous(written: str) -> bool:
    """Whether the order of day and month decides which day this is."""
    found = _NUMBERS.fullmatch(written)
    return found is not None and "." not in written and found[1] != found[2]


def date_of(written: str, order: Order | None) -> date:
    """The day; `order` is for dates such as 11/01/2019."""
    try:
        if found := _YEAR_FIRST.fullmatch(written) or _COMPACT.fullmatch(written):
            return date(int(found[1]), int(found[2]), int(found[3]))
        if found := _NAMED.fullmatch(written):
            name, day, year = (found[1], found[2], found[3]) if found[1] else (found[5], found[4], found[6])
            return date(int(year), MONTHS.index(name[:3].lower()) + 1, int(day))
        if found := _NUMBERS.fullmatch(written):
            first, second = int(found[1]), int(found[2])
            day, month = (first, second) if "." in written or order != "month-first" else (second, first)
            return date(_year(found[3]), month, day)
    except ValueError:
        pass
    raise ValueError(f"the date {written!r} cannot be read")


def _proof(first: int, second: int, year: int, hints: Hints) -> Order | None:
    possible: list[Order] = []
    for order, day, month in (("day-first", first, second), ("month-first", second, first)):
        if 1 <= month <= 12 and 1 <= day <= 31 and _agrees(year, month, day, hints):
            possible.append("day-first" if order == "day-first" else "month-first")
    return possible[0] if len(possible) == 1 else None


def _agrees(year: int, month: int, day: int, hints: Hints) -> bool:
    try:
        found = date(year, month, day)
    except ValueError:
        return False
    named = hints.month.strip()[:3].lower()
    weekday = hints.weekday.strip()[:3].lower()
    return (
        (named not in MONTHS or MONTHS[month - 1] == named)
        and (not named.isdigit() or int(named) == month)
        and (not hints.day.strip().isdigit() or int(hints.day) == day)
        and (weekday not in WEEKDAYS or WEEKDAYS[found.weekday()] == weekday)
    )


def _year(written: str) -> int:
    return (
        int(written)
        if len(written) == 4
        else 2000 + int(written)
        if int(written) < 70
        else 1900 + int(written)
    )
