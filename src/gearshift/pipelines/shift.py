"""Shifts a live pipeline from one gear to another on the same checkpoint.

check → boundary → stop → start → verify → done, or rollback. After a crash at any step `gearshift run` resumes: the
checkpoint is Spark's, and the ledger records every start before it happens.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from gearshift.errors import ShiftError
from gearshift.freshness import Gear
from gearshift.pipelines.check.requirements import Requirements
from gearshift.pipelines.steps import Step, quietly, start, stop
from gearshift.pipelines.supervisor import Supervisor


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
    on_step = quietly(on_step)
    on_step("check", f"can {pipeline.name} run in {gear}?")
    requirements.require(supervisor, gear)
    with supervisor.lock:
        before = supervisor.gear
        if gear is before and gear is not Gear.BATCH:
            on_step("done", f"{pipeline.name} already runs in {gear}")
            return Shifted(pipeline=pipeline.name, before=before, after=gear, waited=0, pause=0, replayed=0)
        asked = time.monotonic()
        stopped = stop(supervisor, on_step, now=now)
        try:
            words = f"shift from {before}" if why is None else f"gearbox: {why}"
            pause = start(supervisor, gear, words, stopped, on_step, numbers=numbers)
        except Exception as raised:  # a pipeline never stays between two gears
            error = supervisor.explain(raised)
            on_step("rollback", f"{gear} failed: {error}; going back to {before}")
            supervisor.halt(str(error))
            if before is Gear.BATCH:
                supervisor.await_calendar()  # no batch was requested
            else:
                start(supervisor, before, f"rollback: {error.what}", stopped, on_step)
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
