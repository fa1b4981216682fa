"""Who was in the handler's hands when the process died."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gearshift.delivery.care import Care, Spot


def record(offset: int) -> Any:
    return SimpleNamespace(topic="t", partition=1, offset=offset)


def test_what_is_in_hand_is_told_before_the_handler_and_taken_back_after_it() -> None:
    told: list[list[Spot]] = []
    care = Care(told.append, {})

    def handle(_argument: Any) -> None:
        assert told[-1]
        if len(told) > 2:
            raise ValueError("a failure is no death")

    care.watched(handle)(record(5))
    with pytest.raises(ValueError, match="no death"):
        care.watched(handle)([record(6), record(7)])
    assert told == [[("t", 1, 5)], [], [("t", 1, 6), ("t", 1, 7)], []]


def test_only_the_record_that_killed_is_to_be_set_aside() -> None:
    care = Care(lambda _spots: None, {("t", 1, 5): 3})

    def polled(offset: int) -> Any:
        return SimpleNamespace(topic=lambda: "t", partition=lambda: 1, offset=lambda: offset)

    assert [care.deaths_of(polled(offset)) for offset in (4, 5, 6)] == [0, 3, 0]
