"""The values of the topics: a meter's readings and what is made of them; and the tariffs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import gearshift as gs

DECIMALS = 7
Energy = Annotated[Decimal, gs.DecimalOf(14, DECIMALS)]
Money = Annotated[Decimal, gs.DecimalOf(12, 2)]


@dataclass(frozen=True, slots=True)
class MeterReading:
    """The energy used in the half hour that begins at `read_at`, as the meter sent it."""

    meter_id: str
    tariff: str
    zone: str  # the customer's time zone
    read_at: datetime
    kwh: Energy | None


@dataclass(frozen=True)
class HalfHour:
    """A usable reading, on the grid."""

    meter_id: str
    tariff: str
    zone: str
    begins_at: datetime
    wall_time: datetime  # the customer's wall clock at that instant, written as if it were UTC
    kwh: Energy
    off_grid: int  # microseconds between the meter's time and the grid


@dataclass(frozen=True)
class MonthSoFar:
    """The energy of a customer's month until now, and its price without the standing charge."""

    meter_id: str
    month: str
    tariff: str
    half_hours: int
    day_kwh: Energy
    night_kwh: Energy
    amount: Money


@dataclass(frozen=True)
class Tariff:
    """Prices: per day, and per kWh by day and by night (from midnight to 7:00, the customer's time)."""

    standing: Decimal
    day: Decimal
    night: Decimal


TARIFFS = {
    "Std": Tariff(Decimal("0.2510"), Decimal("0.1423"), Decimal("0.1423")),
    "ToU": Tariff(Decimal("0.2510"), Decimal("0.1676"), Decimal("0.0849")),
}
"""By their names in the London files."""
