"""A decision in sentences: why a pipeline is in its gear, and what would change it."""

from __future__ import annotations

import math
from datetime import datetime, tzinfo

from gearshift.freshness import Gear
from gearshift.gearbox.costs import cores, rate_at
from gearshift.gearbox.decision import Decision, Reason

NEAR, REAL = Gear.NEAR_REAL_TIME, Gear.REAL_TIME


def why(decision: Decision) -> str:
    """Why the gear is right, in one clause."""
    promise, measured, memory = decision.promise, decision.measured, decision.memory
    times = decision.times
    fresh, late = seconds(promise.freshness), seconds(decision.batches)
    rate = f"{measured.arriving:,.0f} records/s"
    match decision.reason:
        case Reason.HELD:
            hold = memory.hold
            until = f" until {moment(hold.until)}" if hold is not None and hold.until is not None else ""
            return f"a person chose it{until}"
        case Reason.TIMETABLE:
            return "it is the gear of these hours"
        case Reason.ONLY_GEAR:
            return f"no other gear can run the pipeline and keep {fresh}"
        case Reason.NOT_WORKING:
            return "the query or Kafka does not work, which another gear would not change"
        case Reason.PROMISE:
            return f"at {rate} micro-batches would make records up to {late} old, and the promise is {fresh}"
        case Reason.LATE:
            return f"the oldest record is {seconds(measured.age)} old, and the promise is {fresh}"
        case Reason.BACKLOG:
            output = ", with one update per key" if promise.grouped else ""
            return f"micro-batches drain the backlog of {measured.backlog:,} records{output}"
        case Reason.OVERLOAD:
            return f"real-time falls behind at {rate}, and micro-batches process more or emit less"
        case Reason.SLOTS_GIVEN:
            return f"another promise needs {measured.slots_wanted} task slots, and micro-batches keep {fresh} too"
        case Reason.CHEAPER:
            other = NEAR if decision.gear is REAL else REAL
            used, saved = (cores(gear, promise, times, measured.arriving) for gear in (decision.gear, other))
            kept = f" (records are at most {late} old)" if decision.gear is NEAR else ""
            return f"at {rate} it keeps {fresh} at the least cost{kept}: {used:.2f} cores, and {saved:.2f} in {other}"
        case Reason.CALM:
            return f"a cheaper gear would keep {fresh}, but it is not certain for how long"
        case Reason.RESTING:
            return "another gear would be right, but the last shift was a moment ago"
        case Reason.BUDGET:
            return f"another gear would be right, but there were {len(memory.shifts)} shifts in the last hour"
        case Reason.ALLOWANCE:
            return f"a cheaper gear would be right now, but it was too low for {memory.late:.0f} s in the last day"
        case Reason.NO_SLOTS:
            return (
                f"real-time would be right, but it needs {promise.slots} task slots and "
                f"{max(0, measured.slots_free)} are free"
            )


def change(decision: Decision, zone: tzinfo) -> str:
    """What would change it."""
    promise, memory, times, limits = decision.promise, decision.memory, decision.times, decision.limits
    at = f" at {moment(decision.until.astimezone(zone))}" if decision.until is not None else ""
    match decision.reason:
        case Reason.HELD:
            return (
                f"the gearbox decides again{at}"
                if at
                else 'the gearbox decides again after "gearshift shift" to auto'
            )
        case Reason.TIMETABLE:
            return f"the timetable shifts{at}" if at else "nothing: the timetable has one gear"
        case Reason.ONLY_GEAR:
            return "nothing"
        case Reason.CALM | Reason.RESTING | Reason.BUDGET | Reason.ALLOWANCE:
            other = NEAR if decision.gear is REAL else REAL
            return f"it shifts to {other}{at}, if nothing changes until then"
        case Reason.NO_SLOTS:
            return "it shifts to real-time when enough task slots are free"
        case Reason.OVERLOAD:
            return "it shifts to real-time when less arrives, if the promise needs it"
        case Reason.NOT_WORKING:
            return "the gearbox decides again when records are processed"
        case _:
            pass
    if decision.gear is NEAR:
        latest = promise.freshness * limits.up_above
        rate = rate_at(promise, times, latest)
        if REAL not in promise.gears:
            return "nothing: real-time cannot run it"
        return f"it shifts to real-time when records would be older than {seconds(latest)}: from {rate:,.0f} records/s"
    below = promise.freshness * limits.down_below
    rate = rate_at(promise, times, below)
    calm = f"for {(limits.calm * 2 ** len(memory.shifts)).total_seconds() / 60:g} minutes"
    if rate <= 0:
        return (
            f"nothing: even without traffic a micro-batch would make the first record up to "
            f"{seconds(promise.trigger + times.overhead)} old"
        )
    return f"it shifts to near-real-time when that keeps {seconds(below)} and costs less {calm}: up to {rate:,.0f} records/s"


def seconds(value: float) -> str:
    """A duration for people.

    >>> seconds(0.25), seconds(4.5), seconds(120), seconds(math.inf)
    ('250 ms', '4.5 s', '2 min', 'ever more')
    """
    if math.isinf(value):
        return "ever more"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.3g} s" if value < 120 else f"{value / 60:.3g} min"


def moment(instant: datetime) -> str:
    """An instant for people, to the second."""
    return f"{instant:%Y-%m-%d %H:%M:%S %Z}"


def numbers(decision: Decision) -> dict[str, float]:
    """The numbers that a decision was made on, for the ledger; durations in seconds, rates per second."""
    measured, memory, times, promise = decision.measured, decision.memory, decision.times, decision.promise
    found = {
        "freshness": promise.freshness,
        "arriving": measured.arriving,
        "backlog": measured.backlog,
        "shrinking": measured.shrinking,
        "age": measured.age,
        "idle": measured.idle,
        "batch_seconds": measured.batch_seconds,
        "trigger": promise.trigger,
        "batch_overhead": times.overhead,
        "batch_capacity": times.capacity,
        "age_in_batches": decision.batches,
        "cores_near_real_time": cores(NEAR, promise, times, measured.arriving),
        "cores_real_time": cores(REAL, promise, times, measured.arriving),
        "slots_free": measured.slots_free,
        "slots_wanted": measured.slots_wanted,
        "shifts_in_the_hour": len(memory.shifts),
        "late": memory.late,
    }
    return {name: round(value, 3) for name, value in found.items() if math.isfinite(value)}
