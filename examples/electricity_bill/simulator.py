"""Simulated customers in six time zones, whose meters send what real meters send; the same for a seed.

Some half hours are null or missing for an evening, one meter's clock is late on some days, some readings come from
between the half hours, and some values have the noise of binary fractions. A customer moves in during the first month.
The network delivers some readings late, out of order and twice; `electricity_bill.py` declares how many.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from reading import MeterReading

FIRST, LAST = date(2024, 3, 1), date(2024, 12, 31)
HALF_HOUR = timedelta(minutes=30)
CUSTOMERS = (
    # meter, tariff, time zone, day of the first reading
    ("MAC000002", "Std", "Europe/London", FIRST),
    ("MAC000003", "ToU", "Europe/London", FIRST + timedelta(days=13)),
    ("BER000007", "ToU", "Europe/Berlin", FIRST),
    ("NYC000011", "Std", "America/New_York", FIRST),
    ("KTM000013", "ToU", "Asia/Kathmandu", FIRST),
    ("SYD000017", "Std", "Australia/Sydney", FIRST),
)


def simulate(seed: int = 7, *, first: date = FIRST, last: date = LAST) -> Iterator[MeterReading]:
    """All readings of these days of the customers' calendars, in the order of their times."""
    chance = random.Random(f"meters {seed}")
    at = datetime.combine(first, time(), UTC) - timedelta(hours=14)
    until = datetime.combine(last, time(), UTC) + timedelta(hours=36)
    muted: dict[str, datetime] = {}
    while at < until:
        for meter, tariff, name, since in CUSTOMERS:
            zone = ZoneInfo(name)
            # The half hours of Kathmandu begin 15 minutes after UTC's.
            wall = (at + _shift(at, zone)).astimezone(zone)
            if not max(first, since) <= wall.date() <= last:
                continue
            if chance.random() < 0.0008:
                muted[meter] = at + chance.randint(1, 9) * HALF_HOUR
            if at >= muted.get(meter, at):
                yield from _sent(meter, tariff, name, wall, chance)
        at += HALF_HOUR


def _shift(at: datetime, zone: ZoneInfo) -> timedelta:
    return -timedelta(minutes=at.astimezone(zone).minute % 30)


def _sent(
    meter: str, tariff: str, zone: str, wall: datetime, chance: random.Random
) -> Iterator[MeterReading]:
    """What a meter sends for one half hour: mostly one reading."""
    hour = wall.hour + wall.minute / 60
    usual = 0.12 + 0.25 * math.exp(-((hour - 8) ** 2) / 3) + 0.5 * math.exp(-((hour - 19) ** 2) / 7)
    kwh = Decimal(round(usual * chance.uniform(0.4, 1.8) * 1_000)).scaleb(-3)
    if chance.random() < 0.01:
        kwh += Decimal("0.0000001")
    at = wall.astimezone(UTC)
    if meter == "BER000007" and wall.day % 5 == 0:
        at += timedelta(seconds=chance.randint(1, 90))  # its clock is late
    if chance.random() < 0.004:
        yield MeterReading(meter, tariff, zone, at, None)
        return
    yield MeterReading(meter, tariff, zone, at, kwh)
    if chance.random() < 0.002:
        between = at + timedelta(minutes=13, seconds=41)
        yield MeterReading(meter, tariff, zone, between, chance.choice((None, kwh)))
