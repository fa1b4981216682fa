"""The same alerts and bills in plain Python: with fractions, without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from reading import MeterReading

BY_DAY, BY_NIGHT = Fraction("0.32"), Fraction("0.24")


@dataclass(frozen=True)
class Bill:
    """The bill of a meter's month."""

    meter_id: str
    month: str
    kwh: Decimal
    amount: Decimal
    readings: int


def alerts(readings: Iterable[MeterReading]) -> list[MeterReading]:
    """The loads above 2 kW."""
    return [reading for reading in readings if reading.load_kw > 2]


def bills(readings: Iterable[MeterReading]) -> list[Bill]:
    """The bill of each meter and month of UTC; the energy of a minute is rounded to a billionth of a kWh."""
    months: dict[tuple[str, str], list[MeterReading]] = defaultdict(list)
    for reading in readings:
        months[reading.meter_id, f"{reading.read_at:%Y-%m}"].append(reading)
    made: list[Bill] = []
    for (meter, month), those in months.items():
        energies = [(reading, _rounded(Fraction(str(reading.load_kw)) / 60, 9)) for reading in those]
        amount = sum(
            (
                energy * (BY_DAY if 6 <= reading.read_at.hour <= 21 else BY_NIGHT)
                for reading, energy in energies
            ),
            Fraction(0),
        )
        kwh = sum((energy for _, energy in energies), Fraction(0))
        made.append(Bill(meter, month, _decimal(kwh, 6), _decimal(amount, 2), len(those)))
    return made


def _rounded(number: Fraction, places: int) -> Fraction:
    """Half up."""
    return Fraction((number * 10**places + Fraction(1, 2)).__floor__(), 10**places)


def _decimal(number: Fraction, places: int) -> Decimal:
    return Decimal((number * 10**places + Fraction(1, 2)).__floor__()).scaleb(-places)
