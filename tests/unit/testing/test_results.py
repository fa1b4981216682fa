"""The one assertion for all gears, and what its failure says."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gearshift.errors import DefinitionError
from gearshift.freshness import Gear
from gearshift.testing import Results


@dataclass
class Count:
    key: str
    n: int


def results(batch: list[object], live: list[object]) -> Results:
    return Results(
        {Gear.BATCH: batch, Gear.REAL_TIME: live},
        key=("key",),
        dead_letters={Gear.BATCH: [], Gear.REAL_TIME: ["magic byte", "magic byte"]},
    )


def test_the_last_value_of_a_key_counts() -> None:
    found = results([Count("a", 2)], [Count("a", 1), Count("a", 2)])
    found.assert_each([Count("a", 2)])
    assert found.last("real-time") == {"a": Count("a", 2)}
    assert len(found["real-time"]) == 2
    assert found.gears == (Gear.BATCH, Gear.REAL_TIME)


def test_a_failure_names_the_gear_the_key_both_values_and_the_dead_letters() -> None:
    found = results([Count("a", 2)], [Count("a", 1), Count("b", 9)])
    with pytest.raises(AssertionError) as raised:
        found.assert_each([Count("a", 2), Count("c", 3)])
    words = str(raised.value)
    assert "batch: 1 of 2 keys differ" in words
    assert "real-time: 3 of 2 keys differ" in words
    assert "'c' is missing: Count(key='c', n=3)" in words
    assert "'b' is not expected" in words
    assert "'a' is Count(key='a', n=1)" in words
    assert "2 dead letters: magic byte" in words


def test_a_dict_is_compared_by_the_fields_that_it_names() -> None:
    found = Results({Gear.BATCH: [{"key": "a", "n": 0.1 + 0.2, "more": 1}]}, key=("key",))
    found.assert_each([{"key": "a", "n": pytest.approx(0.3)}])
    with pytest.raises(AssertionError):
        found.assert_each([{"key": "a", "less": 1}])


def test_a_row_of_a_table_can_be_expected_as_a_value() -> None:
    Results({Gear.BATCH: [{"key": "a", "n": 1}]}, key=("key",)).assert_each([Count("a", 1)])


def test_a_key_is_given_as_names_or_as_a_function() -> None:
    found = Results({Gear.BATCH: [Count("a", 1), Count("a", 2)]})
    found.assert_each([Count("a", 1), Count("a", 2)], key=("key", "n"))
    found.assert_each([Count("a", 2), Count("a", 1)], key=lambda count: count.n)
    with pytest.raises(DefinitionError, match="no key"):
        found.assert_each([])
    with pytest.raises(DefinitionError, match="two expected values have the key 'a'"):
        found.assert_each([Count("a", 1), Count("a", 2)], key="key")


def test_a_gear_that_did_not_run_says_which_did() -> None:
    with pytest.raises(KeyError, match="near-real-time did not run; batch, real-time did"):
        results([], [])["near-real-time"]
