"""A meter's reading of one half hour, and the tariffs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import gearshift as gs

DECIMALS = 7
Energy = Annotated[Decimal, gs.DecimalOf(14, DECIMALS)]


@dataclass(frozen=True, slots=True)
class MeterReading:
    """The energy used in the half hour that begins at `read_at`, as the meter sent it."""

    meter_id: str
    tariff: str
    zone: str  # the customer's time zone
    read_at: datetime
    kwh: Energy | None


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
