"""Computes when the next simulated record is due, at a steady rate or one that follows the time of day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

_DAY = 86_400.0


def wait_for_next(rate: float, day: Sequence[float], clock: datetime, time_factor: float) -> float:
    """The seconds until the next record, at `clock` in the simulated day.

    `rate` is the mean over a day; `day` has a weight for each of its equal parts, or is empty for a steady rate.
    Simulated time runs `time_factor` times as fast as real time.

    >>> noon = datetime(2026, 3, 1, 12)
    >>> wait_for_next(2.0, (), noon, 1.0), wait_for_next(2.0, [1.0, 3.0], noon, 1.0)
    (0.5, 0.3333333333333333)
    """
    if not day:
        return 1 / rate
    mean = sum(day) / len(day)
    part = _DAY / len(day)
    begin = clock.replace(hour=0, minute=0, second=0, microsecond=0)
    at = (clock - begin) / timedelta(seconds=1)
    missing, waited = 1.0, 0.0
    while True:
        index = int(at // part)
        left = (index + 1) * part - at
        coming = rate * day[index % len(day)] / mean * left / time_factor
        if coming >= missing:
            return waited + left / time_factor * missing / coming
        missing -= coming
        waited += left / time_factor
        at = (index + 1) * part
