"""Async handlers share an event loop that stops with the consumer."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

import gearshift as gs
from gearshift.delivery.handling import Handler


@dataclass
class Number:
    n: int


def handler_of(handler: Any) -> Handler:
    app = gs.App("handlers")
    numbers = app.topic("numbers", value=Number)
    app.delivery(numbers)(handler)
    return Handler(app.graph.deliveries["handle"])


def test_async_calls_of_several_lanes_run_concurrently_and_leave_no_thread() -> None:
    meeting = asyncio.Barrier(3)

    async def handle(record: gs.Record[Number]) -> Any:
        await meeting.wait()
        return record

    before = threading.active_count()
    handler = handler_of(handle)
    with ThreadPoolExecutor(3) as lanes:
        assert sorted(lanes.map(handler.call, [1, 2, 3])) == [1, 2, 3]
    handler.close()
    assert threading.active_count() == before


def test_a_call_that_does_not_return_is_cancelled_with_the_loop() -> None:
    began = threading.Event()

    async def handle(record: gs.Record[Number]) -> Any:
        began.set()
        await asyncio.Event().wait()

    handler = handler_of(handle)
    with ThreadPoolExecutor(1) as lanes:
        call = lanes.submit(handler.call, 1)
        assert began.wait(10)
        handler.close()
        with pytest.raises(Exception) as raised:
            call.result(10)
    assert type(raised.value).__name__ == "CancelledError"
