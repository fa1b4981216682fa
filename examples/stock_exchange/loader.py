"""Loads public tick files: trades and quotes, with or without a header, plain or compressed, or a folder of them.

| format | a line |
|---|---|
| LEAN trades | `34200000,1814500,100,Q,@,0`: milliseconds since midnight, price × 10,000, size, …, suspicious |
| LEAN quotes | `34200000,1814400,200,1814600,300`, or for currencies `34200000,1.35462,1.35475` |
| HistData | `20120201 000003660,1.306600,1.306770,0`, in Eastern Standard Time |
| Dukascopy | `01.07.2024 00:00:00.123,1.07150,1.07148,0.9,1.2` with a header |
| Binance trades | `28457,4.00000100,12.0,48.0,1499865549590,True`: id, price, quantity, …, time |
| others | a header with columns such as time, symbol, price, size, bid, ask |

- A quote becomes a tick at its mid price with size 0. A side that is empty or 0 is absent: the other one is the price;
  a quote without either is left out. A line with a trade's price is a trade, whatever else it has.
- Trades that the file marks as suspicious are left out.
- The date of times since midnight and the symbol come from columns, or from the name of the file
  (20131007_aapl_trade_tick.csv) or its folder, or from the arguments.
- LEAN's prices of shares are divided by 10,000: whole numbers, in a file with milliseconds since midnight, whose path
  has LEAN's names or whose prices are at least 10,000. More than 8 decimals are rounded.
- The reference price of the circuit breaker is the symbol's first price of the day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, tzinfo
from decimal import ROUND_HALF_UP, Decimal
from itertools import chain, islice
from pathlib import Path

from layouts import Layout, is_number, layout_of
from sheets import Row, Sheet, sheets
from times import NEW_YORK, default_zone, is_around_the_clock, is_since_midnight, parse
from values import DECIMALS, Tick

from gearshift.errors import WrongFileError

LEAN_SCALE = 10_000
_SAMPLE = 20
_LARGEST = Decimal(10) ** (18 - DECIMALS)
_UNIT = Decimal(1).scaleb(-DECIMALS)
_DATE = re.compile(r"(?<!\d)((?:19|20)\d{2})[-_.]?(0[1-9]|1[0-2])[-_.]?(0[1-9]|[12]\d|3[01])(?!\d)")
_LEAN = re.compile(r"equity|_(trade|quote)(_tick|\.zip)", re.IGNORECASE)
_NOT_SYMBOLS = re.compile(
    r"(ticks?|trades?|quotes?|second|minute|dat|ascii|mt|nt|t|bid|ask|data|sample)", re.IGNORECASE
)


def load(
    path: Path,
    *,
    day: date | None = None,
    symbol: str | None = None,
    zone: tzinfo | None = None,
    scale: int | None = None,
) -> list[Tick]:
    """All ticks in the order of their time; the arguments take precedence over what the files say."""
    found: list[Tick] = []
    for sheet in sheets(path):
        found += _ticks(sheet, found[-1].sequence if found else 0, day, symbol, zone, scale)
    if not found:
        raise WrongFileError("it has no ticks", hint="name a file with at least one tick", file=str(path))
    found.sort(key=lambda tick: (tick.at, tick.sequence))
    first: dict[tuple[str, date], Decimal] = {}
    return [
        replace(tick, reference=first.setdefault((tick.symbol, _trading_day(tick.at)), tick.price))
        for tick in found
    ]


def _trading_day(at: datetime) -> date:
    return at.astimezone(NEW_YORK).date()


def _ticks(
    sheet: Sheet, before: int, day: date | None, symbol: str | None, zone: tzinfo | None, scale: int | None
) -> Iterator[Tick]:
    sample = list(islice(sheet.rows, _SAMPLE + 1))
    if not sample:
        return
    path = f"{sheet.path.parent}/{sheet.path.name}/{sheet.name}"
    layout = layout_of(sample, path)
    data = sample[1:] if layout.has_header else sample
    if not data:
        return
    decimal_comma = layout.separator_is_free
    text = layout.time_of(data[0])
    clock = zone or default_zone(text, path)
    day = day or _date_in(path)
    if day is None and is_since_midnight(text):
        raise data[0].error(
            "no date for its times since midnight",
            "put the date into the file's name, such as 20131007_aapl_trade_tick.csv, or pass day=",
        )
    name = symbol or _symbol_in(sheet)
    factor = scale or _scale(data, layout, path)
    for number, row in enumerate(chain(data, sheet.rows), before + 1):
        if len(row.cells) < layout.width:
            raise row.error(
                f"the line has {len(row.cells)} columns, at least {layout.width} are needed",
                "complete or remove it",
            )
        if layout.is_suspicious(row):
            continue
        price = _price(row, layout, factor, decimal_comma)
        if price is None:
            continue
        try:
            at = parse(layout.time_of(row), day, clock)
        except ValueError as error:
            raise row.error(f"{error}", "correct or remove the line") from None
        size = _number(row, layout.size, decimal_comma) if layout.is_trade(row) else None
        of = row.cells[layout.symbol] if layout.symbol is not None else name
        if not of:
            raise row.error("the line has no symbol", "complete or remove it")
        yield Tick(of.upper(), number, price, _rounded(size or Decimal(0)), price, at)


def _price(row: Row, layout: Layout, factor: int, comma: bool) -> Decimal | None:
    """The price of a trade, or the mid of a quote; None for a quote without a price."""
    if layout.is_trade(row):
        price = _number(row, layout.price, comma)
        if price is None or price <= 0:
            raise row.error(
                f"the price {row.cells[layout.price or 0]!r} is not positive", "correct or remove the line"
            )
    else:
        sides = [side for side in (_number(row, layout.bid, comma), _number(row, layout.ask, comma)) if side]
        if not sides:
            return None
        price = sum(sides, Decimal(0)) / len(sides)
    return _rounded(price / factor)


def _number(row: Row, column: int | None, comma: bool) -> Decimal | None:
    """The number of a cell; None if it is empty or not in the file."""
    text = row.cells[column] if column is not None and column < len(row.cells) else ""
    if not text:
        return None
    plain = text.replace(".", "").replace(",", ".") if comma and "," in text else text
    if not is_number(plain):
        raise row.error(f"{text!r} is not a number", "correct or remove the line")
    number = Decimal(plain)
    if number < 0 or number >= _LARGEST:
        raise row.error(f"{text} is out of range", f"use numbers from 0 to {_LARGEST:,}")
    return number


def _rounded(number: Decimal) -> Decimal:
    return number.quantize(_UNIT, ROUND_HALF_UP)


def _scale(rows: list[Row], layout: Layout, path: str) -> int:
    if (
        not is_since_midnight(layout.time_of(rows[0]))
        or is_around_the_clock(path)
        or "future" in path.lower()
    ):
        return 1
    prices = [row.cells[column] for row in rows for column in layout.prices if column < len(row.cells)]
    found = [price for price in prices if price and price != "0"]
    is_lean = _LEAN.search(path) or all(len(price) > 4 for price in found)
    return LEAN_SCALE if found and is_lean and all(price.isdecimal() for price in found) else 1


def _date_in(path: str) -> date | None:
    """The last date in a path, whose file name has precedence.

    >>> _date_in("equity/usa/tick/aapl/20131007_trade.zip/20131007_aapl_Trade_Tick.csv")
    datetime.date(2013, 10, 7)
    """
    for part in reversed(path.split("/")):
        if found := _DATE.search(part):
            try:
                return date(int(found[1]), int(found[2]), int(found[3]))
            except ValueError:
                continue
    return None


def _symbol_in(sheet: Sheet) -> str:
    """The symbol in a file's name; the folder's name if it has none, as in aapl/20131007_trade.csv."""
    for name in (Path(sheet.name).stem, sheet.path.name.partition(".")[0]):
        words = [word for word in re.split(r"[_\-. ]+", name) if word and not word[0].isdigit()]
        words = [word for word in words if not _NOT_SYMBOLS.fullmatch(word)]
        if words:
            return words[0]
    return sheet.path.absolute().parent.name
