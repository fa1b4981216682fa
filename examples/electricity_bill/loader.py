"""Loads half-hourly meter files, such as the public ones of Low Carbon London: plain, compressed, or a folder of them.

`LCLid,stdorToU,DateTime,KWH/hh (per half hour) ` is their header; other names of the same columns are known, English and
German, and so are files without a header: meter, (tariff,) time, kWh. Without a column for the meter the file's name is
its name.

- A line may hold a whole day: 48 columns named by time (00:00 … 23:30, or 00:30 … 24:00) or by number (hh_0 … hh_47,
  HH1 … HH50), which count the half hours that really pass, or 96 of quarter hours.
- Readings of a quarter of an hour (or of 1, 5 or 10 minutes) are added up to half hours, of which none may lack; one
  that does makes a null. Files of hours are refused: a bill needs half hours.
- Null, NA, NaN, - and an empty cell are null readings, which the pipeline sets aside, as it does readings off the grid.
- Times are ISO (2012-11-20 00:00:00.0000000, with an offset or without), with names of months, or numbers whose order
  the whole file must prove: by a day above 12, or by days that follow each other; or else `dates` says it.
- A time without an offset is UTC, as in the London files. With `zone`, or if the file has a column `zone` or a German
  header, it is local time there: in the hour that comes twice, a meter's second reading for one time is that of the
  second hour, and a time that the clock skips must have no energy. 24:00 is midnight at the end of a day.
- Customers are in Europe/London (Europe/Berlin with a German header), unless the file or `zone` says otherwise. Tariffs
  are those of the London files.
- More than 7 decimals are rounded half up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from itertools import chain, islice
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from columns import Layout, layout_of
from grid import half_hours
from reading import DECIMALS, TARIFFS, MeterReading
from sheets import Row, Sheet, sheets
from times import Clock, is_open, months_come_first, needs_order

from gearshift.errors import WrongFileError

LONDON, BERLIN = "Europe/London", "Europe/Berlin"
Dates = Literal["day-first", "month-first"]
_PREAMBLE = 20  # lines of notes that may come before the header
_LARGEST = Decimal(10) ** (14 - DECIMALS)
_NULLS = frozenset({"", "null", "na", "nan", "n/a", "none", "-"})
_UNIT = Decimal(1).scaleb(-DECIMALS)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


def load(path: Path, *, zone: str | None = None, dates: str | None = None) -> list[MeterReading]:
    """All readings in the order of their time.

    `zone` is the customers' zone, and that of times without an offset; `dates` is "day-first" or "month-first", for
    files that do not prove it.
    """
    if dates not in (None, "day-first", "month-first"):
        raise WrongFileError(f"unknown order {dates!r}", hint="use day-first or month-first", file=str(path))
    if zone is not None and not _is_zone(zone):
        raise WrongFileError(
            f"unknown time zone {zone!r}", hint=f"use a name such as {LONDON}", file=str(path)
        )
    found = [reading for sheet in sheets(path) for reading in _of_sheet(sheet, zone, dates)]
    if not found:
        raise WrongFileError(
            "it has no readings", hint="name a file with at least one reading", file=str(path)
        )
    # Files are often ordered by meter: readings far apart in time would arrive together, and count as late.
    return sorted(found, key=lambda reading: (reading.read_at, reading.meter_id))


def _of_sheet(sheet: Sheet, zone: str | None, dates: str | None) -> list[MeterReading]:
    first = list(islice(sheet.rows, _PREAMBLE))
    if not first:
        return []
    layout, data, header = _start(first)
    # Files that were joined repeat their header.
    rows: Iterator[Row] = (row for row in chain(data, sheet.rows) if row.cells != header)
    months_first = dates == "month-first"
    if dates is None and any(needs_order(layout.time(row)) for row in data):
        kept = list(rows)
        rows, months_first = iter(kept), _months_first(layout, kept)
    local = zone or (BERLIN if layout.is_german and not layout.is_utc else None)
    lines: dict[str, Row] = {}
    found: list[MeterReading] = []
    reader = _Reader(layout, Clock(months_first), Path(sheet.name).stem, local)
    for row in rows:
        for reading in reader.readings(row):
            found.append(reading)
            lines.setdefault(reading.meter_id, row)
    return half_hours(found, lines)


def _months_first(layout: Layout, rows: list[Row]) -> bool:
    proven = months_come_first(layout.time(row) for row in rows)
    opened = next((row for row in rows if is_open(layout.time(row))), None)
    if proven is None and opened is not None:
        raise opened.error(
            f"{layout.time(opened)!r} may be day-first or month-first, and no line of the file proves it",
            'set METER_DATES to "day-first" or "month-first"',
        )
    return bool(proven)


def _start(first: list[Row]) -> tuple[Layout, list[Row], list[str] | None]:
    """The layout, the rows after the header, and the header; notes before the header are skipped."""
    problem: WrongFileError | None = None
    for number, row in enumerate(first):
        try:
            layout = layout_of(row, is_first=number == 0)
        except WrongFileError as error:
            problem = problem or error
        else:
            return layout, first[number + layout.has_header :], row.cells if layout.has_header else None
    assert problem is not None
    raise problem


@dataclass(frozen=True)
class _Reader:
    """Makes readings of the rows of one file."""

    layout: Layout
    clock: Clock
    name: str
    zone: str | None

    def readings(self, row: Row) -> Iterator[MeterReading]:
        layout = self.layout
        if len(row.cells) < layout.width:
            raise row.error(
                f"the line has {len(row.cells)} columns, at least {layout.width} are needed",
                "complete or remove it",
            )
        zone = layout.cell(row, "zone") or self.zone
        meter = layout.cell(row, "meter") if "meter" in layout.roles else self.name
        if not meter:
            raise row.error("the line has no meter", "complete or remove it")
        tariff = layout.cell(row, "tariff") or "Std"
        if tariff not in TARIFFS:
            raise row.error(
                f"unknown tariff {tariff!r}", f"use one of {', '.join(TARIFFS)}, or add it to reading.py"
            )
        if zone is not None and not _is_zone(zone):
            raise row.error(f"unknown time zone {zone!r}", f"use a name such as {LONDON}")
        read_in = None if layout.is_utc else zone
        for at, kwh in self._day(row, meter, read_in) if layout.step else [self._one(row, meter, read_in)]:
            if at is not None:
                yield MeterReading(meter, tariff, zone or LONDON, at, kwh)
            elif kwh:
                raise row.error(
                    f"{layout.time(row)} has energy at a time that did not exist in {zone or 'UTC'}, where clocks were put "
                    "forward",
                    "check the zone (METER_TIMEZONE), or correct the line",
                )

    def _one(self, row: Row, meter: str, zone: str | None) -> tuple[datetime | None, Decimal | None]:
        return self._at(row, self.layout.time(row), meter, zone), _energy(row, self.layout.cell(row, "kwh"))

    def _day(
        self, row: Row, meter: str, zone: str | None
    ) -> Iterator[tuple[datetime | None, Decimal | None]]:
        """The readings of a line that holds a day."""
        step = timedelta(minutes=self.layout.step or 0)
        try:
            day = self.clock.midnight(self.layout.time(row))
        except ValueError as error:
            raise row.error(str(error), "use 2012-11-20 or 20/11/2012") from None
        begin, end = (
            midnight.replace(tzinfo=ZoneInfo(zone or "UTC")).astimezone(UTC)
            for midnight in (day, day + timedelta(days=1))
        )
        for number, column in enumerate(self.layout.roles["kwh"]):
            kwh = _energy(row, row.cells[column] if column < len(row.cells) else "")
            if self.layout.by_clock:
                wall = day + number * step
                yield self._at(row, f"{wall:%Y-%m-%d %H:%M}", meter, zone), kwh
            else:
                at = begin + number * step
                yield (at if at < end else None), kwh

    def _at(self, row: Row, text: str, meter: str, zone: str | None) -> datetime | None:
        try:
            return self.clock.instant(text, meter, zone)
        except ValueError as error:
            raise row.error(str(error), "use 2012-11-20 00:30:00 or 20/11/2012 00:30") from None


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _energy(row: Row, text: str) -> Decimal | None:
    if text.lower() in _NULLS:
        return None
    # The last of both is the decimal mark, the other one separates thousands.
    plain = text.replace(".", "") if 0 <= text.rfind(".") < text.rfind(",") else text
    plain = plain.replace(",", "" if 0 <= plain.rfind(",") < plain.rfind(".") else ".")
    if not _NUMBER.fullmatch(plain):
        raise row.error(f"{text!r} is not a number of kWh", "correct or remove the line")
    if abs(number := Decimal(plain)) >= _LARGEST:
        raise row.error(f"{text} kWh is out of range", f"use numbers below {_LARGEST:,}")
    return number.quantize(_UNIT, ROUND_HALF_UP)
