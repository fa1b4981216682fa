"""The decision: which gear a pipeline should run in now, and for which reason.

A pure function of the promise, what is measured, what is remembered, and the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum

from gearshift.freshness import Gear
from gearshift.gearbox.costs import age_in_batches, cores, faded, keeps_up, learn
from gearshift.gearbox.measurements import BatchTimes, Limits, Measurements, Memory, Promise
from gearshift.timetable import Timetable

NEAR, REAL = Gear.NEAR_REAL_TIME, Gear.REAL_TIME
_DAY = timedelta(days=1)
_LOOK = timedelta(seconds=1)
_FORGOTTEN = timedelta(hours=4)
_NEARLY = 0.9
"""The share of what real-time could process that is not tried again."""


class Reason(StrEnum):
    """Why a pipeline should run in a gear."""

    HELD = "held"
    """A person chose it."""
    TIMETABLE = "timetable"
    """It is the gear of these hours."""
    ONLY_GEAR = "only gear"
    """No other gear can run it and keep its promise."""
    NOT_WORKING = "not working"
    """The query or Kafka does not work, so nothing shows that another gear would."""
    PROMISE = "promise"
    """Micro-batches would break the promise."""
    LATE = "late"
    """Records are nearly older than promised, for another reason than the rate."""
    BACKLOG = "backlog"
    """Micro-batches drain the backlog with less output."""
    OVERLOAD = "overload"
    """More arrives than real-time can process; micro-batches process more, or at least emit less."""
    CHEAPER = "cheaper"
    """It keeps the promise at the least cost."""
    SLOTS_GIVEN = "slots given"
    """Another promise needs the task slots more."""
    CALM = "calm"
    """A cheaper gear would keep the promise, but not for long enough yet."""
    RESTING = "resting"
    """Another gear would be right, but the last shift is too recent."""
    BUDGET = "budget"
    """Another gear would be right, but too many shifts are behind it."""
    ALLOWANCE = "allowance"
    """A cheaper gear would be right now, but it was too low too often in the past day."""
    NO_SLOTS = "no slots"
    """Real-time would be right, but there are too few task slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The gear to run in, why, and the numbers it was decided on."""

    gear: Gear
    reason: Reason
    at: datetime
    promise: Promise
    measured: Measurements
    memory: Memory
    times: BatchTimes
    """How long micro-batches take, as far as it is known."""
    limits: Limits
    until: datetime | None = None
    """When the decision could change while the measurements stay the same."""
    slots_lacking: int = 0
    """Task slots that the promise needs and cannot have."""

    @property
    def batches(self) -> float:
        """Seconds that a record would be old at most in near-real-time."""
        return age_in_batches(self.promise, self.times, self.measured.arriving)

    @property
    def is_shift(self) -> bool:
        """Whether it asks for another gear."""
        return self.gear is not self.measured.gear


def decide(
    promise: Promise, measured: Measurements, memory: Memory, now: datetime, limits: Limits
) -> Decision:
    """The gear that keeps the promise at the least cost."""
    return _Deciding(promise, measured, _recalled(memory, measured, now, limits), now, limits).decide()


def decide_by_timetable(
    timetable: Timetable,
    zone: tzinfo,
    promise: Promise,
    measured: Measurements,
    memory: Memory,
    now: datetime,
    limits: Limits,
) -> Decision:
    """The gear of the hour, unless a person has chosen another."""
    memory = _recalled(memory, measured, now, limits)
    deciding = _Deciding(promise, measured, memory, now, limits)
    if memory.hold is not None:
        return deciding.take(memory.hold.gear, Reason.HELD, until=memory.hold.until)
    change = timetable.next_change(now, zone)
    return deciding.take(timetable.gear_at(now, zone), Reason.TIMETABLE, until=change)


def _recalled(memory: Memory, measured: Measurements, now: datetime, limits: Limits) -> Memory:
    """What is still worth remembering, with what the latest micro-batch taught."""
    if memory.hold is not None and not memory.hold.holds(now):
        memory = replace(memory, hold=None)
    if memory.shifts and now - memory.shifts[0] >= limits.budget_time:
        memory = replace(
            memory, shifts=tuple(each for each in memory.shifts if now - each < limits.budget_time)
        )
    if measured.batch not in (-1, memory.learned_from):
        times = learn(faded(memory, now), measured)
        memory = replace(memory, times=times, learned_from=measured.batch, learned_at=now)
    return memory


def count_late(memory: Memory, now: datetime) -> Memory:
    """Count a second in which the gear was too low; what was counted before fades with a time constant of a day."""
    faded = memory.late * math.exp(-((now - memory.late_at) / _DAY)) if memory.late_at is not None else 0.0
    return replace(memory, late=faded + _LOOK.total_seconds(), late_at=now)


def allowed_from(memory: Memory, limits: Limits) -> datetime:
    """When a lower gear may be used again, after it was too low too often."""
    allowance = limits.late_share * _DAY.total_seconds()
    if memory.late_at is None or memory.late <= allowance:
        return memory.late_at or datetime.min.replace(tzinfo=UTC)
    return memory.late_at + _DAY * math.log(memory.late / allowance)


class _Deciding:
    """One decision in the making."""

    def __init__(
        self, promise: Promise, measured: Measurements, memory: Memory, now: datetime, limits: Limits
    ) -> None:
        self.promise, self.measured, self.limits, self.now = promise, measured, limits, now
        self.memory, self.times = memory, faded(memory, now)

    def decide(self) -> Decision:
        promise, measured, memory = self.promise, self.measured, self.memory
        if memory.hold is not None:
            self.memory = replace(memory, better_since=None)
            return self.take(memory.hold.gear, Reason.HELD, until=memory.hold.until)
        if len(promise.gears) == 1:
            return self.take(next(iter(promise.gears)), Reason.ONLY_GEAR)
        if not measured.works:
            return self.stay(Reason.NOT_WORKING)
        self.batches = age_in_batches(promise, self.times, measured.arriving)
        if measured.age > promise.freshness and self._is_too_low():
            self.memory = count_late(memory, self.now)
        if measured.gear is REAL:
            return self._in_real_time()
        if measured.gear is NEAR:
            return self._in_near_real_time()
        keeps = self.batches <= promise.freshness * self.limits.up_above
        return self.take(NEAR if keeps or not self._has_slots() else REAL, Reason.CHEAPER)

    def _in_real_time(self) -> Decision:
        promise, measured, limits = self.promise, self.measured, self.limits
        if self._falls_behind():
            overload = self._shift(NEAR, Reason.OVERLOAD, of_budget=2)
            if not overload.is_shift:
                return overload
            known = replace(overload.memory, too_fast=self._processed(), too_fast_at=self.now)
            return replace(overload, memory=known)
        if self._is_worth_draining():
            return self._shift(NEAR, Reason.BACKLOG, of_budget=2)
        if measured.slots_wanted and self.batches <= promise.freshness * limits.up_above:
            return self._shift(NEAR, Reason.SLOTS_GIVEN, of_budget=2)
        if self.batches > promise.freshness * limits.down_below or measured.age > promise.freshness:
            return self.stay(Reason.PROMISE)
        if self._cores(NEAR) > self._cores(REAL) * (1 - limits.saving):
            return self.stay(Reason.CHEAPER)
        return self._when_calm(NEAR)

    def _in_near_real_time(self) -> Decision:
        promise, measured, limits = self.promise, self.measured, self.limits
        if self._is_catching_up():
            return self.stay(Reason.BACKLOG)
        latest = promise.freshness * limits.up_above
        if self.batches > latest or measured.age > latest:
            if self._is_too_fast():
                return self.stay(Reason.OVERLOAD)
            if not self._has_slots():
                return self.stay(Reason.NO_SLOTS, slots_lacking=promise.slots)
            return self._shift(REAL, Reason.PROMISE if self.batches > latest else Reason.LATE, of_budget=1)
        is_dearer = self._cores(REAL) <= self._cores(NEAR) * (1 - limits.saving)
        if is_dearer and self._has_slots() and not measured.slots_wanted:
            return self._when_calm(REAL)
        return self.stay(Reason.CHEAPER)

    def _falls_behind(self) -> bool:
        """Whether the backlog of real-time is old and still grows."""
        promise, measured, limits = self.promise, self.measured, self.limits
        at_rest = age_in_batches(promise, self.times, 0)
        could_stay = at_rest <= promise.freshness * limits.up_above
        # Where micro-batches cannot keep the promise afterwards, it costs a second shift.
        longest = limits.behind if could_stay else limits.worth_draining
        return measured.age > max(promise.freshness, longest.total_seconds()) and measured.shrinking < 0

    def _processed(self) -> float:
        """Records per second that the query processes."""
        return max(0.0, self.measured.arriving + self.measured.shrinking)

    def _is_too_fast(self) -> bool:
        """Whether more arrives than real-time could process when it fell behind, not long ago."""
        memory = self.memory
        if (
            memory.too_fast is None
            or memory.too_fast_at is None
            or self.now - memory.too_fast_at > _FORGOTTEN
        ):
            return False
        return self.measured.arriving >= _NEARLY * memory.too_fast

    def _is_worth_draining(self) -> bool:
        """Whether a backlog is so large that micro-batches save output worth two shifts."""
        measured, times = self.measured, self.times
        return (
            self.promise.grouped
            and measured.age > self.promise.freshness
            and measured.backlog / times.capacity >= self.limits.worth_draining.total_seconds()
            and keeps_up(times, measured.arriving)
        )

    def _is_catching_up(self) -> bool:
        """Whether micro-batches drain a backlog: a shift would wait for the batch and gain nothing."""
        age = self.measured.age
        return (
            age > self.promise.freshness
            and age > 2 * self.batches
            and keeps_up(self.times, self.measured.arriving)
        )

    def _is_too_low(self) -> bool:
        """Whether records are late because of micro-batches: in them, or while the shift up takes place."""
        shifts = self.memory.shifts
        if self.measured.gear is NEAR:
            return not self._is_catching_up() and not self._is_too_fast()
        return bool(shifts) and self.now - shifts[-1] < self.limits.rest

    def _has_slots(self) -> bool:
        return REAL in self.promise.gears and self.promise.slots <= self.measured.slots_free

    def _cores(self, gear: Gear) -> float:
        return cores(gear, self.promise, self.times, self.measured.arriving)

    def _when_calm(self, gear: Gear) -> Decision:
        """Shift to a cheaper gear once it has been right for long enough."""
        since = self.memory.better_since or self.now
        self.memory = replace(self.memory, better_since=since)
        calm = since + self.limits.calm * 2 ** len(self.memory.shifts)
        if self.now < calm:
            return self.take(self.measured.gear, Reason.CALM, until=calm)
        if gear is NEAR and (until := allowed_from(self.memory, self.limits)) > self.now:
            return self.take(self.measured.gear, Reason.ALLOWANCE, until=until)
        return self._shift(gear, Reason.CHEAPER, of_budget=2)

    def _shift(self, gear: Gear, reason: Reason, *, of_budget: int) -> Decision:
        """Shift unless the last shift is too recent, or the budget has fewer shifts left than this needs.

        A shift down needs two, so that one is left for going up.
        """
        shifts, limits = self.memory.shifts, self.limits
        if shifts and self.now < shifts[-1] + limits.rest:
            return self.take(self.measured.gear, Reason.RESTING, until=shifts[-1] + limits.rest)
        if len(shifts) + of_budget > limits.budget:
            free = shifts[len(shifts) + of_budget - limits.budget - 1] + limits.budget_time
            return self.take(self.measured.gear, Reason.BUDGET, until=free)
        self.memory = replace(self.memory, shifts=(*shifts, self.now), better_since=None)
        return self.take(gear, reason)

    def stay(self, reason: Reason, *, slots_lacking: int = 0) -> Decision:
        """Stay in the gear; what spoke for another one is over."""
        if self.memory.better_since is not None:
            self.memory = replace(self.memory, better_since=None)
        return self.take(self.measured.gear, reason, slots_lacking=slots_lacking)

    def take(
        self, gear: Gear, reason: Reason, *, until: datetime | None = None, slots_lacking: int = 0
    ) -> Decision:
        """The decision for a gear."""
        return Decision(
            gear=gear,
            reason=reason,
            at=self.now,
            promise=self.promise,
            measured=self.measured,
            memory=self.memory,
            times=self.times,
            limits=self.limits,
            until=until,
            slots_lacking=slots_lacking,
        )
