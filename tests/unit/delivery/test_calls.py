"""Async handlers share a loop that ends with the consumer."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

import gearshift as gs
from gearshift.delivery.calls import Calls


@dataclass
class Number:
    n: int


def calls_of(handler: Any) -> Calls:
    app = gs.App("calls")
    numbers = app.topic("numbers", value=Number)
    app.delivery(numbers)(handler)
    return Calls(app.graph.deliveries["handle"])


def test_async_calls_of_several_lanes_run_at_once_and_leave_no_thread_behind() -> None:
    meeting = asyncio.Barrier(3)

    async def handle(record: gs.Record[Number]) -> Any:
        await meeting.wait()
        return record

    before = threading.active_count()
    calls = calls_of(handle)
    with ThreadPoolExecutor(3) as lanes:
        assert sorted(lanes.map(calls.handle, [1, 2, 3])) == [1, 2, 3]
    calls.close()
    assert threading.active_count() == before


def test_a_call_that_does_not_end_is_cancelled_with_the_loop() -> None:
    began = threading.Event()

    async def handle(record: gs.Record[Number]) -> Any:
        began.set()
        await asyncio.Event().wait()

    calls = calls_of(handle)
    with ThreadPoolExecutor(1) as lanes:
        call = lanes.submit(calls.handle, 1)
        assert began.wait(10)
        calls.close()
        with pytest.raises(Exception) as raised:
            call.result(10)
    assert type(raised.value).__name__ == "CancelledError"
