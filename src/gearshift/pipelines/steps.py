"""The steps that a shift and a scaling share: stop at a boundary, start again, wait until it works."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

from gearshift.freshness import Gear
from gearshift.pipelines.supervisor import Supervisor
from gearshift.pipelines.verification import verify

log = logging.getLogger(__name__)

_LONG = 5.0
"""Seconds; for a longer pause the ledger records what took the time."""

Step = Callable[[str, str], None]
"""Called at each step with its name and a description."""


def quietly(on_step: Step) -> Step:
    """Report steps without failing: a client that disconnects does not stop the work."""

    def step(name: str, words: str) -> None:
        try:
            on_step(name, words)
        except Exception:
            log.warning("step %s was not reported", name, exc_info=True)

    return step


def stop(supervisor: Supervisor, on_step: Step, *, now: bool = False) -> float:
    """Stop the query at the end of the batch in progress, or at once; returns when, on the monotonic clock."""
    if not now and supervisor.gear is Gear.REAL_TIME:
        on_step("boundary", "ending the batch in progress")
    with supervisor.ended_batch() if not now else nullcontext(True) as at_boundary:
        if not at_boundary:
            _wait_for_boundary(supervisor, on_step)
        stopped = time.monotonic()
        on_step("stop", f"stopping {supervisor.gear}")
        supervisor.halt()
    return stopped


def start(
    supervisor: Supervisor,
    gear: Gear,
    why: str,
    stopped: float,
    on_step: Step,
    *,
    numbers: Mapping[str, float] | None = None,
    before: str = "stop the previous gear",
) -> float:
    """Start the query in a gear and wait until it works; returns the pause since it was stopped, in seconds."""
    free = time.monotonic()
    on_step("start", f"starting {gear}")
    run = supervisor.start(gear, why, numbers)
    started = time.monotonic()
    on_step("verify", "waiting for progress")
    working = verify(supervisor)
    pause = working - stopped
    took = (
        f"{free - stopped:.1f} s to {before}, {started - free:.1f} s to start, "
        f"{working - started:.1f} s until it worked"
    )
    supervisor.recorder.mark(run, pause=pause, paused_for=took if pause >= _LONG else None, verified=True)
    return pause


def _wait_for_boundary(supervisor: Supervisor, on_step: Step) -> None:
    """Wait for the batch in progress to commit, so that nothing is written twice."""
    query = supervisor.query
    if query is None or not query.isActive:
        return
    boundary = supervisor.boundary()
    wait = max(timedelta(0), boundary - datetime.now(UTC)) if boundary else timedelta(0)
    on_step(
        "boundary",
        f"the batch in progress ends in {wait.total_seconds():.0f} s" if wait else "at the end of the batch",
    )
    longest = wait + timedelta(seconds=60)
    if supervisor.gear is Gear.NEAR_REAL_TIME and not query.status["isTriggerActive"]:
        return
    supervisor.condition.wait_for_batch(query, time.monotonic() + longest.total_seconds())
