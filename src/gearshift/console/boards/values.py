"""Values of rows as a board shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Decimal
from math import isfinite
from typing import Any

from gearshift.boards import parts_of
from gearshift.tables import as_json

Row = Mapping[str, Any]

_LONGEST = 500


def number(value: Any) -> float | int | None:
    """A value as a number; None if it is none.

    >>> from decimal import Decimal
    >>> number(Decimal("1.5")), number(True), number(float("nan")), number("7")
    (1.5, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if isinstance(value, int):
        return value
    found = float(value)
    return found if isfinite(found) else None


def moment(value: Any, zone: tzinfo) -> datetime | None:
    """A time or a date as an instant; None if it is none. Without an offset it is in this zone."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=zone)).astimezone(UTC)
    if isinstance(value, date):
        return datetime.combine(value, time(), zone).astimezone(UTC)
    return None


def cell(value: Any) -> Any:
    """A value as JSON."""
    return as_json(asdict(value) if is_dataclass(value) and not isinstance(value, type) else value)


def line(text: str, zone: tzinfo) -> Callable[[Row], str]:
    """Fills a feed's line with the fields of a row.

    >>> from datetime import UTC
    >>> line("{meter}: {load} kW", UTC)({"meter": "m1", "load": 2.5})
    'm1: 2.5 kW'
    """
    parts = parts_of(text)

    def fill(row: Row) -> str:
        filled = (words + ("" if name is None else _words(row.get(name), zone)) for words, name in parts)
        return "".join(filled)[:_LONGEST]

    return fill


def _words(value: Any, zone: tzinfo) -> str:
    """A value within a sentence.

    >>> from datetime import UTC
    >>> _words(1234567.0, UTC), _words(2.3456, UTC), _words(None, UTC)
    ('1234567', '2.346', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, float) and isfinite(value):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, datetime):
        local = value.astimezone(zone) if value.tzinfo else value
        return f"{local:%Y-%m-%d %H:%M:%S}"
    found = cell(value)
    return found if isinstance(found, str) else str(found)


def matches(row: Row, where: Mapping[str, Any]) -> bool:
    """Whether a row has all these values."""
    return all(name in row and row[name] == value for name, value in where.items())


def only_newest(rows: Iterable[Row], name: str | None) -> list[Row]:
    """The rows with the highest value of a field; all without one."""
    found = list(rows)
    if name is None:
        return found
    known = [row[name] for row in found if row.get(name) is not None]
    try:
        highest = max(known, default=None)
    except TypeError:  # values of different types
        return []
    return [row for row in found if row.get(name) == highest] if known else []


def highest_first(rows: Iterable[Row], name: str) -> list[Row]:
    """The rows by a field, without those where it is null."""
    known = [row for row in rows if row.get(name) is not None]
    try:
        return sorted(known, key=lambda row: row[name], reverse=True)
    except TypeError:
        return known
