"""Scales a live pipeline: moves its state to another number of shuffle partitions on the same checkpoint.

check → boundary → stop → repartition → start → verify → done, or rollback. After a crash at any step `gearshift run`
goes on with the old number or the new one: Spark's commit of the batch that moves the state decides, and the ledger
records the scaling before it begins.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gearshift.errors import GearshiftError, ScaleError
from gearshift.freshness import Gear
from gearshift.pipelines.check.requirements import Requirements
from gearshift.pipelines.ledger.scalings import Scaling
from gearshift.pipelines.steps import Step, quietly, start, stop
from gearshift.pipelines.supervisor import Supervisor

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """The result of a scaling."""

    pipeline: str
    gear: Gear
    before: int
    after: int
    waited: float
    pause: float
    replayed: int


def scale(
    supervisor: Supervisor,
    partitions: int,
    requirements: Requirements,
    *,
    why: str = "requested",
    on_step: Step,
) -> Scaled:
    """Move a pipeline's state to a number of shuffle partitions; on failure it returns to the number it had."""
    name = supervisor.pipeline.name
    on_step = quietly(on_step)
    on_step("check", f"can {name} have {partitions} shuffle partitions?")
    requirements.require_parallelism(supervisor, partitions)
    with supervisor.lock:
        before, gear = supervisor.parallelism.number, supervisor.gear
        result = Scaled(
            pipeline=name, gear=gear, before=before, after=partitions, waited=0, pause=0, replayed=0
        )
        if partitions == before:
            on_step("done", f"{name} already has {before} shuffle partitions")
            return result
        asked = time.monotonic()
        stopped = stop(supervisor, on_step)
        scaling = Scaling(began=datetime.now(UTC), before=before, after=partitions, why=why)
        try:
            pause = _move(supervisor, scaling, stopped, on_step)
        except Exception as raised:  # the state is never left between two numbers
            raise _roll_back(supervisor, scaling, stopped, supervisor.explain(raised), on_step) from raised
        _end(supervisor, scaling, pause=pause)
        replayed = supervisor.recorder.count_replays()
    on_step("done", f"{name} has {partitions} shuffle partitions")
    return replace(result, waited=stopped - asked, pause=pause, replayed=replayed)


def _move(supervisor: Supervisor, scaling: Scaling, stopped: float, on_step: Step) -> float:
    supervisor.condition.show("scaling")
    if supervisor.ledger.checkpoint.has_planned():
        on_step("boundary", "finishing the batch that was planned")
        supervisor.finish_batch()
    supervisor.recorder.scale(scaling)
    words = f"from {scaling.before} to {scaling.after} shuffle partitions"
    on_step("repartition", f"moving the state {words}")
    supervisor.repartition(scaling.after)
    if supervisor.gear is Gear.BATCH:
        supervisor.await_calendar()
        return time.monotonic() - stopped
    return start(
        supervisor, supervisor.gear, f"scaled {words}", stopped, on_step, before="stop and move the state"
    )


def _roll_back(
    supervisor: Supervisor, scaling: Scaling, stopped: float, error: GearshiftError, on_step: Step
) -> ScaleError:
    """Return to the old number and run as before; returns what to raise."""
    on_step("rollback", f"it failed: {error}; going back to {scaling.before}")
    supervisor.halt(str(error))
    _move_back(supervisor, scaling)
    number = supervisor.parallelism.number
    result = f"{number} again" if number == scaling.before else f"the state stays in {number}"
    if supervisor.ledger.scaling is not None:
        _end(supervisor, scaling, error=f"{result}: {error.what}")
    if supervisor.gear is Gear.BATCH:
        supervisor.await_calendar()
    else:
        start(supervisor, supervisor.gear, f"rollback: {error.what}", stopped, on_step)
    return ScaleError(
        f"{scaling.after} shuffle partitions did not work, {result}: {error.what}",
        hint=error.hint,
        pipeline=supervisor.pipeline.name,
        file=error.file,
        line=error.line,
    )


def _move_back(supervisor: Supervisor, scaling: Scaling) -> None:
    """Move the state to the old number, unless it is there, or a batch is planned that only the new number can run."""
    if supervisor.parallelism.number == scaling.before or supervisor.ledger.checkpoint.has_planned():
        return
    try:
        supervisor.repartition(scaling.before)
    except Exception as error:
        log.warning("%s: %s", supervisor.pipeline.name, supervisor.explain(error))


def _end(
    supervisor: Supervisor, scaling: Scaling, *, pause: float | None = None, error: str | None = None
) -> None:
    ended = datetime.now(UTC)
    supervisor.recorder.scale(replace(scaling, ended=ended, pause=pause, error=error))
