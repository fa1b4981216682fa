"""The gearboxes of an app: one for each pipeline that does not have a fixed gear."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from gearshift.errors import DefinitionError
from gearshift.freshness import Freshness, Gear
from gearshift.gearbox.measurements import Hold, Limits
from gearshift.pipelines.check.automatic import gears_of
from gearshift.pipelines.check.gears import Report
from gearshift.pipelines.check.requirements import Requirements
from gearshift.pipelines.scaling import Scaled, scale
from gearshift.pipelines.shift import Shifted, shift
from gearshift.pipelines.steps import Step
from gearshift.pipelines.supervisor import Supervisor
from gearshift.runner.gearbox.gearbox import Gearbox, Slots
from gearshift.runner.rates import Figures

AUTO = "auto"
_WORKING = ("running", "waiting")


class Gearboxes:
    """Every gearbox of a runner, and the shifts of people, which they respect."""

    def __init__(
        self,
        supervisors: Mapping[str, Supervisor],
        reports: Mapping[str, Report],
        requirements: Requirements,
        limits: Limits,
        *,
        figures: Callable[[str], Figures | None],
        problem: Callable[[], str | None],
    ) -> None:
        self._supervisors = supervisors
        self._requirements = requirements
        slots = Slots(requirements)
        self._of: dict[str, Gearbox] = {}
        for name, supervisor in supervisors.items():
            if supervisor.pipeline.chosen_by is None:
                continue
            self._of[name] = Gearbox(
                supervisor,
                reports[name],
                requirements,
                limits,
                slots=slots,
                figures=lambda name=name: figures(name),
                works=lambda supervisor=supervisor: (
                    problem() is None and supervisor.condition.state in _WORKING
                ),
            )

    def choose_first(self) -> dict[str, tuple[str, Mapping[str, float]]]:
        """Choose the gears to start in, the tightest promise first; why, and on which numbers, by pipeline."""
        tightest = sorted(self._of.values(), key=lambda each: each.supervisor.pipeline.freshness.duration)
        return {each.supervisor.pipeline.name: each.choose_first() for each in tightest}

    def open(self) -> None:
        """Begin to decide."""
        for gearbox in self._of.values():
            gearbox.open()

    def stop(self) -> None:
        """Decide nothing more."""
        for gearbox in self._of.values():
            gearbox.stop()

    def close(self) -> None:
        """Stop, and wait for the threads."""
        self.stop()
        for gearbox in self._of.values():
            gearbox.close()

    def shift(
        self, supervisor: Supervisor, gear: Gear, *, hold: str | None, now: bool, on_step: Step
    ) -> Shifted:
        """A person's shift, which a gearbox respects for as long as they say."""
        gearbox = self._of.get(supervisor.pipeline.name)
        if gearbox is None:
            if hold is not None:
                self._refuse(supervisor, "--hold")
            return shift(supervisor, gear, self._requirements, now=now, on_step=on_step)
        until = datetime.now(UTC) + Freshness.parse(hold).duration if hold is not None else None
        with gearbox.holding(Hold(gear=gear, until=until)):
            return shift(supervisor, gear, self._requirements, now=now, on_step=on_step)

    def scale(self, supervisor: Supervisor, partitions: int, *, on_step: Step) -> Scaled:
        """Change the number of shuffle partitions, and what the gearboxes know of its slots."""
        try:
            return scale(supervisor, partitions, self._requirements, on_step=on_step)
        finally:
            self._requirements.recount(supervisor.pipeline)
            if (gearbox := self._of.get(supervisor.pipeline.name)) is not None:
                gearbox.count_slots()

    def release(self, supervisor: Supervisor) -> None:
        """Let the gearbox decide again."""
        gearbox = self._of.get(supervisor.pipeline.name)
        if gearbox is None:
            self._refuse(supervisor, AUTO)
        else:
            gearbox.release()

    def why(self, supervisor: Supervisor) -> dict[str, Any]:
        """Why a pipeline is in its gear, what would change it, and the numbers behind it."""
        pipeline, run = supervisor.pipeline, supervisor.ledger.last
        gearbox = self._of.get(pipeline.name)
        found: dict[str, Any] = {
            "pipeline": pipeline.name,
            "gear": str(supervisor.gear),
            "since": run.began.isoformat() if run is not None else None,
            "chosen_by": pipeline.chosen_by,
        }
        if gearbox is not None:
            return {**found, **gearbox.why()}
        is_declared = supervisor.gear is pipeline.gear
        why = f"its declaration says so ({pipeline.promise})" if is_declared else "a person shifted it"
        return {
            **found,
            "reason": "declared" if is_declared else "held",
            "why": why,
            "change": f"gearshift shift {pipeline.name} GEAR",
            "numbers": {},
        }

    def held_until(self, supervisor: Supervisor) -> str | None:
        """Until when a person has chosen the gear; "released" for no end, None if nobody has."""
        gearbox = self._of.get(supervisor.pipeline.name)
        hold = gearbox.hold if gearbox is not None else None
        if hold is None:
            return None
        return hold.until.isoformat() if hold.until is not None else "released"

    @staticmethod
    def _refuse(supervisor: Supervisor, what: str) -> None:
        pipeline = supervisor.pipeline
        raise DefinitionError(
            f"pipeline {pipeline.name} has a fixed gear, so {what} does not apply",
            hint="declare it with gear='auto' or gears={…}",
            pipeline=pipeline.name,
            file=pipeline.defined_at.file,
            line=pipeline.defined_at.line,
        )


def require_gears(supervisor: Supervisor, report: Report) -> None:
    """Raise if a pipeline supports none of its gears; otherwise begin in one that it does."""
    pipeline = supervisor.pipeline
    if pipeline.chosen_by is None:
        report.require(supervisor.gear)
        return
    gears = gears_of(report)
    if not report.verdicts[supervisor.gear].ok:
        supervisor.gear = min(gears, key=list(Gear).index)
