"""A seeded source sends the same sequence every time, with its declared disorder, duplicates and rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gearshift as gs
from gearshift.sources.simulator.disorder import disordered
from gearshift.sources.simulator.pace import wait_for_next
from gearshift.sources.simulator.source import sequence

shares = st.floats(0, 1)


@dataclass
class Reading:
    n: int


@given(st.integers(0, 300), st.integers(), shares, shares, st.integers(1, 40))
def test_every_value_comes_once_or_twice_and_within_its_reach(
    count: int, seed: int, out_of_order: float, duplicates: float, reach: int
) -> None:
    def run() -> list[int]:
        return list(
            disordered(
                range(count), Random(seed), out_of_order=out_of_order, duplicates=duplicates, reach=reach
            )
        )

    found = run()
    assert found == run()
    copies = Counter(found)
    assert set(copies) == set(range(count))
    assert set(copies.values()) <= {1, 2}
    highest = -1
    for value in found:
        highest = max(highest, value)
        assert highest - value <= reach
    if not out_of_order and not duplicates:
        assert found == list(range(count))


def test_the_shares_are_as_declared() -> None:
    found = list(disordered(range(20_000), Random(7), out_of_order=0.1, duplicates=0.05, reach=50))
    copies = Counter(found)
    assert sum(1 for count in copies.values() if count == 2) == pytest.approx(1_000, rel=0.15)
    first, highest, late = set[int](), -1, 0
    for value in found:
        late += value not in first and value < highest
        first.add(value)
        highest = max(highest, value)
    assert late == pytest.approx(2_000, rel=0.15)


def test_a_seed_decides_the_sequence_and_a_generator_may_draw_from_it() -> None:
    def declared(seed: int) -> gs.Source:
        app = gs.App("meters")
        topic = app.topic("readings", value=Reading)

        @app.source(to=topic, rate=100, seed=seed, out_of_order=0.2, duplicates=0.1, max_delay="1 second")
        def meters(chance: Random) -> Iterator[Reading]:
            while True:
                yield Reading(chance.randrange(1_000_000))

        return app.graph.sources["meters"]

    def beginning(seed: int) -> list[Reading]:
        return list(islice(sequence(declared(seed)), 500))

    assert beginning(7) == beginning(7)
    assert beginning(7) != beginning(8)
    rest = islice(sequence(declared(7)), 200, 500)
    assert list(rest) == beginning(7)[200:]


@given(
    st.lists(st.integers(0, 9), min_size=24, max_size=24).filter(any),
    st.floats(0, 86_399),
    st.sampled_from([1.0, 60.0, 300.0]),
)
def test_a_day_brings_as_many_records_as_its_mean_and_each_hour_its_share(
    weights: list[int], begin: float, factor: float
) -> None:
    rate = 0.01 * factor
    clock = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=begin)
    until = clock + timedelta(days=1)
    hours: Counter[int] = Counter()
    while clock < until:
        clock += timedelta(seconds=wait_for_next(rate, weights, clock, factor) * factor)
        hours[clock.hour] += 1
    assert sum(hours.values()) == pytest.approx(864, abs=2)
    for hour, weight in enumerate(weights):
        assert hours[hour] == pytest.approx(864 * weight / sum(weights), abs=3)


def test_a_day_can_be_a_function_of_the_hour() -> None:
    app = gs.App("meters")
    topic = app.topic("readings", value=Reading)

    @app.source(to=topic, rate=2, day=lambda hour: 3.0 if hour >= 12 else 1.0)
    def meters() -> Iterator[Reading]:
        yield Reading(1)

    day = app.graph.sources["meters"].day
    noon, night = (datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in (12, 3))
    assert wait_for_next(2, day, noon, 1.0) == pytest.approx(1 / 3)
    assert wait_for_next(2, day, night, 1.0) == pytest.approx(1)
