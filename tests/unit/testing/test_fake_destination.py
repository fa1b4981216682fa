"""The destination that fails on command."""

from __future__ import annotations

import pytest

from gearshift.errors import PermanentError, RetriableError
from gearshift.record import Destination, Record, Row
from gearshift.testing import FakeDestination


def row(value: object, offset: int) -> Row:
    return Row(value, Record(value=value, key=None, topic="t", partition=0, offset=offset, timestamp=None))


def test_it_is_a_destination_that_takes_a_row_once() -> None:
    destination = FakeDestination()
    assert isinstance(destination, Destination)
    for _ in range(2):
        destination.write([row("a", 0), row("b", 1)])
    assert (destination.values, destination.writes) == (["a", "b"], 2)


def test_failures_are_used_up_in_their_order() -> None:
    destination = FakeDestination()
    destination.fail()
    destination.fail_after_effect()
    destination.fail(permanent=True)
    with pytest.raises(RetriableError):
        destination.write([row("a", 0)])
    assert destination.values == []
    with pytest.raises(RetriableError):
        destination.write([row("a", 0)])
    assert destination.values == ["a"]
    with pytest.raises(PermanentError):
        destination.write([row("b", 1)])
    destination.write([row("c", 2)])
    assert (destination.values, destination.writes) == (["a", "c"], 4)
