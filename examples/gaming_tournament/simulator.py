"""The game servers: seeded tournaments, of which up to three run at the same time, and many players with equal points.

A tournament opens every ten minutes and takes half an hour. Some scores are penalties, so a total can fall; several fall
into the same millisecond; a few players play in every tournament. The app's source adds the late and repeated events.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count

from values import Score

BEGAN = datetime(2026, 5, 2, 18, 0, tzinfo=UTC)
EVERY = timedelta(minutes=10)
LASTS = timedelta(minutes=30)
PER_MINUTE = 30
PLAYERS = (
    *("Amélie", "Bjørn", "Chidi", "Dao", "Eylül", "Fatima", "Goran", "Hana", "Ines", "Jun", "Kofi", "Łukasz"),
    *("Mia", "Noor", "Óscar", "Priya", "Quinn", "Rosa", "Søren", "Tama", "Uma", "Viktor", "Wanjiru", "Xin"),
    *("Yara", "Zoë", "さくら", "Саша", "陽太", "지우"),
)
ENTRANTS = 20
POINTS = (10, 10, 10, 20, 20, 50, -10)
"""Few and round, so that totals are often equal."""


def simulate(chance: random.Random, tournaments: int | None = None) -> Iterator[Score]:
    """Scores in the order of their time; without an end unless a number of tournaments is given."""
    running: list[tuple[str, datetime, list[str]]] = []
    number = 0
    for minute in count():
        now = BEGAN + timedelta(minutes=minute)
        if minute % (EVERY // timedelta(minutes=1)) == 0 and (tournaments is None or number < tournaments):
            number += 1
            running.append((f"cup-{number:03}", now, chance.sample(PLAYERS, ENTRANTS)))
        running = [each for each in running if now < each[1] + LASTS]
        if not running:
            return
        seconds = sorted(round(chance.uniform(0, 60), 3) for _ in range(PER_MINUTE - 1))
        for position, second in enumerate((*seconds, seconds[-1])):
            name, opened_at, players = chance.choice(running)
            yield Score(
                f"{minute:05}-{position:02}",
                name,
                opened_at,
                chance.choice(players),
                chance.choice(POINTS),
                now + timedelta(seconds=second),
            )
