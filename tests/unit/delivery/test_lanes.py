"""Side by side, and in order within a lane."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.delivery.lanes import Lanes
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


def told_of(ran: list[str]) -> Callable[[BaseException], None]:
    return lambda error: ran.append(str(error))


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 4), max_size=40), max_size=5), st.integers(1, 6))
def test_items_of_a_lane_run_one_after_the_other_in_their_order(
    chunks: list[list[int]], threads: int
) -> None:
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


def test_different_lanes_run_at_once() -> None:
    meeting = threading.Barrier(4, timeout=10)
    met: list[int] = []

    def run(item: int, _until: float) -> None:
        meeting.wait()
        met.append(item)

    with opened(run, 4) as lanes:
        lanes.submit((number, number) for number in range(4))
        eventually(lambda: sorted(met) == [0, 1, 2, 3])


def test_a_lane_with_many_items_keeps_no_other_lane_waiting() -> None:
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


def test_what_is_left_of_an_item_waits_behind_other_lanes_and_keeps_its_place_in_its_own() -> None:
    ran: list[str] = []

    def run(item: str, _until: float) -> str | None:
        ran.append(item)
        return "second half" if item == "first half" else None

    lanes: Lanes[str] = Lanes(run, 1, "test", failed=told_of(ran))
    lanes.submit([("long", "first half"), ("short", "other"), ("long", "next")])
    lanes.open()
    eventually(lambda: len(ran) == 4)
    lanes.close(10)
    assert ran == ["first half", "other", "second half", "next"]


def test_a_lane_goes_on_only_after_what_follows_its_turn() -> None:
    """Between two turns of a lane comes what commits them, whichever thread has the second."""
    told: list[str] = []

    def run(item: str, _until: float) -> None:
        told.append(item)

    lanes: Lanes[str] = Lanes(run, 3, "test", failed=told_of(told), after=lambda: told.append("committed"))
    lanes.open()
    lanes.submit([("lane", "a")])
    eventually(lambda: told == ["a", "committed"])
    lanes.submit([("lane", "b"), ("lane", "c")])
    eventually(lambda: told[2:] == ["b", "c", "committed"])
    lanes.close(10)


@pytest.mark.parametrize("where", ["item", "after"])
def test_after_a_failure_nothing_begins_in_its_lane_or_in_another(where: str) -> None:
    ran: list[str] = []
    going_on = threading.Event()

    def run(item: str, _until: float) -> None:
        ran.append(item)
        if item == "slow":
            going_on.wait(10)
        elif where == "item":
            raise ValueError("failed")

    def after() -> None:
        if where == "after" and not going_on.is_set():
            raise ValueError("failed")

    def failed(error: BaseException) -> None:
        ran.append(str(error))
        going_on.set()

    lanes: Lanes[str] = Lanes(run, 2, "test", failed=failed, after=after)
    lanes.submit([("other", "slow"), ("other", "later"), ("lane", "bad")])
    if where == "item":
        lanes.submit([("lane", "next")])
    lanes.open()
    eventually(lambda: "failed" in ran)
    lanes.submit([("third", "new")])
    lanes.close(10)
    assert sorted(ran) == ["bad", "failed", "slow"]
