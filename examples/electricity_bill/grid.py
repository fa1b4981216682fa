"""How far apart a meter's readings are, and half hours of shorter ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from zoneinfo import ZoneInfo

from reading import MeterReading
from sheets import Row

HALF_HOUR = timedelta(minutes=30)
_MINUTE = timedelta(minutes=1)
_FEWEST = 4  # steps that show how far apart readings are


def half_hours(readings: Sequence[MeterReading], lines: Mapping[str, Row]) -> list[MeterReading]:
    """The readings as half hours; `lines` has the first line of each meter, for the error that refuses longer steps."""
    of_meter: dict[str, list[MeterReading]] = defaultdict(list)
    for reading in readings:
        of_meter[reading.meter_id].append(reading)
    found: list[MeterReading] = []
    for meter, those in of_meter.items():
        step = _step(reading.read_at for reading in those)
        if step == HALF_HOUR:
            found += those
        elif HALF_HOUR % step:
            raise lines[meter].error(
                f"the readings of meter {meter} are {step // _MINUTE} minutes apart",
                "use readings of half hours",
            )
        else:
            found += _added(those, step)
    return found


def _step(times: Iterable[datetime]) -> timedelta:
    """How far apart most of the times are; half an hour if they do not say."""
    at = sorted({round(time.timestamp() / 60) for time in times})
    steps = Counter(two - one for one, two in pairwise(at))
    if steps.total() < _FEWEST:
        return HALF_HOUR
    [(step, count)] = steps.most_common(1)
    return step * _MINUTE if 2 * count > steps.total() else HALF_HOUR


def _added(readings: Iterable[MeterReading], step: timedelta) -> list[MeterReading]:
    """Half hours of shorter readings; null where one of them lacks or is null. Of repeated ones the lowest counts."""
    parts: dict[datetime, dict[datetime, Decimal]] = defaultdict(dict)
    first: dict[datetime, MeterReading] = {}
    for reading in readings:
        wall = reading.read_at.astimezone(ZoneInfo(reading.zone))
        since = timedelta(minutes=wall.minute % 30, seconds=wall.second, microseconds=wall.microsecond)
        number, past = divmod(since, step)
        if past > step / 2:
            number, past = number + 1, past - step
        if abs(past) > step / 6:
            continue  # off the grid
        at = reading.read_at - past
        begin = at - number * step if number * step < HALF_HOUR else at
        first.setdefault(begin, reading)
        if reading.kwh is not None:
            parts[begin][at] = min(reading.kwh, parts[begin].get(at, reading.kwh))
    return [
        replace(
            reading,
            read_at=begin,
            kwh=sum(parts[begin].values(), Decimal(0)) if len(parts[begin]) == HALF_HOUR // step else None,
        )
        for begin, reading in first.items()
    ]
