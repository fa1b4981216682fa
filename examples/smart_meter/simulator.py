"""Sixty simulated meters, the same for a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import datetime, timedelta

from reading import MeterReading

METERS = 60


def simulate(begin: datetime, seed: int = 7) -> Iterator[MeterReading]:
    """One reading per meter and minute; people cook at noon and in the evening, and some have a sauna."""
    chance = random.Random(seed)
    clock = begin.replace(second=0, microsecond=0)
    while True:
        for meter in range(METERS):
            hour = clock.hour + clock.minute / 60
            usual = 0.3 + 0.5 * math.exp(-((hour - 12) ** 2) / 4) + 0.9 * math.exp(-((hour - 19) ** 2) / 6)
            load = usual * chance.uniform(0.5, 1.5) + (
                chance.uniform(1.5, 3.0) if chance.random() < 0.02 else 0.0
            )
            yield MeterReading(f"meter-{meter:03}", round(load, 3), clock)
        clock += timedelta(minutes=1)
