"""The mall: a seeded crowd that walks through five doors, and sensors that miss some of the people.

It begins on the Saturday before the night in which Amsterdam has the hour from two to three twice; the cinema is open
until half past four. Every night the mall is empty, and the sensors do not agree. The app's source adds the late and
repeated reports.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from values import STREET, DoorReport

ZONE = ZoneInfo("Europe/Amsterdam")
FIRST_DAY = date(2025, 10, 25)
DOORS = (
    ("north", "fashion", STREET),
    ("south", "food", STREET),
    ("bridge", "food", "fashion"),
    ("stairs", "cinema", "food"),
    ("late-exit", "cinema", STREET),
)
SEEN = 0.98
"""The chance that a sensor sees a person."""
COMING = {10: 3, 11: 5, 12: 8, 13: 7, 14: 6, 15: 6, 16: 6, 17: 7, 18: 9, 19: 9, 20: 6, 21: 3, 22: 2, 23: 1}
"""How many people come through each street door in a minute, by the hour."""
CLOSING = {"fashion": 22, "food": 24, "cinema": 28}
"""The hours, counted from midnight of the business day's date, from which everyone in a zone leaves it."""


def simulate(chance: random.Random, days: int | None = None, every: int = 1) -> Iterator[DoorReport]:
    """A report for each door and `every` minutes in which someone passed, in the order of time."""
    number = 0
    while days is None or number < days:
        yield from _day(chance, FIRST_DAY + timedelta(days=number), every)
        number += 1


def _day(chance: random.Random, day: date, every: int) -> Iterator[DoorReport]:
    """A business day: the minutes that really pass from ten in the morning, also if clocks change at night."""
    opening = datetime(day.year, day.month, day.day, 10, tzinfo=ZONE).astimezone(UTC)
    inside = dict.fromkeys(CLOSING, 0)
    seen = {door: [0, 0] for door, _, _ in DOORS}
    minute = 0
    while minute < 14 * 60 or any(inside.values()) or minute % every:
        hour = 10 + minute // 60
        for door, zone, beyond in DOORS:
            coming = _coming(chance, inside, zone, beyond, hour)
            going = _going(chance, inside, zone, beyond, hour)
            for place, change in ((zone, coming - going), (beyond, going - coming)):
                if place != STREET:
                    inside[place] += change
            seen[door][0] += _seen(chance, coming)
            seen[door][1] += _seen(chance, going)
        minute += 1
        if minute % every == 0:
            at = opening + timedelta(minutes=minute - every)
            for door, zone, beyond in DOORS:
                if any(seen[door]):
                    yield DoorReport(door, zone, beyond, *seen[door], at)
                    seen[door] = [0, 0]


def _coming(chance: random.Random, inside: dict[str, int], zone: str, beyond: str, hour: int) -> int:
    if beyond == STREET:
        return 0 if zone == "cinema" else chance.randint(0, 2 * COMING.get(hour, 0))
    # People in the other zone walk on, unless this one is closing.
    return sum(chance.random() < 0.01 for _ in range(inside[beyond])) if hour < CLOSING[zone] else 0


def _going(chance: random.Random, inside: dict[str, int], zone: str, beyond: str, hour: int) -> int:
    share = 0.2 if hour >= CLOSING[zone] else 0.012
    if beyond == STREET:
        return sum(chance.random() < share for _ in range(inside[zone]))
    return sum(chance.random() < 0.005 for _ in range(inside[zone])) if hour < CLOSING[beyond] else 0


def _seen(chance: random.Random, passed: int) -> int:
    return sum(chance.random() < SEEN for _ in range(passed))
