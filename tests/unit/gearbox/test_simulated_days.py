"""Days of traffic in seconds: the promise is held, the cost falls, and no day makes the gearbox flap."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.freshness import Gear
from gearshift.gearbox.measurements import Limits, Promise
from gearshift.testing.gearbox.machine import GROUPED, STATELESS, Speed
from gearshift.testing.gearbox.simulator import Outcome, drive, stay
from gearshift.testing.gearbox.traffic import (
    HOUR,
    Day,
    Traffic,
    any_day,
    bursty_day,
    market_day,
    office_day,
    troubled_day,
)

NEAR, REAL = Gear.NEAR_REAL_TIME, Gear.REAL_TIME
LIMITS = Limits()


def promise(freshness: float, *, grouped: bool = False) -> Promise:
    trigger = min(max(freshness / 2, 1), 300)
    slots = 5 if grouped else 3
    return Promise(
        freshness=freshness, trigger=trigger, gears=frozenset({NEAR, REAL}), slots=slots, grouped=grouped
    )


def driven(day: Day, freshness: float, speed: Speed = STATELESS) -> Outcome:
    return drive(day, promise(freshness, grouped=speed is GROUPED), speed, LIMITS, every_second=False)


def test_a_quiet_night_costs_less_and_keeps_the_promise() -> None:
    day = office_day(10_000)
    outcome, real = driven(day, 10), stay(day, promise(10), STATELESS, REAL)
    assert outcome.held == real.held == 1.0
    assert outcome.processor < real.processor


def test_a_market_opening_is_met_in_real_time() -> None:
    outcome = driven(market_day(175_000), 2)
    assert [(round(second / HOUR, 1), gear) for second, gear, _ in outcome.shifts[:2]] == [
        (0.1, NEAR),
        (9.0, REAL),
    ]
    assert outcome.held > 0.999


def test_bursts_are_not_chased_when_each_one_breaks_the_promise() -> None:
    outcome = driven(bursty_day(70_000), 3)
    assert outcome.held > 0.999


def test_a_promise_that_only_real_time_keeps_stays_there_all_day() -> None:
    day = office_day(10_000)
    assert driven(day, 1).shifts == ()


def test_a_slow_creep_is_noticed() -> None:
    day = replace(office_day(5_000), slower=(8 * HOUR, 16 * HOUR, 6.0))
    outcome = drive(day, promise(10), STATELESS, LIMITS)
    assert outcome.held > 0.999
    assert any(gear is REAL for _, gear, _ in outcome.shifts)
    assert stay(day, promise(10), STATELESS, REAL).processor > outcome.processor


def test_an_outage_makes_no_shift_and_its_backlog_is_drained_with_less_output() -> None:
    day = troubled_day(20_000)
    outcome, real = driven(day, 2, GROUPED), stay(day, promise(2, grouped=True), GROUPED, REAL)
    assert not any(day.is_down(second) for second, _, _ in outcome.shifts)
    assert "backlog" in {reason for _, _, reason in outcome.shifts}
    assert outcome.emitted < real.emitted


@pytest.mark.parametrize("freshness", [1, 2, 3, 5, 10, 60])
def test_no_random_day_makes_it_flap(freshness: int) -> None:
    for seed in range(30):
        speed = GROUPED if seed % 2 else STATELESS
        outcome = driven(any_day(1000 * freshness + seed, 90_000), freshness, speed)
        assert outcome.flaps(LIMITS) == 0, outcome.shifts
        times = [second for second, _, _ in outcome.shifts]
        assert all(sum(0 <= later - first < HOUR for later in times) <= LIMITS.budget for first in times)
        assert all(left is not right for (_, left, _), (_, right, _) in pairwise(outcome.shifts))


@settings(max_examples=25, deadline=None)
@given(st.integers(10_000, 10_000_000), st.sampled_from([2, 5, 30]))
def test_looking_less_often_while_nothing_changes_makes_no_difference_in_kind(
    seed: int, freshness: int
) -> None:
    """The 10,000 days of the benchmark are simulated in longer steps."""
    day = replace(any_day(seed, 90_000), outages=())
    day = replace(
        day,
        traffic=Traffic([(0.0, day.traffic.rate_at(0)), (600.0, day.traffic.rate_at(7200))], end=2 * HOUR),
    )
    fine = drive(day, promise(freshness), STATELESS, LIMITS)
    coarse = drive(day, promise(freshness), STATELESS, LIMITS, every_second=False)
    assert [gear for _, gear, _ in fine.shifts] == [gear for _, gear, _ in coarse.shifts]
    assert abs(fine.held - coarse.held) < 0.01
