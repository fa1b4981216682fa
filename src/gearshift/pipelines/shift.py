"""Shifts a live pipeline from one gear to another on the same checkpoint.

check → boundary → stop → start → verify → done, or rollback. After a crash at any step `gearshift run` resumes: the
checkpoint is Spark's, and the ledger records every start before it happens.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gearshift.errors import ShiftError
from gearshift.freshness import Gear
from gearshift.pipelines.check.requirements import Requirements
from gearshift.pipelines.supervisor import Supervisor
from gearshift.pipelines.verification import verify

log = logging.getLogger(__name__)

_LONG = 5.0
"""Seconds; for a longer pause the ledger records what took the time."""

Step = Callable[[str, str], None]
"""Called at each step of a shift with its name and a description."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shifted:
    """The result of a shift."""

    pipeline: str
    before: Gear
    after: Gear
    waited: float
    pause: float
    replayed: int


def shift(
    supervisor: Supervisor,
    gear: Gear,
    requirements: Requirements,
    *,
    now: bool = False,
    why: str | None = None,
    numbers: Mapping[str, float] | None = None,
    on_step: Step,
) -> Shifted:
    """Shift a running pipeline to a gear; on failure it returns to the gear it had.

    `why` and `numbers` are the gearbox's reason and the measurements behind it, for the ledger.
    """
    pipeline = supervisor.pipeline
    on_step = _quietly(on_step)
    on_step("check", f"can {pipeline.name} run in {gear}?")
    requirements.require(supervisor, gear)
    with supervisor.lock:
        before = supervisor.gear
        if gear is before and gear is not Gear.BATCH:
            on_step("done", f"{pipeline.name} already runs in {gear}")
            return Shifted(pipeline=pipeline.name, before=before, after=gear, waited=0, pause=0, replayed=0)
        asked = time.monotonic()
        if not now and before is Gear.REAL_TIME:
            on_step("boundary", "ending the batch in progress")
        with supervisor.ended_batch() if not now else nullcontext(True) as at_boundary:
            if not at_boundary:
                _wait_for_boundary(supervisor, on_step)
            stopped = time.monotonic()
            on_step("stop", f"stopping {before}")
            supervisor.halt()
        try:
            words = f"shift from {before}" if why is None else f"gearbox: {why}"
            pause = _run(supervisor, gear, words, stopped, on_step, numbers)
        except Exception as raised:  # a pipeline never stays between two gears
            error = supervisor.explain(raised)
            on_step("rollback", f"{gear} failed: {error}; going back to {before}")
            supervisor.halt(str(error))
            if before is Gear.BATCH:
                supervisor.await_calendar()  # no batch was requested
            else:
                _run(supervisor, before, f"rollback: {error.what}", stopped, on_step)
            back = "batch waits for its next run" if before is Gear.BATCH else f"{before} runs"
            raise ShiftError(
                f"{gear} failed, {back} again: {error.what}",
                hint=error.hint,
                pipeline=pipeline.name,
                file=error.file,
                line=error.line,
            ) from raised
        replayed = supervisor.recorder.count_replays()
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
    """Report steps without failing: a client that disconnects does not stop the shift."""

    def step(name: str, words: str) -> None:
        try:
            on_step(name, words)
        except Exception:
            log.warning("step %s of a shift was not reported", name, exc_info=True)

    return step


def _run(
    supervisor: Supervisor,
    gear: Gear,
    why: str,
    stopped: float,
    on_step: Step,
    numbers: Mapping[str, float] | None = None,
) -> float:
    free = time.monotonic()
    on_step("start", f"starting {gear}")
    run = supervisor.start(gear, why, numbers)
    started = time.monotonic()
    on_step("verify", "waiting for progress")
    working = verify(supervisor)
    pause = working - stopped
    took = (
        f"{free - stopped:.1f} s to stop the previous gear, {started - free:.1f} s to start, "
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
