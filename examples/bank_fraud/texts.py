"""The amounts and times of bank exports: decimal commas, trailing signs, and dates whose order the file must prove."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")
LARGEST = Decimal(10) ** 16
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_OTHER_MONTHS = {"mrz": 3, "mär": 3, "mai": 5, "mei": 5, "okt": 10, "dez": 12, "mrt": 3}
_POINT = re.compile(r"(\d{1,3}(?:,\d{2,3})+|\d*)(\.\d*)?(?:e([+-]?\d{1,2}))?", re.ASCII)
_COMMA = re.compile(r"(\d{1,3}(?:[.]\d{3})+|\d*)(,\d*)?", re.ASCII)
_NOISE = re.compile(r"[\s'’$£€₹¥]|^(?:EUR|USD|GBP|INR|CHF)|(?:EUR|USD|GBP|INR|CHF)$", re.IGNORECASE)
_MARKED = re.compile(
    r"(.+?)([dc])r\.?", re.IGNORECASE
)  # debit or credit, as banks in India and Australia write
_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})", re.ASCII)
_NUMBERS = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})", re.ASCII)
_NAMED = re.compile(r"(\d{1,2})[ .-]+([^\W\d]{3})[^\W\d]*[ .-]+(\d{4}|\d{2})")
_NAMED_US = re.compile(r"([^\W\d]{3})[^\W\d]*\.? +(\d{1,2}),? +(\d{4})")
_COMPACT = re.compile(r"(\d{4}|\d{2})(\d{2})(\d{2})(?!\d)", re.ASCII)
_CLOCK = re.compile(
    r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s*([AaPp])?\.?[Mm]?\.?\s*(Z|UTC|[+-]\d{2}:?\d{2})?"
)
_DIGITS = re.compile(r"\d{1,6}(\.0)?", re.ASCII)


def mark_of(cells: Iterable[str], delimiter: str) -> str:
    """The decimal mark of a file: what its amounts prove, or what its separator suggests.

    >>> mark_of(["1.234,56"], ";"), mark_of(["12,5"], ","), mark_of(["1,234"], ","), mark_of(["1.234"], ";")
    (',', ',', '.', ',')
    """
    for cell in cells:
        marks = re.findall(r"[.,](?=\d*)", cell)
        if len(set(marks)) == 2:
            return marks[-1]
        if len(marks) == 1 and len(re.split(r"[.,]", re.sub(r"[^\d.,]", "", cell))[1]) != 3:
            return marks[0]
    return "," if delimiter == ";" else "."


def amount_of(text: str, mark: str) -> Decimal:
    """An amount, rounded half up to the cent; raises ValueError with the reason if it is none.

    >>> amount_of("$1,234.50", "."), amount_of("1.234,5-", ","), amount_of("(12)", "."), amount_of("-\u20ac 3,10", ",")
    (Decimal('1234.50'), Decimal('-1234.50'), Decimal('-12.00'), Decimal('-3.10'))
    >>> amount_of("1,000.00 Dr", "."), amount_of("25.00CR", ".")
    (Decimal('-1000.00'), Decimal('25.00'))
    """
    digits, sign = _NOISE.sub("", text).replace("−", "-"), 1
    if marked := _MARKED.fullmatch(digits):  # a debit is negative
        digits, sign = marked[1], -1 if marked[2].lower() == "d" else 1
    if digits[:1] + digits[-1:] == "()":
        digits, sign = digits[1:-1], -1
    if digits.endswith("-"):
        digits, sign = digits[:-1], -sign
    if digits[:1] in ("+", "-"):
        digits, sign = _NOISE.sub("", digits[1:]), -sign if digits[0] == "-" else sign
    found = (_POINT if mark == "." else _COMMA).fullmatch(digits.lower())
    if not found or not re.search(r"\d", digits):
        raise ValueError(f"{text!r} is not an amount")
    whole = re.sub(r"[.,]", "", found[1]) or "0"
    number = Decimal(f"{whole}.{(found[2] or '.')[1:] or '0'}").scaleb(
        int(found[3] or 0) if mark == "." else 0
    )
    if number >= LARGEST:
        raise ValueError(f"{text} is out of range")
    return sign * number.quantize(CENT, ROUND_HALF_UP)


def proves_months_first(cells: Iterable[str]) -> bool | None:
    """Whether the dates of a file have the month first; None where they are all ambiguous.

    >>> [proves_months_first(cells) for cells in (["1/2/2020", "1/13/2020"], ["21-06-2020"], ["1/2/2020"], ["2020-01-02"])]
    [True, False, None, None]
    """
    for cell in cells:
        if found := _NUMBERS.match(cell):
            if int(found[3]) > 12:
                return True
            if int(found[1]) > 12 or found[2] == ".":
                return False
    return None


def is_ambiguous(text: str) -> bool:
    """Whether a date can be of two days."""
    found = _NUMBERS.match(text)
    return found is not None and found[2] != "." and found[1] != found[3]


def instant(text: str, clock: str, *, months_first: bool) -> datetime:
    """The instant of a date with a time, which may be in the same text; UTC unless it has an offset.

    >>> instant("21-06-2020 12:14", "", months_first=False).isoformat()
    '2020-06-21T12:14:00+00:00'
    >>> instant("2/8/16", "143207", months_first=False).isoformat()
    '2016-08-02T14:32:07+00:00'
    >>> instant("930101", "", months_first=False).date(), instant("29-Jun-17", "1:05 PM", months_first=False).hour
    (datetime.date(1993, 1, 1), 13)
    """
    for pattern in (_YEAR_FIRST, _NUMBERS, _NAMED, _NAMED_US, _COMPACT):
        if found := pattern.match(text):
            rest = text[found.end() :].lstrip("T, ")
            break
    else:
        raise ValueError(f"{text!r} is not a date")
    try:
        day = _day(found, months_first=months_first)
        at, offset = _time(rest or clock)
    except ValueError as error:
        raise ValueError(f"{f'{text} {clock}'.strip()!r} is not a time: {error}") from None
    return datetime.combine(day, at, offset).astimezone(UTC)


def _day(found: re.Match[str], *, months_first: bool) -> date:
    if found.re is _YEAR_FIRST:
        return date(int(found[1]), int(found[2]), int(found[3]))
    if found.re is _NUMBERS:
        one, two = int(found[1]), int(found[3])
        month, day = (one, two) if months_first and found[2] != "." else (two, one)
        return date(_year(found[4]), month, day)
    if found.re is _COMPACT:
        return date(_year(found[1]), int(found[2]), int(found[3]))
    name, day, year = (found[2], found[1], found[3]) if found.re is _NAMED else found.groups()
    name = name.lower()
    month = _MONTHS.index(name) + 1 if name in _MONTHS else _OTHER_MONTHS.get(name)
    if month is None:
        raise ValueError(f"unknown month {name!r}")
    return date(_year(year), month, int(day))


def _year(text: str) -> int:
    """A year; of two digits those from 70 are of the last century.

    >>> _year("16"), _year("93"), _year("2020")
    (2016, 1993, 2020)
    """
    return int(text) if len(text) == 4 else int(text) + (1900 if int(text) >= 70 else 2000)


def _time(text: str) -> tuple[time, timezone]:
    text = text.strip()
    if not text:
        return time(), UTC
    if _DIGITS.fullmatch(text):  # 143207, or 705 for seven minutes and five seconds past midnight
        digits = text.removesuffix(".0").zfill(6)
        return time(int(digits[:2]), int(digits[2:4]), int(digits[4:])), UTC
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError(f"the clock {text!r} is not known")
    hour = int(found[1])
    if found[5]:
        if not 1 <= hour <= 12:
            raise ValueError(f"no hour {hour} on a clock of twelve hours")
        hour = hour % 12 + (12 if found[5].lower() == "p" else 0)
    at = time(hour, int(found[2]), int(found[3] or 0), int(f"{found[4] or '0':0<6}"[:6]))
    offset = found[6]
    if not offset or offset in ("Z", "UTC"):
        return at, UTC
    minutes = int(offset[1:3]) * 60 + int(offset[-2:])
    return at, timezone(timedelta(minutes=minutes if offset[0] == "+" else -minutes))
