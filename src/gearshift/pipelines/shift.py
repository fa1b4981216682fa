"""The shift: one live pipeline from one gear to another, on one checkpoint.

check → boundary → stop → start → verify → done, or rollback. Every step leaves a state from which
`gearshift run` goes on: the checkpoint is Spark's, and the ledger says what ran before each start.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gearshift.errors import ShiftError
from gearshift.freshness import Gear
from gearshift.pipelines.checks import Checker
from gearshift.pipelines.driver import Driver

log = logging.getLogger(__name__)

_LONG = 5.0
"""Seconds; of a longer pause the ledger says what took them."""

Step = Callable[[str, str], None]
"""Called at each step of a shift with its name and what there is to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shifted:
    """What a shift did."""

    pipeline: str
    before: Gear
    after: Gear
    waited: float
    pause: float
    replayed: int


def shift(driver: Driver, gear: Gear, checker: Checker, *, now: bool = False, on_step: Step) -> Shifted:
    """Bring a running pipeline into a gear, or leave it in the one it has."""
    pipeline = driver.pipeline
    on_step = _quietly(on_step)
    on_step("check", f"can {pipeline.name} run in {gear}?")
    checker.require(driver, gear)
    with driver.lock:
        before = driver.gear
        if gear is before and gear is not Gear.BATCH:
            on_step("done", f"{pipeline.name} runs in {gear} already")
            return Shifted(pipeline=pipeline.name, before=before, after=gear, waited=0, pause=0, replayed=0)
        asked = time.monotonic()
        if not now and before is Gear.REAL_TIME:
            on_step("boundary", "ending the batch under way")
        with driver.ended_batch() if not now else nullcontext(True) as at_boundary:
            if not at_boundary:
                _wait_for_boundary(driver, on_step)
            stopped = time.monotonic()
            on_step("stop", f"stopping {before}")
            driver.halt()
        try:
            pause = _run(driver, gear, f"shift from {before}", stopped, on_step)
        except Exception as raised:  # whatever it was: a pipeline never stays between two gears
            error = driver.explain(raised)
            on_step("rollback", f"{gear} failed: {error}; going back to {before}")
            driver.halt(str(error))
            if before is Gear.BATCH:
                driver.await_calendar()  # nobody asked for a batch
            else:
                _run(driver, before, f"rollback: {error.what}", stopped, on_step)
            back = "batch waits for its next run" if before is Gear.BATCH else f"{before} runs"
            raise ShiftError(
                f"{gear} did not work, {back} again: {error.what}",
                hint=error.hint,
                pipeline=pipeline.name,
                file=error.file,
                line=error.line,
            ) from raised
        replayed = driver.books.count_replays()
    on_step("done", f"{pipeline.name} runs in {gear}")
    return Shifted(
        pipeline=pipeline.name,
        before=before,
        after=gear,
        waited=stopped - asked,
        pause=pause,
        replayed=replayed,
    )


def _quietly(on_step: Step) -> Step:
    """Who listens may go away; the shift does not stop for that."""

    def step(name: str, words: str) -> None:
        try:
            on_step(name, words)
        except Exception:
            log.warning("step %s of a shift was not reported", name, exc_info=True)

    return step


def _run(driver: Driver, gear: Gear, why: str, stopped: float, on_step: Step) -> float:
    free = time.monotonic()
    on_step("start", f"starting {gear}")
    stretch = driver.start(gear, why)
    started = time.monotonic()
    on_step("verify", "waiting for progress")
    working = driver.verify()
    pause = working - stopped
    took = (
        f"{free - stopped:.1f} s until what ran before had stopped, {started - free:.1f} s to start, "
        f"{working - started:.1f} s until it worked"
    )
    driver.books.mark(stretch, pause=pause, paused_for=took if pause >= _LONG else None, verified=True)
    return pause


def _wait_for_boundary(driver: Driver, on_step: Step) -> None:
    """Let the batch under way end: what it has written is then committed, and nothing is written twice."""
    query = driver.query
    if query is None or not query.isActive:
        return
    boundary = driver.boundary()
    wait = max(timedelta(0), boundary - datetime.now(UTC)) if boundary else timedelta(0)
    on_step(
        "boundary",
        f"the batch under way ends in {wait.total_seconds():.0f} s" if wait else "at the end of the batch",
    )
    run_id = str(query.runId)
    latest = driver.condition.progress
    last = latest.batch_id if latest is not None and latest.run_id == run_id else -1
    longest = wait + timedelta(seconds=60)
    if driver.gear is Gear.NEAR_REAL_TIME and not query.status["isTriggerActive"]:
        return
    driver.wait_for_progress(run_id, time.monotonic() + longest.total_seconds(), after=last)
