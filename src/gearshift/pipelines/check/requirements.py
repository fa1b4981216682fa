"""Whether a running pipeline can continue in another gear now: its plan, its checkpoint, the cluster and the task slots."""

from __future__ import annotations

from collections.abc import Mapping

from gearshift.definitions import Pipeline, Topic
from gearshift.errors import CheckError, CheckpointFormatError, DefinitionError, TooFewSlotsError
from gearshift.freshness import Gear
from gearshift.pipelines.check.continuity import command
from gearshift.pipelines.check.gears import Checker, Report
from gearshift.pipelines.context import Context
from gearshift.pipelines.ledger.ledger import SPARK
from gearshift.pipelines.supervisor import Supervisor
from gearshift.rules.pipelines import MOST_PARTITIONS, is_parallelism
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
            self.require_slots([report, *self._running_besides(supervisor)])

    def require_parallelism(self, supervisor: Supervisor, partitions: int) -> None:
        """Raise if the state of a running pipeline cannot be moved to this number of shuffle partitions."""
        pipeline = supervisor.pipeline
        if not is_parallelism(partitions):
            raise DefinitionError(
                f"pipeline {pipeline.name} cannot have {partitions} shuffle partitions",
                hint=f"use a whole number from 1 to {MOST_PARTITIONS}",
            )
        report = self._checker.report(pipeline)
        if not report.state:
            topics = ", ".join(topic.name for topic in pipeline.topics.values())
            raise CheckError(
                f"{pipeline.name} keeps no state, so there is nothing to scale: "
                + ("its tasks are the partitions of its topics" if topics else "it reads tables alone"),
                hint=f"add partitions to {topics}: a running pipeline reads them from the next batch on"
                if topics
                else 'set "spark.sql.shuffle.partitions" in [spark]',
                pipeline=pipeline.name,
            )
        if (fixed := in_one_partition(report.state)) is not None:
            raise CheckError(
                f"{pipeline.name} keeps the state of {fixed}, which is in one partition and cannot be moved",
                hint="group by a key: each key's state is in one of the shuffle partitions",
                pipeline=pipeline.name,
            )
        supervisor.continuity.require()
        self._require_cluster(pipeline)
        checkpoint = supervisor.ledger.checkpoint
        if not checkpoint.committed():
            raise CheckError(
                f"{pipeline.name} has committed no batch yet, so there is no state to move",
                hint=f"retry after its first batch, or declare it with parallelism={partitions}",
                pipeline=pipeline.name,
            )
        if not checkpoint.suits_every_gear():
            raise self._wrong_format(supervisor, "which cannot be moved to other partitions safely")
        if supervisor.gear is Gear.REAL_TIME:
            self.require_slots(
                [report, *self._running_besides(supervisor)], parallelism={pipeline.name: partitions}
            )

    def _running_besides(self, supervisor: Supervisor) -> list[Report]:
        """The reports of the other pipelines that run in real-time."""
        others = [
            other.pipeline
            for other in self._supervisors.values()
            if other is not supervisor and other.gear is Gear.REAL_TIME
        ]
        # The plan of a running pipeline has not changed.
        return [self._checker.reports.get(other.name) or self._checker.report(other) for other in others]

    def require_checkpoint(self, supervisor: Supervisor, gear: Gear) -> None:
        """Raise if real-time cannot take the checkpoint over."""
        if gear is Gear.REAL_TIME and not supervisor.ledger.checkpoint.suits_every_gear():
            raise self._wrong_format(supervisor, "which real-time cannot take over and nothing can convert")

    def _wrong_format(self, supervisor: Supervisor, what: str) -> CheckpointFormatError:
        folder = self._context.folder_of(supervisor.pipeline)
        reset = command("reset", self._context, supervisor.pipeline)
        return CheckpointFormatError(
            f"the checkpoint {folder}/{SPARK} has state format v1, {what}",
            hint=f"stay in batch or near-real-time, or start over with {reset}",
            pipeline=supervisor.pipeline.name,
        )

    def require_slots(self, reports: list[Report], *, parallelism: Mapping[str, int] | None = None) -> None:
        """Raise if the real-time pipelines together hold more tasks than Spark has slots.

        `parallelism` has the shuffle partitions of pipelines that are to have another number than now.
        """
        spark = self._context.spark
        wanted = parallelism or {}
        needs = {
            report.pipeline.name: self._slots(report, wanted.get(report.pipeline.name)) for report in reports
        }
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

    def recount(self, pipeline: Pipeline) -> None:
        """Count the slots of a pipeline again when they are next asked for: it was scaled."""
        self._counted.pop(pipeline.name, None)

    def _known_slots(self, pipeline: Pipeline) -> int:
        """The slots of a pipeline, counted once: topics seldom get partitions."""
        if pipeline.name not in self._counted:
            report = self._checker.reports.get(pipeline.name) or self._checker.report(pipeline)
            self._counted[pipeline.name] = self._slots(report)
        return self._counted[pipeline.name]

    def _slots(self, report: Report, parallelism: int | None = None) -> int:
        number = parallelism or self._supervisors[report.pipeline.name].parallelism.number
        names = [topic.name for topic in report.pipeline.topics.values()]
        states = self._context.admin.require(names)
        partitions = (state.partitions for state in states.values())
        return slots_needed(partitions, shuffles=report.shuffles, parallelism=number)


def in_one_partition(state: tuple[str, ...]) -> str | None:
    """The operator whose state Spark keeps in one partition, whatever their number; its repartition fails on it.

    >>> in_one_partition(("groupBy(key string): count(1) bigint",)), in_one_partition(("groupBy(): count(1) bigint",))
    (None, 'an aggregation without a key')
    """
    if any(each.startswith("groupBy():") for each in state):
        return "an aggregation without a key"
    return "a limit" if "GlobalLimit" in state else None
