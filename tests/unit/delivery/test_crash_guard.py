"""Which records were being handled when the process crashed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gearshift.delivery.assignment import RecordId
from gearshift.delivery.crash_guard import CrashGuard


def record(offset: int) -> Any:
    return SimpleNamespace(topic="t", partition=1, offset=offset)


def test_a_record_is_reported_before_its_handler_and_cleared_after_it() -> None:
    reported: list[list[RecordId]] = []
    guard = CrashGuard(reported.append, {})

    def handle(_argument: Any) -> None:
        assert reported[-1]
        if len(reported) > 2:
            raise ValueError("not a crash")

    guard.guard(handle)(record(5))
    with pytest.raises(ValueError, match="not a crash"):
        guard.guard(handle)([record(6), record(7)])
    assert reported == [[("t", 1, 5)], [], [("t", 1, 6), ("t", 1, 7)], []]


def test_only_the_record_that_crashed_the_process_is_set_aside() -> None:
    guard = CrashGuard(lambda _records: None, {("t", 1, 5): 3})

    def polled(offset: int) -> Any:
        return SimpleNamespace(topic=lambda: "t", partition=lambda: 1, offset=lambda: offset)

    assert [guard.crashes_of(polled(offset)) for offset in (4, 5, 6)] == [0, 3, 0]
