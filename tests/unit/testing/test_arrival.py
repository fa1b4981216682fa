"""The order of arrival: what is late, repeated and out of order, and what never happens."""

from __future__ import annotations

import doctest
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.errors import DefinitionError
from gearshift.testing.arrival import Arrival, event_times, halves

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
Event = tuple[int, datetime]

events = st.lists(st.integers(0, 7200), max_size=200).map(
    lambda seconds: [
        (number, NOON + timedelta(seconds=second)) for number, second in enumerate(sorted(seconds))
    ]
)
shares = st.floats(0, 1)


def time_of(event: Event) -> datetime:
    return event[1]


@given(events, shares, shares, st.integers(1, 600), st.integers())
def test_every_value_arrives_and_only_repeated_ones_twice(
    values: list[Event], late: float, repeated: float, minutes: int, seed: int
) -> None:
    arrival = Arrival(late=late, repeated=repeated, disorder=timedelta(minutes=minutes), seed=seed)
    arrived = Counter(arrival.order(values, time_of))
    assert set(arrived) == set(values)
    assert Counter(arrived.values())[2] == round(repeated * len(values))
    assert set(arrived.values()) <= {1, 2}


@given(events, shares, shares, st.integers(1, 600), st.integers())
def test_no_value_is_later_than_a_watermark_of_the_disorder_allows(
    values: list[Event], late: float, repeated: float, minutes: int, seed: int
) -> None:
    disorder = timedelta(minutes=minutes)
    arrival = Arrival(late=late, repeated=repeated, disorder=disorder, seed=seed)
    newest = NOON
    for _, at in arrival.order(values, time_of):
        assert newest - at < disorder
        newest = max(newest, at)


@given(events, shares, st.integers())
def test_without_disorder_first_arrivals_keep_their_order(
    values: list[Event], repeated: float, seed: int
) -> None:
    arrived = Arrival(repeated=repeated, seed=seed).order(values)
    assert list(dict.fromkeys(arrived)) == values


@given(events, shares, st.integers())
def test_a_seed_gives_the_same_order_again(values: list[Event], late: float, seed: int) -> None:
    arrival = Arrival(late=late, repeated=0.1, disorder=timedelta(hours=1), seed=seed)
    assert arrival.order(values, time_of) == arrival.order(values, time_of)


def test_late_values_are_delayed_by_more_than_half_of_the_disorder() -> None:
    values = [(n, NOON + timedelta(minutes=n)) for n in range(200)]
    arrived = Arrival(late=0.1, disorder=timedelta(minutes=20)).order(values, time_of)
    overtaken = sum(
        max((at for _, at in arrived[:place]), default=NOON) - event[1] >= timedelta(minutes=9)
        for place, event in enumerate(arrived)
    )
    assert overtaken >= 15


@given(st.lists(st.integers()))
def test_halves_are_all_values_in_order(values: list[int]) -> None:
    first, second = halves(values)
    assert [*first, *second] == values
    assert 0 <= len(first) - len(second) <= 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"late": 1.5}, "late is 1.5"),
        ({"repeated": -0.1}, "repeated is -0.1"),
        ({"disorder": timedelta(0)}, "positive timedelta"),
        ({"late": 0.1}, "not by how much"),
    ],
)
def test_impossible_arrivals_are_refused(arguments: dict[str, float], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        Arrival(**arguments)  # type: ignore[arg-type]


@dataclass
class Ride:
    name: str
    began: datetime
    ended: datetime | None


@dataclass
class Ping:
    name: str
    at: datetime


def test_the_only_time_of_a_value_needs_no_name() -> None:
    assert event_times(Ping, None, "pings")(Ping("a", NOON)) == NOON
    assert event_times(Ride, "ended", "rides")(Ride("a", NOON, NOON)) == NOON


@pytest.mark.parametrize("module", ["arrival", "clock", "destination", "namespace", "results"])
def test_the_examples_in_docstrings_are_true(module: str) -> None:
    failed, tried = doctest.testmod(import_module(f"gearshift.testing.{module}"))
    assert (failed, tried > 0) == (0, True)


def test_an_ambiguous_or_unknown_time_is_refused() -> None:
    with pytest.raises(DefinitionError, match="began, ended"):
        event_times(Ride, None, "rides")
    with pytest.raises(DefinitionError, match="no field at"):
        event_times(Ride, "at", "rides")
    with pytest.raises(DefinitionError, match="has no ended"):
        event_times(Ride, "ended", "rides")(Ride("a", NOON, None))
