"""The age of the oldest unprocessed record follows from end offsets alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gearshift.runner.gearbox.arrivals import Arrivals

A, B = ("t", 0), ("t", 1)


def test_a_record_is_as_old_as_the_measurement_that_first_saw_it() -> None:
    arrivals = Arrivals()
    for second, end in ((0, 10), (1, 10), (2, 11), (3, 11), (9, 11)):
        arrivals.note(float(second), {A: end})
    assert arrivals.age(9.0, {A: 10}) == 7.0
    assert arrivals.age(9.0, {A: 11}) == 0.0
    assert arrivals.idle(9.0) == 7.0


def test_the_oldest_partition_counts() -> None:
    arrivals = Arrivals()
    arrivals.note(0.0, {A: 0, B: 0})
    arrivals.note(1.0, {A: 1, B: 0})
    arrivals.note(5.0, {A: 1, B: 1})
    assert arrivals.age(6.0, {A: 0, B: 0}) == 5.0
    assert arrivals.age(6.0, {A: 1, B: 0}) == 1.0


def test_what_was_there_before_the_first_measurement_is_at_least_that_old() -> None:
    arrivals = Arrivals()
    arrivals.note(3.0, {A: 100})
    assert arrivals.age(10.0, {A: 40}) == 7.0


def test_a_new_partition_begins_at_zero() -> None:
    arrivals = Arrivals()
    arrivals.note(0.0, {A: 5})
    arrivals.note(2.0, {A: 5, B: 1})
    assert arrivals.age(4.0, {A: 5}) == 2.0


def test_hours_of_an_outage_are_kept_in_bounded_memory() -> None:
    arrivals = Arrivals()
    for second in range(20_000):
        arrivals.note(float(second), {A: second * 10}, {A: 0})
    assert len(arrivals._seen) <= 2001
    assert 19_990 <= arrivals.age(20_000.0, {A: 0}) <= 20_000


@given(st.lists(st.tuples(st.floats(0.5, 3), st.integers(0, 50), st.floats(0, 1)), min_size=2, max_size=40))
def test_the_age_lies_between_the_measurements_around_the_arrival(
    steps: list[tuple[float, int, float]],
) -> None:
    arrivals, now, end, done = Arrivals(), 0.0, 0, 0
    history = [(now, end)]
    arrivals.note(now, {A: end}, {A: done})
    for wait, more, share in steps:
        now, end = now + wait, end + more
        done = max(done, round(end * share))
        arrivals.note(now, {A: end}, {A: done})
        history.append((now, end))
        age = arrivals.age(now, {A: done})
        if done >= end:
            assert age == 0.0
            continue
        later = next(at for at, seen in history if seen > done)
        earlier = max((at for at, seen in history if seen <= done), default=0.0)
        assert now - later - 1e-6 <= age <= now - earlier + 1e-6
