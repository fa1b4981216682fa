"""The pipelines of a running app: checked, started, shifted and described."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from gearshift.console.console import Emit
from gearshift.errors import DefinitionError
from gearshift.freshness import Gear
from gearshift.gearbox.measurements import Limits
from gearshift.pipelines.check.gears import Checker, Report
from gearshift.pipelines.check.requirements import Requirements
from gearshift.pipelines.context import Context
from gearshift.pipelines.ledger.reconciliation import require_checkpoint
from gearshift.pipelines.listener import Progress
from gearshift.pipelines.scaling import Scaled
from gearshift.pipelines.shift import Shifted
from gearshift.pipelines.steps import Step
from gearshift.pipelines.supervisor import Supervisor
from gearshift.runner.describing import pipeline_details, pipeline_status
from gearshift.runner.gearbox.gearboxes import AUTO, Gearboxes, require_gears
from gearshift.runner.rates import Rates
from gearshift.runner.supervisors import close_supervisors, create_supervisors, open_supervisors
from gearshift.schemas import Registry
from gearshift.spark.private import release_thread
from gearshift.topics import DeadLetters

log = logging.getLogger(__name__)


class Pipelines:
    """The supervisors of an app with their gearboxes and rates; `problem` is what keeps Kafka from working."""

    def __init__(
        self,
        context: Context,
        registry: Registry,
        letters: DeadLetters,
        reports: Mapping[str, Report],
        limits: Limits,
        *,
        topics: Iterable[str],
        problem: Callable[[], str | None],
        at_exit: Callable[[Callable[[], None]], None],
    ) -> None:
        self.supervisors = create_supervisors(context, registry, letters, reports, at_exit=at_exit)
        self.rates = Rates(context, self.supervisors.values(), topics)
        self._context = context
        self._reports = reports
        self._problem = problem
        self._requirements = Requirements(context, Checker(context, reports), self.supervisors)
        self._require_gears()
        self._gearboxes = Gearboxes(
            self.supervisors,
            reports,
            self._requirements,
            limits,
            figures=self.rates.figures.get,
            problem=problem,
        )

    def open(self, *, progress: Callable[[str], None], at_exit: Callable[[Callable[[], None]], None]) -> None:
        """Start every pipeline in its gear."""
        chosen = self._gearboxes.choose_first()
        at_exit(self._gearboxes.close)
        for supervisor in self.supervisors.values():
            progress(f"starting {supervisor.pipeline.name} in {supervisor.gear}")
            if (difference := self._difference(supervisor)) is not None:
                log.warning("%s: %s", supervisor.pipeline.name, difference)
            at_exit(supervisor.close)
        open_supervisors(self.supervisors, chosen)

    def open_gearboxes(self) -> None:
        """Let the gearboxes decide from now on."""
        self._gearboxes.open()

    def close(self) -> None:
        """Stop the pipelines, before anything that they use."""
        self._gearboxes.stop()
        close_supervisors(self.supervisors.values())

    def named(self, name: str) -> Supervisor:
        """The supervisor of a pipeline."""
        if name not in self.supervisors:
            raise DefinitionError(
                f"unknown pipeline {name!r}",
                hint=f"use one of {', '.join(self.supervisors)}",
                app=self._context.graph.app,
            )
        return self.supervisors[name]

    def shift(self, name: str, gear: Gear, *, now: bool, hold: str | None, on_step: Step) -> Shifted:
        """Shift a pipeline to a gear; a gearbox keeps it there for as long as `hold` says, or until `release`."""
        return self._gearboxes.shift(self.named(name), gear, hold=hold, now=now, on_step=on_step)

    def shift_for(self, name: str, gear: str, now: bool, emit: Emit, hold: str | None) -> None:
        """Shift a pipeline, and emit each step and the result; "auto" lets its gearbox decide again."""
        try:
            if gear == AUTO:
                self.release(name)
                emit({"released": self.why(name)})
                return
            done = self.shift(
                name,
                Gear.named(gear),
                now=now,
                hold=hold,
                on_step=lambda step, message: emit({"step": step, "words": message}),
            )
        finally:
            release_thread()  # each request has its own thread
        emit({"shifted": asdict(done)})

    def scale(self, name: str, partitions: int, *, on_step: Step) -> Scaled:
        """Move a pipeline's state to another number of shuffle partitions."""
        return self._gearboxes.scale(self.named(name), partitions, on_step=on_step)

    def scale_for(self, name: str, partitions: int, emit: Emit) -> None:
        """Scale a pipeline, and emit each step and the result."""
        try:
            done = self.scale(
                name, partitions, on_step=lambda step, message: emit({"step": step, "words": message})
            )
        finally:
            release_thread()
        emit({"scaled": asdict(done)})

    def release(self, name: str) -> None:
        """Let the gearbox decide again, after a person's shift."""
        self._gearboxes.release(self.named(name))

    def why(self, name: str) -> dict[str, Any]:
        """Why a pipeline is in its gear, what would change it, and the numbers behind it."""
        return self._gearboxes.why(self.named(name))

    def run_interval(self, name: str, start: datetime) -> dict[str, Any]:
        """Run one interval of a pipeline next; returns which."""
        interval = self.named(name).run_interval(start)
        return {"pipeline": name, "start": interval.start.isoformat(), "end": interval.end.isoformat()}

    def status(self) -> list[dict[str, Any]]:
        """The status of each pipeline, as plain data."""
        return [self._status(supervisor) for supervisor in self.supervisors.values()]

    def details(self, name: str) -> dict[str, Any]:
        """A pipeline's status, gears, ledger, plan, state and latest batch, as plain data."""
        supervisor = self.named(name)
        try:
            details = pipeline_details(supervisor, self._reports[name])
        finally:
            release_thread()  # the plan is Spark's, and each request may have its own thread
        return {**details, "status": self._status(supervisor), "why": self.why(name)}

    def on_progress(self, progress: Progress) -> None:
        """Give Spark's report of a batch to its pipeline."""
        for supervisor in self.supervisors.values():
            if progress.query == self._context.query_name(supervisor.pipeline):
                supervisor.on_progress(progress)

    def _status(self, supervisor: Supervisor) -> dict[str, Any]:
        depends = supervisor.pipeline.topics and supervisor.condition.state != "stopped"
        return pipeline_status(
            supervisor,
            self.rates.figures.get(supervisor.pipeline.name),
            problem=self._problem() if depends else None,
            warning=self._context.publisher.problem(supervisor.pipeline.target.name)
            or self._difference(supervisor),
            held_until=self._gearboxes.held_until(supervisor),
            parallelism=supervisor.parallelism.number if self._has_state(supervisor) else None,
        )

    def _has_state(self, supervisor: Supervisor) -> bool:
        return bool(self._reports[supervisor.pipeline.name].state)

    def _difference(self, supervisor: Supervisor) -> str | None:
        """What to do if the declared parallelism is not the checkpoint's."""
        return supervisor.parallelism.warning if self._has_state(supervisor) else None

    def _require_gears(self) -> None:
        """Raise, before any pipeline starts, if one cannot run in its gear."""
        real_time: list[Report] = []
        for name, supervisor in self.supervisors.items():
            report = self._reports[name]
            require_gears(supervisor, report)
            require_checkpoint(supervisor.ledger)
            self._requirements.require_checkpoint(supervisor, supervisor.gear)
            if supervisor.gear is Gear.REAL_TIME and supervisor.pipeline.chosen_by is None:
                real_time.append(report)
        if real_time:
            self._requirements.require_slots(real_time)
