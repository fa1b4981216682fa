"""Which column of a tick file is what: by its header, or by the values of its first lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sheets import Row
from times import is_millis, is_since_1970, is_time

from gearshift.errors import WrongFileError

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_NAMES = {
    "time": "time timestamp datetime ms milliseconds millisecondssincemidnight gmttime localtime utctime "
    "utc ts timestampms timems ticktime eventtime tradetime quotetime timem msofday zeit uhrzeit",
    "date": "date day tradedate dtyyyymmdd datum",
    "symbol": "symbol ticker instrument sym pair stock security symroot",
    "price": "price last lastprice tradeprice mid midprice kurs preis",
    "size": "size volume vol quantity qty lastsize tradesize tradevolume shares amount volumen",
    "bid": "bid bidprice bestbid b",
    "ask": "ask askprice bestask offer offerprice a",
    "suspicious": "suspicious",
}
_COLUMNS = {name: role for role, names in _NAMES.items() for name in names.split()}
_CLOCK = re.compile(
    r"\d{1,6}|0\d*"
)  # 93000 or 093000123: hours, minutes and seconds rather than milliseconds
_MILLIS = ("ms", "msofday", "milliseconds", "millisecondssincemidnight", "timems")


@dataclass(frozen=True)
class Layout:
    """The number of the column of each part of a tick."""

    time: tuple[int, ...]  # a date and a time of day may have a column each
    price: int | None = None
    size: int | None = None
    bid: int | None = None
    ask: int | None = None
    symbol: int | None = None
    suspicious: int | None = None
    has_header: bool = False
    is_in_millis: bool = False
    """Whether the time of day, next to a date, is in milliseconds since midnight."""
    separator_is_free: bool = False
    """Whether commas do not separate columns, so that they may be decimal points."""

    @property
    def prices(self) -> tuple[int, ...]:
        """The columns with prices."""
        return tuple(column for column in (self.price, self.bid, self.ask) if column is not None)

    @property
    def width(self) -> int:
        """How many columns a line has at least."""
        columns = [*self.time, *self.prices, *(() if self.symbol is None else (self.symbol,))]
        return max(columns) + 1

    def time_of(self, row: Row) -> str:
        """The text of a row's time."""
        text = " ".join(row.cells[column] for column in self.time if column < len(row.cells))
        return f"{text} ms" if self.is_in_millis else text

    def is_trade(self, row: Row) -> bool:
        """Whether a row is a trade: it has a price, other than the 0 of quotes in files that hold both."""
        if self.price is None:
            return False
        return self.bid is None or row.cells[self.price].strip("0.") != ""

    def is_suspicious(self, row: Row) -> bool:
        """Whether the file marks the row as one that is not to be used."""
        marked = self.suspicious is not None and self.suspicious < len(row.cells)
        return marked and row.cells[self.suspicious or 0].lower() in ("1", "true")


def is_number(text: str) -> bool:
    """Whether a text is a decimal number."""
    return bool(_NUMBER.fullmatch(text))


def layout_of(rows: Sequence[Row], path: str) -> Layout:
    """The layout of a file, of which these are the first rows; `path` may say whether it has trades or quotes."""
    free = len(rows[0].cells) > 1 and any("," in cell for row in rows for cell in row.cells)
    if any(is_time(cell) or is_number(cell) for cell in rows[0].cells):
        return _by_values(rows, path, free)
    return _by_header(rows, free)


