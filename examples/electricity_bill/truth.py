"""The same half hours, months and bills in plain Python: with zoneinfo and fractions, without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from reading import TARIFFS, MeterReading

HALF_HOUR = timedelta(minutes=30)
TOLERANCE = timedelta(minutes=5)

Slot = tuple[str, datetime]


@dataclass(frozen=True)
class Used:
    """The energy of one half hour."""

    meter_id: str
    tariff: str
    zone: str
    begins_at: datetime
    kwh: Decimal
    off_grid: timedelta

    @property
    def wall_time(self) -> datetime:
        """The customer's local time."""
        return self.begins_at.astimezone(ZoneInfo(self.zone))


def rounded(number: Fraction, places: int) -> Decimal:
    """An exact number that is not negative, rounded half up."""
    with localcontext(prec=60):
        scaled = number * 10**places
        whole = scaled.numerator // scaled.denominator
        return Decimal(whole + (scaled - whole >= Fraction(1, 2))).scaleb(-places)


def usable(readings: Iterable[MeterReading]) -> list[Used]:
    """The readings that can be used, each at the half hour it belongs to; repeated ones are still repeated."""
    found: list[Used] = []
    for reading in readings:
        if reading.kwh is None or reading.kwh < 0:
            continue
        wall = reading.read_at.astimezone(ZoneInfo(reading.zone))
        past = timedelta(minutes=wall.minute % 30, seconds=wall.second, microseconds=wall.microsecond)
        for begins_at in (reading.read_at - past, reading.read_at - past + HALF_HOUR):
            off = abs(reading.read_at - begins_at)
            if off <= TOLERANCE:
                at = begins_at.astimezone(UTC)
                found.append(Used(reading.meter_id, reading.tariff, reading.zone, at, reading.kwh, off))
    return found


def best(readings: Iterable[MeterReading]) -> dict[Slot, Used]:
    """The reading of each half hour that counts."""
    chosen: dict[Slot, Used] = {}
    for used in usable(readings):
        slot = used.meter_id, used.begins_at
        if slot not in chosen or (used.off_grid, used.kwh) < (chosen[slot].off_grid, chosen[slot].kwh):
            chosen[slot] = used
    return chosen


def months_so_far(readings: Iterable[MeterReading]) -> dict[tuple[str, str], dict[str, Any]]:
    """The energy of each customer's months; of readings without two different ones for a half hour."""
    made: dict[tuple[str, str], dict[str, Any]] = {}
    for (meter, month), those in _by_month(best(readings)).items():
        day, night = _day_and_night(those)
        tariff = TARIFFS[those[0].tariff]
        made[meter, month] = {
            "meter_id": meter,
            "month": month,
            "tariff": those[0].tariff,
            "half_hours": len(those),
            "day_kwh": rounded(day, 7),
            "night_kwh": rounded(night, 7),
            "amount": rounded(day * Fraction(tariff.day) + night * Fraction(tariff.night), 2),
        }
    return made


def bills(readings: Iterable[MeterReading]) -> dict[tuple[str, str], dict[str, Any]]:
    """The bills of all months by meter and month."""
    chosen = best(readings)
    first: dict[str, date] = {}
    for used in sorted(chosen.values(), key=lambda used: used.begins_at):
        first.setdefault(used.meter_id, used.wall_time.date())
    made: dict[tuple[str, str], dict[str, Any]] = {}
    for (meter, month), those in _by_month(chosen).items():
        latest = max(those, key=lambda used: used.begins_at)
        tariff = TARIFFS[latest.tariff]
        have = {used.begins_at for used in those}
        expected = list(_half_hours(month, first[meter], ZoneInfo(latest.zone)))
        lacking = [wall for at, wall in expected if at not in have]
        day, night = _day_and_night(those)
        at_night = sum(wall.hour < 7 for wall in lacking)
        mean = (day + night) / len(those)
        by_day = rounded(mean * (len(lacking) - at_night), 3)
        by_night = rounded(mean * at_night, 3)
        days = len({wall.date() for _, wall in expected})
        amounts = {
            "day_amount": rounded((day + Fraction(by_day)) * Fraction(tariff.day), 2),
            "night_amount": rounded((night + Fraction(by_night)) * Fraction(tariff.night), 2),
            "standing_amount": rounded(days * Fraction(tariff.standing), 2),
        }
        made[meter, month] = {
            "meter_id": meter,
            "month": month,
            "tariff": latest.tariff,
            "days": days,
            "half_hours": len(those),
            "missing": len(lacking),
            "day_kwh": rounded(day, 7),
            "night_kwh": rounded(night, 7),
            "day_estimate": by_day,
            "night_estimate": by_night,
            **amounts,
            "total": sum(amounts.values(), Decimal(0)),
        }
    return made


def _by_month(chosen: dict[Slot, Used]) -> dict[tuple[str, str], list[Used]]:
    found: dict[tuple[str, str], list[Used]] = defaultdict(list)
    for used in chosen.values():
        found[used.meter_id, f"{used.wall_time:%Y-%m}"].append(used)
    return found


def _day_and_night(those: Iterable[Used]) -> tuple[Fraction, Fraction]:
    sums = [Fraction(0), Fraction(0)]
    for used in those:
        sums[used.wall_time.hour < 7] += Fraction(used.kwh)
    return sums[0], sums[1]


def _half_hours(month: str, first: date, zone: ZoneInfo) -> Iterable[tuple[datetime, datetime]]:
    """The half hours of a local month from the first day on: the instant, and the local time."""
    begin = date(int(month[:4]), int(month[5:]), 1)
    end = (begin + timedelta(days=31)).replace(day=1)
    at = datetime.combine(max(begin, first), time(), zone).astimezone(UTC)
    while (wall := at.astimezone(zone)).date() < end:
        yield at, wall
        at += HALF_HOUR
