"""The same bars and trips in plain Python: from a list of ticks, without Spark and without a watermark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from values import Tick

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NEW_YORK = ZoneInfo("America/New_York")

Key = tuple[str, datetime]


def distinct(ticks: Iterable[Tick]) -> list[Tick]:
    """The ticks without repetitions, in the order of their time and, within one instant, of the feed."""
    found = {(tick.symbol, tick.at, tick.sequence): tick for tick in ticks}
    return sorted(found.values(), key=lambda tick: (tick.at, tick.sequence))


def rounded(number: Fraction, places: int) -> Decimal:
    """An exact number, rounded half up.

    >>> rounded(Fraction(2, 3), 8), rounded(Fraction(1, 200), 2), rounded(Fraction(-1, 200), 2)
    (Decimal('0.66666667'), Decimal('0.01'), Decimal('-0.01'))
    """
    with localcontext(prec=80):
        scaled = abs(number) * 10**places
        whole = scaled.numerator // scaled.denominator
        whole += scaled - whole >= Fraction(1, 2)
        return Decimal(whole if number >= 0 else -whole).scaleb(-places)


def bars(ticks: Iterable[Tick], width: timedelta) -> dict[Key, dict[str, Any]]:
    """Each symbol's bars by symbol and start."""
    grouped: dict[Key, list[Tick]] = defaultdict(list)
    for tick in distinct(ticks):
        grouped[tick.symbol, EPOCH + (tick.at - EPOCH) // width * width].append(tick)
    made: dict[Key, dict[str, Any]] = {}
    for (symbol, start), those in grouped.items():
        volume = sum((Fraction(tick.size) for tick in those), Fraction(0))
        turnover = sum((Fraction(tick.price) * Fraction(tick.size) for tick in those), Fraction(0))
        made[symbol, start] = {
            "symbol": symbol,
            "start": start,
            "open": those[0].price,
            "high": sorted(tick.price for tick in those)[-1],
            "low": sorted(tick.price for tick in those)[0],
            "close": those[-1].price,
            "volume": rounded(volume, 8),
            "turnover": rounded(turnover, 16),
            "vwap": rounded(turnover / volume, 8) if volume else None,
            "ticks": len(those),
        }
    return made


def trips(ticks: Iterable[Tick], limit: int = 5) -> dict[tuple[str, int], dict[str, Any]]:
    """The ticks that are more than `limit` percent away from their reference price, by symbol and sequence."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for tick in distinct(ticks):
        change = (Fraction(tick.price) / Fraction(tick.reference) - 1) * 100
        if change > limit or change < -limit:
            found[tick.symbol, tick.sequence] = {
                "symbol": tick.symbol,
                "day": tick.at.astimezone(NEW_YORK).date(),
                "sequence": tick.sequence,
                "price": tick.price,
                "reference": tick.reference,
                "change": rounded(change, 2),
                "at": tick.at,
            }
    return found


def halts(ticks: Iterable[Tick], limit: int = 5) -> set[tuple[str, date]]:
    """The symbols that are halted, with the day."""
    return {(trip["symbol"], trip["day"]) for trip in trips(ticks, limit).values()}
