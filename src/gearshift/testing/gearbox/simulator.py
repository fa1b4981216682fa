"""Replays a day against the gearbox, or against a fixed gear."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gearshift.freshness import Gear
from gearshift.gearbox.costs import AT_FIRST
from gearshift.gearbox.decision import Decision, decide
from gearshift.gearbox.measurements import Limits, Measurements, Memory, Promise
from gearshift.testing.gearbox.machine import Machine, Speed
from gearshift.testing.gearbox.traffic import Day

MIDNIGHT = datetime(2026, 1, 5, tzinfo=UTC)
_LOOK = 1.0
_WINDOW = 5.0
_LONGEST_LOOK = 300.0
_PAUSE = (0.5, 3.0)
"""The least and the longest pause of a shift, in seconds, as measured."""
_SHIFT_COSTS = 2.0
"""Processor seconds of a shift: the plan and the start of a query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a day came to."""

    held: float
    """The share of the time in which no record was older than promised."""
    processor: float
    """Processor seconds, besides those of the records."""
    of_records: float
    """Processor seconds of the records, which are the same in every gear."""
    shifts: tuple[tuple[float, Gear, str], ...]
    """Second, gear and reason of each shift."""
    replayed: float
    emitted: float
    decisions: int

    def flaps(self, limits: Limits) -> int:
        """How often a gear was left and taken again within the rest."""
        rest = limits.rest.total_seconds() - 0.001  # instants have microseconds
        return sum(
            later[0] - earlier[0] < rest for earlier, later in zip(self.shifts, self.shifts[1:], strict=False)
        )


def stay(day: Day, promise: Promise, speed: Speed, gear: Gear) -> Outcome:
    """A day in one gear."""
    machine = Machine(day, promise, speed, gear)
    machine.advance(day.traffic.end)
    return _outcome(day, machine, (), 0)


def drive(
    day: Day,
    promise: Promise,
    speed: Speed,
    limits: Limits,
    *,
    gear: Gear = Gear.REAL_TIME,
    seed: int = 0,
    every_second: bool = True,
) -> Outcome:
    """A day with the gearbox, which looks every second, or less often while nothing changes."""
    dice, machine = random.Random(seed), Machine(day, promise, speed, gear)
    memory = Memory(times=AT_FIRST)
    shifts: list[tuple[float, Gear, str]] = []
    decisions, batches = 0, 0
    for decision in _looks(machine, memory, limits, every_second=every_second):
        decisions += 1
        if not decision.is_shift:
            continue
        shifts.append((machine.now, decision.gear, str(decision.reason)))
        machine.stop()
        machine.pause(dice.uniform(*_PAUSE))
        machine.start(decision.gear)
        machine.processor += _SHIFT_COSTS
        batches = machine.batches
    assert batches <= machine.batches
    return _outcome(day, machine, tuple(shifts), decisions)


def _looks(machine: Machine, memory: Memory, limits: Limits, *, every_second: bool) -> Iterator[Decision]:
    """The decisions of a day; whoever takes them carries out the shifts before the next one."""
    day, end = machine.day, machine.traffic.end
    look, first_batch, gear = _LOOK, 0, machine.gear
    backlogs: list[tuple[float, int]] = []
    while machine.now < end:
        if machine.gear is not gear:
            gear, first_batch, look = machine.gear, machine.batches + 1, _LOOK
            backlogs = []
        now = MIDNIGHT + timedelta(seconds=machine.now)
        measured = measure(machine, first_batch, backlogs[0] if backlogs else None)
        if measured.works:
            recent = [each for each in backlogs if machine.now - each[0] < 2 * _WINDOW]
            backlogs = [*recent, (machine.now, measured.backlog)]
        else:
            backlogs = []
        decision = decide(machine.promise, measured, memory, now, limits)
        memory = decision.memory
        yield decision
        if decision.is_shift:
            continue
        is_late = measured.works and measured.age > machine.promise.freshness
        look = _LOOK if every_second else min(_LONGEST_LOOK if not is_late else 16 * _LOOK, look * 2)
        until = machine.now + look
        if not every_second:
            # Look right after each change, when the new rate has filled the window.
            for edge in (machine.traffic.next_change(machine.now), day.next_edge(machine.now)):
                if machine.now < edge <= until:
                    until, look = edge + _LOOK, _LOOK
            if decision.until is not None:
                until = min(until, max(machine.now + _LOOK, (decision.until - MIDNIGHT).total_seconds()))
        machine.advance(min(end, until))


def measure(machine: Machine, first_batch: int, earlier: tuple[float, int] | None) -> Measurements:
    """What the runner would measure now, with a backlog that it measured earlier."""
    now, traffic = machine.now, machine.traffic
    arrived = traffic.arrived(now)
    since = max(0.0, now - _WINDOW)
    arriving = (arrived - traffic.arrived(since)) / (now - since) if now > since else 0.0
    backlog = max(0, math.floor(arrived) - math.floor(machine.done))
    age = max(0.0, now - traffic.arrival_of(math.floor(machine.done) + 1)) if backlog else 0.0
    taught = machine.gear is Gear.NEAR_REAL_TIME and machine.batches > first_batch
    return Measurements(
        gear=machine.gear,
        works=not machine.day.is_down(now),
        arriving=arriving,
        backlog=backlog,
        shrinking=(earlier[1] - backlog) / (now - earlier[0]) if earlier is not None else 0.0,
        age=age,
        idle=0.0,
        batch=machine.batches if taught else -1,
        batch_seconds=machine.batch_seconds,
        batch_records=round(machine.batch_records),
        slots_free=machine.promise.slots,
    )


def _outcome(
    day: Day, machine: Machine, shifts: tuple[tuple[float, Gear, str], ...], decisions: int
) -> Outcome:
    return Outcome(
        held=1 - machine.broken / day.traffic.end,
        processor=machine.processor,
        of_records=machine.of_records,
        shifts=shifts,
        replayed=machine.replayed,
        emitted=machine.emitted,
        decisions=decisions,
    )
