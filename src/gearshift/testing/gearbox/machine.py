"""A pipeline as it runs on a machine: how fast each gear is, what it costs, and when the promise is broken.

Records are taken in the order of their arrival, so that a count says which ones are done.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gearshift.freshness import Gear
from gearshift.gearbox.costs import PROCESSOR_OF_A_BATCH, PROCESSOR_OF_A_TRIGGER, cores_of_real_time
from gearshift.gearbox.measurements import Promise
from gearshift.testing.gearbox.traffic import Day

NEAR, REAL = Gear.NEAR_REAL_TIME, Gear.REAL_TIME
_STEP = 4.0
"""Seconds for which the age of a backlog counts as even."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """What a machine does, apart from what the gearbox believes."""

    overhead: float
    """Seconds that a micro-batch takes with few records."""
    capacity: float
    """Records per second of a micro-batch beyond its overhead."""
    real_time_capacity: float
    """Records per second in real-time."""
    checkpoint_interval: float = 240.0
    boundary: float = 0.6
    """Seconds for which real-time pauses at a checkpoint."""
    keys: int = 1000
    """Updates that a micro-batch of an aggregation emits at most."""
    second_per_record: float
    """Processor seconds of a record, in every gear."""


STATELESS = Speed(overhead=0.24, capacity=289_000.0, real_time_capacity=183_000.0, second_per_record=6.5e-6)
GROUPED = Speed(overhead=0.6, capacity=450_000.0, real_time_capacity=151_000.0, second_per_record=3.2e-6)
"""Two cores with the broker on them, small Avro records: see `benchmarks/gear_costs.py`."""


class Machine:
    """One pipeline through one day."""

    def __init__(self, day: Day, promise: Promise, speed: Speed, gear: Gear) -> None:
        self.day, self.traffic, self.promise, self.speed, self.gear = day, day.traffic, promise, speed, gear
        self.now = 0.0
        self.done = 0.0
        self.broken = 0.0
        """Seconds for which a record was older than promised."""
        self.processor = 0.0
        """Processor seconds, besides those of the records."""
        self.of_records = 0.0
        """Processor seconds of the records, which are the same in every gear."""
        self.emitted = 0.0
        self.replayed = 0.0
        self.batches = 0
        self.batch_seconds = 0.0
        self.batch_records = 0.0
        self._batch: tuple[float, float, float] | None = (
            None  # its start, its end and the count up to which it reads
        )
        self._next_trigger = 0.0
        self._committed = 0.0
        self._boundary = speed.checkpoint_interval

    @property
    def batch_ends(self) -> float:
        """When the batch in progress ends; now if there is none."""
        return self._batch[1] if self._batch is not None else self.now

    def pause(self, seconds: float) -> None:
        """Process nothing, as during a shift or an outage."""
        if self._batch is not None:
            self.replayed += self._partly_written(self._batch)
            self._batch = None
        if self.gear is REAL and self.done > self._committed:
            self.replayed += self.done - self._committed
            self.done = self._committed
        until = self.now + seconds
        self._account(self.now, until)
        self.now = self._next_trigger = until

    def stop(self) -> None:
        """End the batch in progress, so that nothing is replayed."""
        if self.gear is NEAR:
            self.advance(self.batch_ends)
        else:
            self._commit()

    def start(self, gear: Gear) -> None:
        """Run in a gear from now on."""
        self.gear, self._next_trigger, self._batch = gear, self.now, None
        self._committed, self._boundary = self.done, self.now + self.speed.checkpoint_interval

    def advance(self, until: float) -> None:
        """Run until a second."""
        while self.now < until:
            stop = min(until, self.day.next_edge(self.now))
            if self.day.is_down(self.now):
                self.pause(stop - self.now)
            elif self.gear is REAL:
                self._advance_real_time(stop)
            else:
                self._advance_batches(stop)

    def _advance_real_time(self, until: float) -> None:
        arrived = math.floor(self.traffic.arrived(self.now))
        stop = min(until, self.traffic.next_change(self.now))
        if arrived - self.done > 1:  # a backlog: in steps, since its age changes
            stop = min(stop, self.now + _STEP)
        if stop >= self._boundary:
            stop = max(self.now, self._boundary)
        seconds = stop - self.now
        count = min(
            self.done + self.speed.real_time_capacity * seconds, math.floor(self.traffic.arrived(stop))
        )
        if arrived - self.done > 1:
            self._account(self.now, stop, (self.done + count) / 2)
        self._process(count)
        self.emitted += count - self.done
        self.processor += seconds * cores_of_real_time(self.promise, self.traffic.rate_at(self.now))
        self.done, self.now = count, stop
        if stop >= self._boundary:
            self._commit()
            if self.traffic.rate_at(stop):
                self.broken += max(0.0, self.speed.boundary - self.promise.freshness)

    def _commit(self) -> None:
        self._committed, self._boundary = self.done, self.now + self.speed.checkpoint_interval

    def _advance_batches(self, until: float) -> None:
        if self._batch is not None:
            _, end, count = self._batch
            stop = min(until, end)
            self._account(self.now, stop)
            self.now = stop
            if stop < end:
                return
            self._finish(count)
            return
        start = max(self.now, self._next_trigger)
        arrived = math.floor(self.traffic.arrived(start))
        if arrived <= self.done:
            trigger = self.promise.trigger
            arrival = self.traffic.arrival_of(self.done + 1)
            start = (
                self._next_trigger + max(0, math.ceil((arrival - self._next_trigger) / trigger)) * trigger
                if arrival < until
                else until
            )
        if start >= until:
            self._wait(until)
            return
        self._wait(start)
        if not self._skip_equal_batches(until):
            count = math.floor(self.traffic.arrived(start))
            if count > self.done:
                self._batch = (start, start + self._takes(count - self.done, start), count)
            self._next_trigger = start + self.promise.trigger

    def _skip_equal_batches(self, until: float) -> bool:
        """Run all batches but the last of a steady flow at once; whether there were any."""
        rate, trigger = self.traffic.rate_at(self.now), self.promise.trigger
        records = rate * trigger
        stop = min(until, self.traffic.next_change(self.now), self.now + 60.0)
        batches = int((stop - self.now) / trigger) - 1
        waiting = self.traffic.arrived(self.now) - self.done
        takes = self._takes(records, self.now)
        if batches < 2 or records < 10 or takes > trigger or abs(waiting - records) > 1 + records * 0.02:
            return False
        self.broken += batches * max(0.0, trigger + takes - self.promise.freshness)
        self.processor += batches * PROCESSOR_OF_A_BATCH
        self.emitted += batches * self._updates(records)
        self.of_records += batches * records * self.speed.second_per_record
        self.batches += batches
        self.batch_seconds, self.batch_records = takes, records
        self.now += batches * trigger
        self.done = min(self.done + batches * records, math.floor(self.traffic.arrived(self.now)))
        self._next_trigger = self.now
        return True

    def _finish(self, count: float) -> None:
        start, end, _ = self._batch or (self.now, self.now, count)
        records = count - self.done
        self.processor += PROCESSOR_OF_A_BATCH
        self.emitted += self._updates(records)
        self._process(count)
        self.batches += 1
        self.batch_seconds, self.batch_records = end - start, records
        self.done, self._batch = count, None
        self._next_trigger = max(self._next_trigger, end)

    def _takes(self, records: float, second: float) -> float:
        return self.speed.overhead + self.day.extra(second) + records / self.speed.capacity

    def _updates(self, records: float) -> float:
        return min(records, self.speed.keys) if self.promise.grouped else records

    def _partly_written(self, batch: tuple[float, float, float]) -> float:
        """The updates that an interrupted batch has written; it writes them again."""
        start, end, count = batch
        return self._updates(count - self.done) * min(1.0, (self.now - start) / (end - start))

    def _process(self, count: float) -> None:
        self.of_records += (count - self.done) * self.speed.second_per_record

    def _wait(self, until: float) -> None:
        self._account(self.now, until)
        self.processor += (until - self.now) / self.promise.trigger * PROCESSOR_OF_A_TRIGGER
        self.now = until

    def _account(self, since: float, until: float, done: float | None = None) -> None:
        """Count the seconds in which the oldest unprocessed record is older than promised."""
        oldest = self.traffic.arrival_of(math.floor(self.done if done is None else done) + 1)
        late = max(since, oldest + self.promise.freshness)
        if late < until:
            self.broken += until - late
