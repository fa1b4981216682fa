"""The decision is a pure function: the cheapest gear that keeps the promise, without haste and without flapping."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.freshness import Gear
from gearshift.gearbox.decision import Decision, Reason, decide, decide_by_timetable
from gearshift.gearbox.measurements import BatchTimes, Hold, Limits, Measurements, Memory, Promise
from gearshift.gearbox.sentences import change, numbers, why
from gearshift.gearbox.slots import wanted_of
from gearshift.timetable import Timetable

NEAR, REAL, BATCH = Gear.NEAR_REAL_TIME, Gear.REAL_TIME, Gear.BATCH
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
LIMITS = Limits()


def promise(freshness: float = 5, **changed: Any) -> Promise:
    """A promise of a stateless pipeline on three partitions."""
    trigger = min(max(freshness / 2, 1), 300)
    base = Promise(
        freshness=freshness, trigger=trigger, gears=frozenset({NEAR, REAL}), slots=3, grouped=False
    )
    return replace(base, **changed)


def measured(gear: Gear, **changed: Any) -> Measurements:
    """A working pipeline without traffic."""
    base = Measurements(
        gear=gear,
        works=True,
        arriving=0,
        backlog=0,
        shrinking=0,
        age=0,
        idle=0,
        batch=-1,
        batch_seconds=0,
        batch_records=0,
        slots_free=8,
    )
    return replace(base, **changed)


def memory(**changed: Any) -> Memory:
    """Micro-batches of 0.4 seconds and 50,000 records a second."""
    return replace(Memory(times=BatchTimes(overhead=0.4, capacity=50_000)), **changed)


def after(what: Measurements, minutes: float, of: Promise, known: Memory) -> Decision:
    """The decision after some minutes in which the same was measured, second by second."""
    now, end = NOON, NOON + timedelta(minutes=minutes)
    decision = decide(of, what, known, now, LIMITS)
    while now < end and not decision.is_shift:
        now += timedelta(seconds=1)
        decision = decide(of, what, decision.memory, now, LIMITS)
    return decision


def test_it_goes_down_once_a_cheaper_gear_would_have_kept_the_promise_for_a_while() -> None:
    assert not after(measured(REAL, arriving=10), 4.9, promise(10), memory()).is_shift
    decision = after(measured(REAL, arriving=10), 5.1, promise(10), memory())
    assert (decision.gear, decision.reason) == (NEAR, Reason.CHEAPER)


def test_it_stays_up_in_silence_where_a_micro_batch_could_not_keep_the_promise_for_the_first_record() -> None:
    decision = after(measured(REAL), 60, promise(1), memory())
    assert (decision.gear, decision.reason) == (REAL, Reason.PROMISE)
    assert "even without traffic" in change(decision, UTC)


def test_it_goes_up_before_the_promise_breaks() -> None:
    calm = decide(promise(), measured(NEAR, arriving=20_000), memory(), NOON, LIMITS)
    assert (calm.gear, calm.reason) == (NEAR, Reason.CHEAPER)
    assert calm.batches < 5
    busy = decide(promise(), measured(NEAR, arriving=34_000), memory(), NOON, LIMITS)
    assert (busy.gear, busy.reason) == (REAL, Reason.PROMISE)
    assert busy.batches < 5  # not broken yet


def test_records_that_are_nearly_too_old_make_it_go_up_whatever_the_rate_says() -> None:
    decision = decide(promise(), measured(NEAR, arriving=10, age=4.8, backlog=60), memory(), NOON, LIMITS)
    assert (decision.gear, decision.reason) == (REAL, Reason.LATE)


def test_an_aggregation_catches_up_in_micro_batches_which_emit_one_update_per_key() -> None:
    backlog = measured(REAL, arriving=100, age=600, backlog=20_000_000)
    decision = decide(promise(grouped=True), backlog, memory(), NOON, LIMITS)
    assert (decision.gear, decision.reason) == (NEAR, Reason.BACKLOG)
    assert not decide(promise(grouped=False), backlog, memory(), NOON, LIMITS).is_shift
    assert not decide(
        promise(grouped=True), replace(backlog, backlog=100_000), memory(), NOON, LIMITS
    ).is_shift


def test_micro_batches_that_drain_a_backlog_are_not_interrupted() -> None:
    backlog = measured(NEAR, arriving=100, age=600, backlog=20_000_000)
    decision = decide(promise(), backlog, memory(), NOON, LIMITS)
    assert (decision.gear, decision.reason) == (NEAR, Reason.BACKLOG)


def test_during_an_outage_it_stays() -> None:
    for gear in (NEAR, REAL):
        down = measured(gear, works=False, age=900, backlog=10**7, arriving=0)
        decision = after(down, 30, promise(), memory())
        assert (decision.gear, decision.reason) == (gear, Reason.NOT_WORKING)


def test_where_real_time_falls_behind_micro_batches_take_over_and_it_is_not_tried_again() -> None:
    behind = measured(REAL, arriving=40_000, age=12, backlog=400_000, shrinking=-5_000)
    decision = decide(promise(), behind, memory(), NOON, LIMITS)
    assert (decision.gear, decision.reason) == (NEAR, Reason.OVERLOAD)
    later = NOON + timedelta(minutes=10)
    stays = decide(promise(), measured(NEAR, arriving=40_000), decision.memory, later, LIMITS)
    assert (stays.gear, stays.reason) == (NEAR, Reason.OVERLOAD)
    assert decide(promise(2), measured(NEAR, arriving=30_000), decision.memory, later, LIMITS).gear is REAL


def test_slots_go_to_the_promise_that_needs_them() -> None:
    needs = decide(promise(1), measured(NEAR, slots_free=1), memory(), NOON, LIMITS)
    assert (needs.reason, needs.slots_lacking) == (Reason.NO_SLOTS, 3)
    wanted = wanted_of({"needs": needs.slots_lacking, "has": 0}, free=1)
    gives = decide(promise(60), measured(REAL, slots_wanted=wanted["has"]), memory(), NOON, LIMITS)
    assert (gives.gear, gives.reason) == (NEAR, Reason.SLOTS_GIVEN)
    keeps = decide(promise(1), measured(REAL, slots_wanted=wanted["has"]), memory(), NOON, LIMITS)
    assert keeps.gear is REAL


def test_a_persons_shift_wins_for_as_long_as_they_said() -> None:
    held = memory(hold=Hold(gear=NEAR, until=NOON + timedelta(hours=2)))
    busy = measured(NEAR, arriving=49_000, age=10, backlog=10**6)
    for minutes in (0, 60, 119):
        decision = decide(promise(1), busy, held, NOON + timedelta(minutes=minutes), LIMITS)
        assert (decision.gear, decision.reason) == (NEAR, Reason.HELD)
    assert decide(promise(1), busy, held, NOON + timedelta(hours=2), LIMITS).gear is REAL
    forever = memory(hold=Hold(gear=BATCH, until=None))
    assert decide(promise(1), busy, forever, NOON + timedelta(days=900), LIMITS).gear is BATCH


def test_a_timetable_shifts_by_the_clock_and_a_person_overrules_it() -> None:
    office = Timetable.parse({"mon-fri 09:00-17:30": "real-time", "otherwise": "near-real-time"})
    for known, expected in ((memory(), REAL), (memory(hold=Hold(gear=BATCH, until=None)), BATCH)):
        decision = decide_by_timetable(office, UTC, promise(), measured(NEAR), known, NOON, LIMITS)
        assert decision.gear is expected
    evening = decide_by_timetable(
        office, UTC, promise(), measured(REAL), memory(), NOON + timedelta(hours=6), LIMITS
    )
    assert (evening.gear, evening.reason) == (NEAR, Reason.TIMETABLE)
    assert "2026-01-06 09:00:00 UTC" in change(evening, UTC)


def test_it_waits_longer_after_each_shift_and_when_it_was_too_low() -> None:
    shifted = memory(shifts=(NOON - timedelta(minutes=3), NOON - timedelta(minutes=2)))
    assert not after(measured(REAL), 19.5, promise(60), shifted).is_shift
    assert after(measured(REAL), 20.5, promise(60), shifted).is_shift
    too_low = memory(late=60.0, late_at=NOON)
    decision = after(measured(REAL), 30, promise(60), too_low)
    assert (decision.gear, decision.reason) == (REAL, Reason.ALLOWANCE)
    assert after(measured(REAL), 9 * 60, promise(60), too_low).gear is NEAR  # it fades


def test_micro_batches_teach_how_long_they_take() -> None:
    known = memory()
    for batch in range(60):
        records = (10, 20_000, 60_000)[batch % 3]
        took = measured(NEAR, batch=batch, batch_seconds=1.0 + records / 20_000, batch_records=records)
        known = decide(promise(), took, known, NOON, LIMITS).memory
    assert abs(known.times.overhead - 1.0) < 0.1
    assert abs(known.times.capacity - 20_000) < 2_000


RATES = st.one_of(st.just(0.0), st.floats(0, 100), st.floats(0, 120_000))
STEPS = st.lists(
    st.tuples(
        st.floats(1, 1200),  # seconds until the next measurement
        st.booleans(),
        RATES,
        st.integers(0, 10**8),
        st.one_of(st.just(0.0), st.floats(0, 4000)),
        st.integers(-2, 12),
        st.integers(0, 8),
        st.floats(0.01, 30),
        st.integers(0, 10**6),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([1, 2, 5, 30, 600]),
    st.sampled_from([{NEAR}, {REAL}, {NEAR, REAL}]),
    st.booleans(),
    st.sampled_from([NEAR, REAL]),
    STEPS,
)
def test_whatever_is_measured_it_never_flaps_and_never_takes_what_it_cannot_have(
    freshness: float, gears: set[Gear], grouped: bool, gear: Gear, steps: list[Any]
) -> None:
    of = promise(freshness, gears=frozenset(gears), grouped=grouped)
    gear, now, known, shifts = (gear if gear in gears else next(iter(gears))), NOON, memory(), []
    for number, (wait, works, rate, backlog, age, free, wanted, took, records) in enumerate(steps):
        now += timedelta(seconds=wait)
        what = measured(
            gear,
            works=works,
            arriving=rate,
            backlog=backlog,
            age=age,
            slots_free=free,
            slots_wanted=wanted,
            batch=number if gear is NEAR else -1,
            batch_seconds=took,
            batch_records=records,
        )
        decision = decide(of, what, known, now, LIMITS)
        assert decision == decide(of, what, known, now, LIMITS)
        assert why(decision)
        assert change(decision, UTC)
        assert all(isinstance(value, int | float) for value in numbers(decision).values())
        assert decision.gear in gears
        if decision.is_shift:
            assert works
            assert not shifts or now - shifts[-1] >= LIMITS.rest
            shifts.append(now)
            assert sum(now - each < LIMITS.budget_time for each in shifts) <= LIMITS.budget
            if decision.gear is REAL:
                assert free >= of.slots
            else:  # one shift is left for going up
                assert sum(now - each < LIMITS.budget_time for each in shifts) < LIMITS.budget
        gear, known = decision.gear, decision.memory
