"""How many consumers, from the lag and the speed."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gearshift.delivery.scaling import Scaling


class Told:
    """Tells a Scaling every second how it goes: records come at one rate, and each consumer delivers at another."""

    def __init__(self, scaling: Scaling, *, comes: float, each: float, lag: float = 0.0) -> None:
        self.scaling, self.comes, self.each, self.lag = scaling, comes, each, lag
        self.now = 0.0
        self.delivered = 0.0

    def go_on(self, seconds: int) -> list[int]:
        numbers: list[int] = []
        for _ in range(seconds):
            self.now += 1
            waiting = self.lag + self.comes
            # No partition, no work: more consumers than partitions deliver nothing more.
            done = min(waiting, self.each * min(self.scaling.wanted, self.scaling.partitions))
            self.delivered += done
            self.lag = waiting - done
            numbers.append(self.scaling.decide(self.now, int(self.lag), int(self.delivered)))
        return numbers


def test_a_growing_lag_adds_consumers_until_they_keep_up() -> None:
    told = Told(Scaling(low=1, high=8, partitions=8), comes=350, each=100)
    numbers = told.go_on(180)
    assert numbers[0] == 1
    assert max(numbers) >= 4
    assert all(later - earlier in (-1, 0, 1) for earlier, later in pairwise(numbers))


def test_consumers_that_have_nothing_to_do_leave() -> None:
    told = Told(Scaling(low=1, high=4, partitions=4), comes=350, each=100)
    told.go_on(180)
    told.comes = 1
    assert told.go_on(400)[-1] == 1


def test_there_are_never_more_than_partitions_and_then_more_partitions_are_advised() -> None:
    told = Told(Scaling(low=1, high=8, partitions=2), comes=1000, each=100)
    assert max(told.go_on(200)) == 2
    assert "more partitions" in (told.scaling.advice or "")


def test_at_the_highest_number_the_advice_is_to_raise_it() -> None:
    told = Told(Scaling(low=1, high=2, partitions=8), comes=1000, each=100)
    assert max(told.go_on(200)) == 2
    assert "raise scale=(1, 2)" in (told.scaling.advice or "")


def test_a_quiet_delivery_stays_as_it_is() -> None:
    told = Told(Scaling(low=2, high=4, partitions=4), comes=10, each=100)
    assert set(told.go_on(200)) == {2}
    assert told.scaling.advice is None


@given(
    st.integers(1, 4),
    st.integers(0, 4),
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**4)), max_size=60),
)
def test_the_number_stays_within_its_bounds(
    low: int, more: int, partitions: int, told: list[tuple[int, int]]
) -> None:
    scaling = Scaling(low=low, high=low + more, partitions=partitions)
    delivered = 0
    for second, (lag, by) in enumerate(told):
        delivered += by
        wanted = scaling.decide(float(second), lag, delivered)
        assert low <= wanted <= max(low, min(low + more, partitions))
