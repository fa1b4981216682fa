"""The number of consumers, from lag and throughput."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gearshift.runner.deliveries.scaling import Scaling


class Load:
    """A simulated load: records arrive at one rate, and each consumer delivers at another."""

    def __init__(self, scaling: Scaling, *, arriving: float, each: float, lag: float = 0.0) -> None:
        self.scaling, self.arriving, self.each, self.lag = scaling, arriving, each, lag
        self.now = 0.0
        self.delivered = 0.0

    def run(self, seconds: int) -> list[int]:
        numbers: list[int] = []
        for _ in range(seconds):
            self.now += 1
            waiting = self.lag + self.arriving
            # No partition, no work: more consumers than partitions deliver nothing more.
            done = min(waiting, self.each * min(self.scaling.wanted, self.scaling.partitions))
            self.delivered += done
            self.lag = waiting - done
            numbers.append(self.scaling.decide(self.now, int(self.lag), int(self.delivered)))
        return numbers


def test_a_growing_lag_adds_consumers_until_they_keep_up() -> None:
    load = Load(Scaling(low=1, high=8, partitions=8), arriving=350, each=100)
    numbers = load.run(180)
    assert numbers[0] == 1
    assert max(numbers) >= 4
    assert all(later - earlier in (-1, 0, 1) for earlier, later in pairwise(numbers))


def test_idle_consumers_are_stopped() -> None:
    load = Load(Scaling(low=1, high=4, partitions=4), arriving=350, each=100)
    load.run(180)
    load.arriving = 1
    assert load.run(400)[-1] == 1


def test_there_are_never_more_consumers_than_partitions_and_the_advice_is_to_add_some() -> None:
    load = Load(Scaling(low=1, high=8, partitions=2), arriving=1000, each=100)
    assert max(load.run(200)) == 2
    assert "add partitions" in (load.scaling.advice or "")


def test_at_the_highest_number_the_advice_is_to_raise_it() -> None:
    load = Load(Scaling(low=1, high=2, partitions=8), arriving=1000, each=100)
    assert max(load.run(200)) == 2
    assert "raise consumers=(1, 2)" in (load.scaling.advice or "")


def test_a_delivery_without_backlog_is_not_scaled() -> None:
    load = Load(Scaling(low=2, high=4, partitions=4), arriving=10, each=100)
    assert set(load.run(200)) == {2}
    assert load.scaling.advice is None


@given(
    st.integers(1, 4),
    st.integers(0, 4),
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**4)), max_size=60),
)
def test_the_number_stays_within_its_bounds(
    low: int, more: int, partitions: int, measured: list[tuple[int, int]]
) -> None:
    scaling = Scaling(low=low, high=low + more, partitions=partitions)
    delivered = 0
    for second, (lag, by) in enumerate(measured):
        delivered += by
        wanted = scaling.decide(float(second), lag, delivered)
        assert low <= wanted <= max(low, min(low + more, partitions))