def _by_header(rows: Sequence[Row], free: bool) -> Layout:
    header = rows[0]
    found: dict[str, int] = {}
    for column, cell in enumerate(header.cells):
        if (role := _COLUMNS.get(_plain(cell))) is not None:
            found.setdefault(role, column)
    if {"open", "high", "low"} <= {cell.lower() for cell in header.cells}:
        raise _bars(header)
    time = tuple(found[role] for role in ("date", "time") if role in found)
    is_priced = "price" in found or "bid" in found or "ask" in found
    if not time or not is_priced:
        missing = "time" if not time else "price, and no bid and ask"
        raise header.error(
            f"the file has no column {missing}; it has {', '.join(header.cells)}",
            "name the columns, such as time, symbol, price, size, or time, bid, ask",
        )
    parts = {role: column for role, column in found.items() if role not in ("date", "time")}
    clocks = [row.cells[time[1]] for row in rows[1:] if len(row.cells) > max(time)] if len(time) == 2 else []
    in_millis = bool(clocks) and (
        all(is_millis(clock) for clock in clocks)
        and (_plain(header.cells[time[1]]) in _MILLIS or not any(map(_CLOCK.fullmatch, clocks)))
    )
    return Layout(time, **parts, has_header=True, is_in_millis=in_millis, separator_is_free=free)


def _plain(name: str) -> str:
    """The name of a column in the form that is looked up."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _by_values(rows: Sequence[Row], path: str, free: bool) -> Layout:
    first = rows[0]
    if since := [column for column, cell in enumerate(first.cells) if column > 2 and is_since_1970(cell)]:
        return Layout((since[0],), price=1, size=2)  # Binance: id, price, quantity, value, time
    start = next((column for column, cell in enumerate(first.cells[:2]) if is_time(cell)), None)
    if start is None:
        # A date and a time of day in columns of their own.
        pairs = [n for n in range(min(2, len(first.cells) - 1)) if _is_pair(first, n)]
        if not pairs:
            raise first.error("the line has no time", "start it with a time, or name the columns in a header")
        time: tuple[int, ...] = (pairs[0], pairs[0] + 1)
    elif _is_pair(first, start):
        time = (start, start + 1)
    else:
        time = (start,)
    symbol = 0 if time[0] == 1 else None
    one = time[-1] + 1
    count = max(len(row.cells) for row in rows) - one
    if count < 1:
        raise first.error("the line has no price", "add a price, or a bid and an ask, after the time")
    near = _nearness(rows, one, free)
    if near(0, 1) and near(0, 2) and near(0, 3) and not near(0, 4):
        raise _bars(first)
    name = path.lower().rsplit("/", 2)[-1] + path.lower().rsplit("/", 2)[-2]
    if "quote" in name:
        kind = "pair" if count < 4 or (near(0, 1) and not near(0, 2)) else "sized"
    elif "trade" in name or count == 1:
        kind = "trade"
    else:
        kind = "pair" if near(0, 1) else "sized" if count > 3 and near(0, 2) else "trade"
    columns = {
        "trade": Layout(time, price=one, size=one + 1, suspicious=one + 4),
        "pair": Layout(time, bid=one, ask=one + 1),
        "sized": Layout(time, bid=one, ask=one + 2, suspicious=one + 6),
    }[kind]
    return Layout(
        time,
        price=columns.price,
        size=columns.size,
        bid=columns.bid,
        ask=columns.ask,
        suspicious=columns.suspicious,
        symbol=symbol,
        separator_is_free=free,
    )


def _bars(row: Row) -> WrongFileError:
    return row.error("the file has bars, not ticks", "name a file with a line per trade or quote")


def _is_pair(row: Row, column: int) -> bool:
    """Whether a date and a time of day are in this column and the next."""
    parts = row.cells[column : column + 2]
    return len(parts) == 2 and ":" in parts[1] and is_time(" ".join(parts))


def _nearness(rows: Sequence[Row], start: int, free: bool) -> Callable[[int, int], bool]:
    """A function that says whether two columns have similar numbers in most rows, as bid and ask do."""

    def value(row: Row, column: int) -> float | None:
        text = row.cells[start + column] if start + column < len(row.cells) else ""
        text = text.replace(",", ".") if free else text
        return float(text) if is_number(text) else None

    def near(one: int, other: int) -> bool:
        votes = 0
        for row in rows:
            a, b = value(row, one), value(row, other)
            if a and b:
                votes += 1 if abs(a - b) <= 0.1 * max(abs(a), abs(b)) else -1
        return votes > 0

    return near
