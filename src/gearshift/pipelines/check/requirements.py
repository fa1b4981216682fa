"""Whether a running pipeline can continue in another gear now: its plan, its checkpoint, the cluster and the task slots."""

from __future__ import annotations

from collections.abc import Mapping

from gearshift.definitions import Pipeline, Topic
from gearshift.errors import CheckpointFormatError, TooFewSlotsError
from gearshift.freshness import Gear
from gearshift.pipelines.check.continuity import command
from gearshift.pipelines.check.gears import Checker, Report
from gearshift.pipelines.context import Context
from gearshift.pipelines.ledger.ledger import SPARK
from gearshift.pipelines.supervisor import Supervisor
from gearshift.schemas import Registry
from gearshift.spark.session import slots_needed
from gearshift.spark.slots import await_slots, more_slots, total_slots


class Requirements:
    """What a gear requires of a running app, whose supervisors are given by pipeline name."""

    def __init__(self, context: Context, checker: Checker, supervisors: Mapping[str, Supervisor]) -> None:
        self._context = context
        self._checker = checker
        self._supervisors = supervisors
        self._counted: dict[str, int] = {}

    def require(self, supervisor: Supervisor, gear: Gear) -> None:
        """Raise if a running pipeline could not continue in a gear."""
        pipeline = supervisor.pipeline
        report = self._checker.report(pipeline)
        report.require(gear)
        self.require_checkpoint(supervisor, gear)
        supervisor.continuity.require()
        self._require_cluster(pipeline)
        if gear is Gear.REAL_TIME:
            others = [
                other.pipeline
                for other in self._supervisors.values()
                if other is not supervisor and other.gear is Gear.REAL_TIME
            ]
            # The plan of a running pipeline has not changed.
            running = [
                self._checker.reports.get(other.name) or self._checker.report(other) for other in others
            ]
            self.require_slots([report, *running])

    def require_checkpoint(self, supervisor: Supervisor, gear: Gear) -> None:
        """Raise if real-time cannot take the checkpoint over."""
        if gear is Gear.REAL_TIME and not supervisor.ledger.checkpoint.suits_every_gear():
            folder = self._context.folder_of(supervisor.pipeline)
            reset = command("reset", self._context, supervisor.pipeline)
            raise CheckpointFormatError(
                f"the checkpoint {folder}/{SPARK} has state format v1, which real-time cannot take over and nothing can convert",
                hint=f"stay in batch or near-real-time, or start over with {reset}",
                pipeline=supervisor.pipeline.name,
            )

    def require_slots(self, reports: list[Report]) -> None:
        """Raise if the real-time pipelines together hold more tasks than Spark has slots."""
        spark = self._context.spark
        needs = {report.pipeline.name: self._slots(report) for report in reports}
        needed = sum(needs.values())
        total = await_slots(spark, needed + 1)
        if needed > total - 1:
            shares = ", ".join(f"{name} {count}" for name, count in needs.items())
            raise TooFewSlotsError(
                f"real-time needs {needed} task slots ({shares}) and one to spare, but Spark has {total}",
                hint=f"{more_slots(spark.sparkContext.master or '', needed + 4)}, or run another pipeline in a lower gear",
                pipeline=reports[0].pipeline.name,
            )

    def _require_cluster(self, pipeline: Pipeline) -> None:
        """Raise if Kafka or the registry does not answer or a topic is missing."""
        topics = [
            *pipeline.topics.values(),
            *([pipeline.target] if isinstance(pipeline.target, Topic) else []),
        ]
        self._context.admin.require([topic.name for topic in topics])
        with Registry(self._context.connection) as registry:
            registry.ping()

    def free_slots(self, besides: Supervisor | None = None) -> int:
        """The task slots that no real-time pipeline holds, except one to spare; `besides` one that counts as stopped."""
        running = [
            each
            for each in self._supervisors.values()
            if each is not besides and each.gear is Gear.REAL_TIME and each.condition.state != "stopped"
        ]
        held = sum(self._known_slots(each.pipeline) for each in running)
        return total_slots(self._context.spark) - 1 - held

    def slots_of(self, report: Report) -> int:
        """The task slots that a pipeline holds in real-time."""
        return self._slots(report)

    def _known_slots(self, pipeline: Pipeline) -> int:
        """The slots of a pipeline, counted once: topics seldom get partitions."""
        if pipeline.name not in self._counted:
            report = self._checker.reports.get(pipeline.name) or self._checker.report(pipeline)
            self._counted[pipeline.name] = self._slots(report)
        return self._counted[pipeline.name]

    def _slots(self, report: Report) -> int:
        names = [topic.name for topic in report.pipeline.topics.values()]
        states = self._context.admin.require(names)
        return slots_needed((state.partitions for state in states.values()), shuffles=report.shuffles)
