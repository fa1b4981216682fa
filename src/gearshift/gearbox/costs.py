"""What the gears cost and how long micro-batches take: what was measured, to begin with, and the estimates from it.

The costs are those of `benchmarks/gear_costs.py`: Spark and the broker on two cores, three partitions, with and without
state. The duration of micro-batches is replaced by what each pipeline's own batches take.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from gearshift.freshness import Gear
from gearshift.gearbox.measurements import BatchTimes, Measurements, Memory, Promise

BATCH_OVERHEAD = 0.4
"""Seconds that a micro-batch takes with few records, before one was measured."""
BATCH_CAPACITY = 289_000.0
"""Records per second of a micro-batch beyond its overhead, before one was measured: small records, without state."""
PROCESSOR_OF_A_BATCH = 0.4
"""Processor seconds of a micro-batch, however few records it has."""
PROCESSOR_OF_A_TRIGGER = 0.0125
"""Processor seconds of a trigger that finds no record."""
CORES_PER_SLOT = 0.026
"""Cores of a real-time query for each task slot that it holds, without records."""
CORES_OF_WAKING = 0.018
"""Cores of a real-time query at one record per second, for the tasks that a record wakes.

They grow with the root of the rate, since at a higher one a task that wakes finds several records.
"""
WAKES_UNTIL = 500.0
"""Records per second up to which that was measured; above, it counts as constant."""
AT_FIRST = BatchTimes(overhead=BATCH_OVERHEAD, capacity=BATCH_CAPACITY)

_LEARNING = 0.3
"""The weight of the latest micro-batch in what is remembered."""
_ODD = 2.0
"""The factor by which one batch can differ from what was expected: one pause of Java says little about the next batch."""
_FADES = timedelta(hours=4)
"""The time constant with which measured times return to those of the beginning: without new batches they grow old."""
_LEAST_OVERHEAD = 0.01
_FULL = 0.95
"""The share of the capacity from which micro-batches fall behind."""


def learn(times: BatchTimes, measured: Measurements) -> BatchTimes:
    """The times of micro-batches after the latest one.

    What it took more or less than expected changes both numbers in proportion: a small batch teaches the overhead, a
    large one the capacity.
    """
    records = max(1, measured.batch_records)
    expected = times.overhead + records / times.capacity
    odd = min(max(measured.batch_seconds / expected, 1 / _ODD), _ODD)
    change, of_overhead = _LEARNING * (odd - 1), times.overhead / expected
    return BatchTimes(
        overhead=max(times.overhead * (1 + change * of_overhead), _LEAST_OVERHEAD),
        capacity=times.capacity / (1 + change * (1 - of_overhead)),
    )


def faded(memory: Memory, now: datetime) -> BatchTimes:
    """What the remembered times are worth now."""
    if memory.learned_at is None or now - memory.learned_at < _FADES / 100:
        return memory.times
    weight = math.exp(-((now - memory.learned_at) / _FADES))
    return BatchTimes(
        overhead=BATCH_OVERHEAD + (memory.times.overhead - BATCH_OVERHEAD) * weight,
        capacity=BATCH_CAPACITY + (memory.times.capacity - BATCH_CAPACITY) * weight,
    )


def age_in_batches(promise: Promise, times: BatchTimes, rate: float) -> float:
    """Seconds that a record is old at most when its micro-batch ends: what it waits for, and the batch."""
    took = times.overhead + rate * promise.trigger / times.capacity
    if took <= promise.trigger:
        return promise.trigger + took
    # Without a pause between batches, each takes what arrived during the one before.
    used = rate / times.capacity
    return 2 * times.overhead / (1 - used) if used < _FULL else math.inf


def rate_at(promise: Promise, times: BatchTimes, age: float) -> float:
    """Records per second at which micro-batches make records this old; 0 if they do even without traffic."""
    if age <= 2 * promise.trigger:
        return max(0.0, (age - promise.trigger - times.overhead) * times.capacity / promise.trigger)
    return max(0.0, min(_FULL, 1 - 2 * times.overhead / age) * times.capacity)


def keeps_up(times: BatchTimes, rate: float) -> bool:
    """Whether micro-batches process at least what arrives."""
    return rate / times.capacity < _FULL


def cores(gear: Gear, promise: Promise, times: BatchTimes, rate: float) -> float:
    """Cores that a gear uses for a pipeline, besides those for the records, which are the same in both gears."""
    if gear is Gear.REAL_TIME:
        return cores_of_real_time(promise, rate)
    share = 1 - math.exp(-rate * promise.trigger)
    used = share * PROCESSOR_OF_A_BATCH + (1 - share) * PROCESSOR_OF_A_TRIGGER
    return used / max(promise.trigger, times.overhead)


def cores_of_real_time(promise: Promise, rate: float) -> float:
    """Cores that a real-time query uses, besides those for what it does with the records."""
    return CORES_PER_SLOT * promise.slots + CORES_OF_WAKING * math.sqrt(min(rate, WAKES_UNTIL))
