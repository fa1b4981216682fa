"""Items of different lanes run in parallel, items of one lane in order."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.delivery.dispatch import Lanes
from tests.support import eventually

Item = tuple[int, int]


@contextmanager
def opened(run: Callable[[Any, float], Any], threads: int) -> Iterator[Lanes[Any]]:
    failures: list[BaseException] = []
    lanes: Lanes[Any] = Lanes(run, threads, "test", failed=failures.append)
    lanes.open()
    try:
        yield lanes
    finally:
        lanes.close(10)
    assert not failures


def append_to(ran: list[str]) -> Callable[[BaseException], None]:
    return lambda error: ran.append(str(error))


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 4), max_size=40), max_size=5), st.integers(1, 6))
def test_items_of_a_lane_run_in_order_one_at_a_time(chunks: list[list[int]], threads: int) -> None:
    ran: dict[int, list[int]] = defaultdict(list)
    running: set[int] = set()
    together: list[int] = []

    def run(item: Item, _until: float) -> None:
        lane, number = item
        if lane in running:
            together.append(lane)
        running.add(lane)
        ran[lane].append(number)
        running.discard(lane)

    submitted: dict[int, list[int]] = defaultdict(list)
    with opened(run, threads) as lanes:
        number = 0
        for chunk in chunks:
            items: list[tuple[int, Item]] = []
            for lane in chunk:
                number += 1
                submitted[lane].append(number)
                items.append((lane, (lane, number)))
            lanes.submit(items)
        eventually(lambda: sum(map(len, ran.values())) == number, every=0.001)
    assert ran == submitted
    assert not together


def test_different_lanes_run_in_parallel() -> None:
    meeting = threading.Barrier(4, timeout=10)
    met: list[int] = []

    def run(item: int, _until: float) -> None:
        meeting.wait()
        met.append(item)

    with opened(run, 4) as lanes:
        lanes.submit((number, number) for number in range(4))
        eventually(lambda: sorted(met) == [0, 1, 2, 3])


def test_a_lane_with_many_items_delays_no_other_lane() -> None:
    gate = threading.Event()
    ran: list[str] = []

    def run(item: str, _until: float) -> None:
        if item == "hot":
            gate.wait(10)
        ran.append(item)

    with opened(run, 2) as lanes:
        lanes.submit([("hot", "hot")] * 50)
        lanes.submit([(number, "cold") for number in range(20)])
        eventually(lambda: ran.count("cold") == 20)
        assert "hot" not in ran
        gate.set()
        eventually(lambda: ran.count("hot") == 50)


def test_the_rest_of_an_item_waits_behind_other_lanes_and_stays_first_in_its_own() -> None:
    ran: list[str] = []

    def run(item: str, _until: float) -> str | None:
        ran.append(item)
        return "second half" if item == "first half" else None

    lanes: Lanes[str] = Lanes(run, 1, "test", failed=append_to(ran))
    lanes.submit([("long", "first half"), ("short", "other"), ("long", "next")])
    lanes.open()
    eventually(lambda: len(ran) == 4)
    lanes.close(10)
    assert ran == ["first half", "other", "second half", "next"]


def test_a_lane_continues_only_after_its_commit() -> None:
    """`after` runs between two turns of a lane, also when another thread runs the second."""
    events: list[str] = []

    def run(item: str, _until: float) -> None:
        events.append(item)

    lanes: Lanes[str] = Lanes(
        run, 3, "test", failed=append_to(events), after=lambda: events.append("committed")
    )
    lanes.open()
    lanes.submit([("lane", "a")])
    eventually(lambda: events == ["a", "committed"])
    lanes.submit([("lane", "b"), ("lane", "c")])
    eventually(lambda: events[2:] == ["b", "c", "committed"])
    lanes.close(10)


@pytest.mark.parametrize("where", ["item", "after"])
def test_after_a_failure_nothing_begins_in_its_lane_or_in_another(where: str) -> None:
    ran: list[str] = []
    released = threading.Event()

    def run(item: str, _until: float) -> None:
        ran.append(item)
        if item == "slow":
            released.wait(10)
        elif where == "item":
            raise ValueError("failed")

    def after() -> None:
        if where == "after" and not released.is_set():
            raise ValueError("failed")

    def failed(error: BaseException) -> None:
        ran.append(str(error))
        released.set()

    lanes: Lanes[str] = Lanes(run, 2, "test", failed=failed, after=after)
    lanes.submit([("other", "slow"), ("other", "later"), ("lane", "bad")])
    if where == "item":
        lanes.submit([("lane", "next")])
    lanes.open()
    eventually(lambda: "failed" in ran)
    lanes.submit([("third", "new")])
    lanes.close(10)
    assert sorted(ran) == ["bad", "failed", "slow"]
