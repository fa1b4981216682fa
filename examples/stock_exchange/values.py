"""The values of the topics. Money is Decimal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated

import gearshift as gs

DECIMALS = 8
Price = Annotated[Decimal, gs.DecimalOf(18, DECIMALS)]
Volume = Annotated[Decimal, gs.DecimalOf(28, 8)]
Turnover = Annotated[Decimal, gs.DecimalOf(38, 16)]
Percent = Annotated[Decimal, gs.DecimalOf(18, 2)]


@dataclass(frozen=True)
class Tick:
    """A price of a symbol at an instant: of a trade, or the mid price of a quote."""

    symbol: str
    sequence: int
    """The position in the feed: orders ticks of the same instant, and identifies a repeated one."""
    price: Price
    size: Price
    """0 for a quote."""
    reference: Price
    """What the circuit breaker compares with: the previous close, or the first price of the day."""
    at: datetime


@dataclass(frozen=True)
class Bar:
    """The prices of a symbol in a second or a minute."""

    symbol: str
    start: datetime
    open: Price
    high: Price
    low: Price
    close: Price
    volume: Volume
    turnover: Turnover
    vwap: Price | None
    ticks: int


@dataclass(frozen=True)
class Trip:
    """A price beyond the limit of the circuit breaker."""

    symbol: str
    day: date
    sequence: int
    price: Price
    reference: Price
    change: Percent
    at: datetime
