"""The times of tick files: since midnight, since 1970, and dates with times in common formats."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo

NEW_YORK = ZoneInfo("America/New_York")
EASTERN_STANDARD = timezone(timedelta(hours=-5))  # HistData's times never have summer time
DAY_MILLIS = 86_400_000

_CLOCK = r"[T ]+(?P<hour>\d{1,2}):?(?P<minute>\d{2})(?::?(?P<second>\d{2})(?:[.,:]?(?P<fraction>\d{1,9}))?)?"
_OFFSET = r"\s*(?P<zulu>Z|UTC|GMT)?\s*(?P<offset>[+-]\d{2}:?\d{2})?"
_YEAR_FIRST = re.compile(
    r"(?P<year>(?:19|20)\d{2})([-./]?)(?P<month>\d{1,2})\2(?P<day>\d{1,2})" + _CLOCK + _OFFSET, re.ASCII
)
_YEAR_LAST = re.compile(
    r"(?P<one>\d{1,2})([-./])(?P<two>\d{1,2})\2(?P<year>(?:19|20)\d{2})" + _CLOCK + _OFFSET, re.ASCII
)
_OF_DAY = re.compile(r"\d{1,2}:\d{2}:\d{2}(?:[.,]\d{1,9})?", re.ASCII)
_COMPACT = re.compile(r"((?:19|20)\d{6})(\d{6}(?:\d{3})?)", re.ASCII)
_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)
_DATE_AND_MILLIS = re.compile(r"(.+) (\d+(?:\.\d+)?) ms", re.ASCII)
_HISTDATA = re.compile(r"\d{8} \d{9}", re.ASCII)
_CURRENCY = (
    "usd|eur|gbp|jpy|chf|aud|nzd|cad|sek|nok|dkk|pln|czk|huf|try|zar|mxn|sgd|hkd|cnh|xau|xag|btc|eth|ltc|xrp"
)
_AROUND_THE_CLOCK = re.compile(rf"forex|crypto|cfd|(?<![a-z])(?:{_CURRENCY}){{2}}t?(?![a-z])", re.IGNORECASE)
_SINCE_1970 = {10: 1, 13: 1_000, 16: 1_000_000, 19: 1_000_000_000}


def is_time(text: str) -> bool:
    """Whether a cell can be a time.

    >>> [is_time(text) for text in ("34200000", "20120201 000003660", "2024-05-03T09:30:00Z", "AAPL", "Time")]
    [True, True, True, False, False]
    """
    return any(known.fullmatch(text) for known in (_NUMBER, _OF_DAY, _YEAR_FIRST, _YEAR_LAST))


def is_since_1970(text: str) -> bool:
    """Whether a cell can be nothing but milliseconds or microseconds since 1970."""
    return text.isdecimal() and len(text) in (13, 16)


def is_since_midnight(text: str) -> bool:
    """Whether a time has no date: milliseconds since midnight, or a time of day."""
    return is_millis(text) or _OF_DAY.fullmatch(text) is not None


def is_millis(text: str) -> bool:
    """Whether a number can be milliseconds since midnight."""
    return bool(_NUMBER.fullmatch(text)) and Decimal(text) < DAY_MILLIS + 1_000


def is_around_the_clock(path: str) -> bool:
    """Whether a file has currencies, whose day is UTC's.

    >>> [is_around_the_clock(path) for path in ("forex/x.csv", "20140501_eurusd_quote_tick.csv", "20131007_aapl.csv")]
    [True, True, False]
    """
    return _AROUND_THE_CLOCK.search(path) is not None


def default_zone(text: str, path: str) -> tzinfo:
    """The zone of a file's times, by their format and the folders it is in.

    Times since midnight are New York's, except those of currencies; HistData's format is Eastern Standard Time
    in summer too; every other time without an offset is UTC.
    """
    if is_since_midnight(text) or _DATE_AND_MILLIS.fullmatch(text):
        return UTC if is_around_the_clock(path) else NEW_YORK
    return EASTERN_STANDARD if _HISTDATA.fullmatch(text) else UTC


def parse(text: str, day: date | None, zone: tzinfo) -> datetime:
    """The instant of a time; raises ValueError with the reason if it is none.

    >>> parse("34200000", date(2013, 10, 7), NEW_YORK).isoformat()
    '2013-10-07T13:30:00+00:00'
    >>> parse("20120201 000003660", None, EASTERN_STANDARD).isoformat()
    '2012-02-01T05:00:03.660000+00:00'
    >>> parse("01.07.2024 00:00:00.123 GMT+0200", None, UTC).isoformat()
    '2024-06-30T22:00:00.123000+00:00'
    >>> parse("2024-01-02 34200000 ms", None, NEW_YORK).isoformat()
    '2024-01-02T14:30:00+00:00'
    """
    if parts := _DATE_AND_MILLIS.fullmatch(text):
        return _of_number(parts[2], parse(f"{parts[1]} 00:00", None, UTC).date(), zone)
    if compact := _COMPACT.fullmatch(text):
        text = f"{compact[1]} {compact[2]}"
    if _OF_DAY.fullmatch(text) and day is not None:
        text = f"{day} {text}"
    if _NUMBER.fullmatch(text):
        return _of_number(text, day, zone)
    found = _YEAR_FIRST.fullmatch(text) or _YEAR_LAST.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a time")
    parts = found.groupdict()
    month, of_month = (parts["month"], parts["day"]) if "month" in parts else _month_and_day(found)
    try:
        moment = datetime(  # noqa: DTZ001  (its zone may be in the text, or is the file's)
            int(parts["year"]),
            int(month),
            int(of_month),
            int(parts["hour"]),
            int(parts["minute"]),
            int(parts["second"] or 0),
            int(f"{parts['fraction'] or '0':0<6}"[:6]),
        )
    except ValueError as error:
        raise ValueError(f"{text!r} is not a time: {error}") from None
    if parts["offset"]:
        sign = -1 if parts["offset"][0] == "-" else 1
        digits = parts["offset"][1:].replace(":", "")
        zone = timezone(sign * timedelta(hours=int(digits[:2]), minutes=int(digits[2:])))
    elif parts["zulu"]:
        zone = UTC
    return moment.replace(tzinfo=zone).astimezone(UTC)


def _month_and_day(found: re.Match[str]) -> tuple[str, str]:
    """The month is first where slashes separate, as in the United States; otherwise the day is."""
    one, two = found["one"], found["two"]
    if found[2] == "/" and int(one) <= 12:
        return one, two
    return two, one


def _of_number(text: str, day: date | None, zone: tzinfo) -> datetime:
    if is_since_midnight(text):
        if day is None:
            raise ValueError("milliseconds since midnight without a date")
        # The wall clock counts: nine thirty is 34,200,000 also on days whose clocks change in the night.
        wall = datetime.combine(day, time()) + timedelta(microseconds=int(Decimal(text) * 1_000))
        return wall.replace(tzinfo=zone).astimezone(UTC)
    factor = _SINCE_1970.get(len(text.split(".")[0]))
    if factor is None:
        raise ValueError(f"{text} is neither milliseconds since midnight nor a time since 1970")
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(Decimal(text) * 1_000_000 / factor))
