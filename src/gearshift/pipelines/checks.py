"""Which gears a pipeline can run in, found by planning it; and, for a shift, whether it can run there now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import DataFrame

from gearshift import tables
from gearshift.calendars import interval_at
from gearshift.definitions import Location, Pipeline, Table, Topic
from gearshift.errors import (
    CheckError,
    CheckpointFormatError,
    GearRefusedError,
    GearshiftError,
    TableError,
    TooFewSlotsError,
)
from gearshift.freshness import Gear
from gearshift.pipelines import engine as engines
from gearshift.pipelines import planning, reading
from gearshift.pipelines.continuity import command, require_code
from gearshift.pipelines.cutting import kind_of_time
from gearshift.pipelines.driver import Driver
from gearshift.pipelines.engine import Engine
from gearshift.pipelines.interval_runs import labelled
from gearshift.pipelines.ledger import SPARK
from gearshift.pipelines.publishing import check_publishing
from gearshift.pipelines.session import SHUFFLE_PARTITIONS, slots_needed, total_slots
from gearshift.pipelines.user_code import calling
from gearshift.pipelines.writing import check_columns
from gearshift.schemas import Registry, schema_text

# What a user wrote, and what to write instead, by the operator Spark plans for it.
_REWRITES = {
    "StreamingSymmetricHashJoin": (
        "a join of two streams",
        "write one side to a table and join with F.broadcast(table), or stay near-real-time",
    ),
    "SortMergeJoin": ("a join that shuffles both sides", "join with F.broadcast(table)"),
    "ShuffledHashJoin": ("a join that shuffles both sides", "join with F.broadcast(table)"),
    "ArrowEvalPython": ("a Python UDF", "write it with pyspark.sql.functions, which run in the JVM"),
    "BatchEvalPython": ("a Python UDF", "write it with pyspark.sql.functions, which run in the JVM"),
    "MapInPandas": ("mapInPandas", "write it with pyspark.sql.functions, which run in the JVM"),
    "PythonMapInArrow": ("mapInArrow", "write it with pyspark.sql.functions, which run in the JVM"),
    "SessionWindowStateStoreSave": ("a session window", "use F.window with a fixed length"),
    "SessionWindowStateStoreRestore": ("a session window", "use F.window with a fixed length"),
    "MergingSessions": ("a session window", "use F.window with a fixed length"),
    "UpdatingSessions": ("a session window", "use F.window with a fixed length"),
    "StreamingDeduplicateWithinWatermark": ("dropDuplicatesWithinWatermark", "use dropDuplicates"),
    "TransformWithStateInPySpark": ("transformWithState in Python", "use an aggregation or dropDuplicates"),
    "FlatMapGroupsInPandasWithState": ("applyInPandasWithState", "use an aggregation or dropDuplicates"),
    "RangeExchange": ("a repartition by range", "use repartition, which spreads by hash"),
    "StreamingGlobalLimit": ("a limit", "take it out: a stream has no end to stop at"),
    "Sort": ("a sort", "take it out: the order of a stream is that of its partitions"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a pipeline cannot run in a gear."""

    operator: str
    what: str
    rewrite: str
    at: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a pipeline can run in a gear."""

    gear: Gear
    refusals: tuple[Refusal, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What planning a pipeline told: each gear's verdict, and what real-time would hold."""

    pipeline: Pipeline
    verdicts: Mapping[Gear, Verdict]
    shuffles: int = 0
    state: tuple[str, ...] = ()
    """What it keeps from batch to batch."""

    @property
    def working(self) -> list[str]:
        """The gears that work."""
        return [str(gear) for gear, verdict in self.verdicts.items() if verdict.ok]

    def require(self, gear: Gear) -> None:
        """Raise if the pipeline cannot run in the gear."""
        verdict = self.verdicts[gear]
        if verdict.ok:
            return
        refused = verdict.refusals[0]
        others = f"; works in: {', '.join(self.working)}" if self.working else ""
        raise GearRefusedError(
            f"{gear} cannot run {refused.what} ({refused.operator})",
            hint=f"{refused.rewrite}{others}",
            pipeline=self.pipeline.name,
            file=refused.at.file,
            line=refused.at.line,
        )


class Checker:
    """Plans pipelines without starting them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._allowed = planning.real_time_operators(engine.spark)
        self._topics: dict[tuple[str, str, str | None], DataFrame] = {}
        self.reports: dict[str, Report] = {}
        """What planning told last of each pipeline."""
        self.drivers: Callable[[], Iterable[Driver]] = tuple[Driver, ...]

    def report(self, pipeline: Pipeline) -> Report:
        """Plan a pipeline; raises what the user's function raises."""
        report = self.reports[pipeline.name] = self._plan(pipeline)
        return report

    def _plan(self, pipeline: Pipeline) -> Report:
        spark = self._engine.spark
        frames = {name: self._frame(name, source) for name, source in pipeline.sources.items()}
        if pipeline.intervals is not None:
            for name, column in pipeline.intervals.by.items():
                kind_of_time(pipeline, name, column, _fields(frames[name]))
        with calling(pipeline):
            _, made = planning.trace(pipeline, {**frames, **engines.interval_argument(pipeline, None)})
        frame = self._applied(pipeline, frames)
        if any(topic.as_of for topic in pipeline.topics.values()):
            _check_latest(frames, frame, pipeline, made)
        if isinstance(pipeline.target, Topic):
            check_columns(frame.schema, pipeline, pipeline.target)
        elif pipeline.target.key:
            _check_upsert(frame, pipeline, pipeline.target)
        check_publishing(pipeline, self._engine.settings)
        if not pipeline.topics:
            static = _refused(
                pipeline, "table source", "a table as its only source", "read the topic that feeds it"
            )
            return Report(
                pipeline=pipeline,
                verdicts={
                    Gear.BATCH: Verdict(gear=Gear.BATCH),
                    Gear.NEAR_REAL_TIME: Verdict(gear=Gear.NEAR_REAL_TIME, refusals=(static,)),
                    Gear.REAL_TIME: Verdict(gear=Gear.REAL_TIME, refusals=(static,)),
                },
            )
        state = planning.state(frame)
        require_code(self._engine, pipeline, state)
        mode = planning.output_mode(spark, frame, pipeline)
        streaming = tuple(self._streaming_refusals(pipeline, frame, mode, made))
        real_time = streaming or tuple(self._real_time_refusals(pipeline, frame, mode, made))
        return Report(
            pipeline=pipeline,
            verdicts={
                Gear.BATCH: Verdict(gear=Gear.BATCH, refusals=streaming),
                Gear.NEAR_REAL_TIME: Verdict(gear=Gear.NEAR_REAL_TIME, refusals=streaming),
                Gear.REAL_TIME: Verdict(gear=Gear.REAL_TIME, refusals=real_time),
            },
            shuffles=planning.shuffles(spark, frame),
            state=state,
        )

    def require(self, driver: Driver, gear: Gear) -> None:
        """Raise if a running pipeline could not go on in a gear: its plan, its checkpoint, the cluster, the slots."""
        pipeline = driver.pipeline
        report = self.report(pipeline)
        report.require(gear)
        self.require_checkpoint(driver, gear)
        driver.continuity.require()
        self.require_cluster(pipeline)
        if gear is Gear.REAL_TIME:
            others = [
                other.pipeline
                for other in self.drivers()
                if other is not driver and other.gear is Gear.REAL_TIME
            ]
            # What runs is as it was planned.
            running = [self.reports.get(other.name) or self.report(other) for other in others]
            self.require_slots([report, *running])

    def require_cluster(self, pipeline: Pipeline) -> None:
        """Raise if Kafka or the registry does not answer or a topic is gone."""
        topics = [
            *pipeline.topics.values(),
            *([pipeline.target] if isinstance(pipeline.target, Topic) else []),
        ]
        self._engine.admin.require([topic.name for topic in topics])
        with Registry(self._engine.connection) as registry:
            registry.ping()

    def require_checkpoint(self, driver: Driver, gear: Gear) -> None:
        """Raise if real-time cannot take the checkpoint over."""
        if gear is Gear.REAL_TIME and not driver.books.ledger.checkpoint.is_born_for_every_gear():
            folder = self._engine.folder_of(driver.pipeline)
            raise CheckpointFormatError(
                f"the checkpoint {folder}/{SPARK} has state format v1, which real-time cannot take over and nothing can convert",
                hint=f"stay in batch or near-real-time, or start over with {command('reset', self._engine, driver.pipeline)}",
                pipeline=driver.pipeline.name,
            )

    def require_slots(self, reports: list[Report]) -> None:
        """Raise if the real-time pipelines together hold more tasks than Spark has slots."""
        total = total_slots(self._engine.spark)
        needs = {report.pipeline.name: self._slots(report) for report in reports}
        if sum(needs.values()) > total - 1:
            asked = reports[0].pipeline
            wanted = ", ".join(f"{name} {count}" for name, count in needs.items())
            raise TooFewSlotsError(
                f"real-time needs {sum(needs.values())} task slots ({wanted}) and one to spare, but Spark has {total}",
                hint=f"set spark_master to local[{sum(needs.values()) + 4}] or more, or run another pipeline in a lower gear",
                pipeline=asked.name,
            )

    def _slots(self, report: Report) -> int:
        names = [topic.name for topic in report.pipeline.topics.values()]
        states = self._engine.admin.require(names)
        held = slots_needed((state.partitions for state in states.values()), shuffles=False)
        return held + report.shuffles * SHUFFLE_PARTITIONS

    def _frame(self, name: str, source: Topic | Table) -> DataFrame:
        return self._topic(name, source) if isinstance(source, Topic) else self._table(source)

    def _topic(self, name: str, topic: Topic) -> DataFrame:
        """The topic's rows, made once: most of planning is to make them, and pipelines share their sources."""
        place = (name, topic.name, topic.as_of)
        if place not in self._topics:
            raw = reading.read_stream(self._engine.spark, self._engine.connection, topic, group="check")
            # Any id will do: the plan has the same operators for every version.
            versions = reading.Versions(writers={} if topic.envelope else {1: schema_text(topic)})
            self._topics[place] = reading.rows(raw, topic, versions, name=name, group="check")
        return self._topics[place]

    def _table(self, table: Table) -> DataFrame:
        """The table, or an empty one of the columns that the pipeline which feeds it will write."""
        uri = self._engine.table_uri(table)
        if tables.exists(uri):
            return tables.load(self._engine.spark, uri)
        feeding = [p for p in self._engine.graph.pipelines.values() if p.target == table]
        if not feeding:
            where = table.defined_at
            raise TableError(
                f"table {table.name} does not exist and no pipeline writes it",
                hint="declare a pipeline with it as the target",
                file=where.file,
                line=where.line,
            )
        frames = {name: self._frame(name, source) for name, source in feeding[0].sources.items()}
        schema = self._applied(feeding[0], frames).schema
        return self._engine.spark.createDataFrame([], schema)  # pyright: ignore[reportUnknownMemberType]

    def _applied(self, pipeline: Pipeline, frames: Mapping[str, DataFrame]) -> DataFrame:
        """The transform's result as its target takes it."""
        frame = engines.apply(pipeline, frames)
        if pipeline.intervals is None:
            return frame
        zone = ZoneInfo(self._engine.graph.timezone)
        return labelled(frame, pipeline, interval_at(pipeline.calendar, datetime.now(UTC), zone))

    def _streaming_refusals(
        self, pipeline: Pipeline, frame: DataFrame, mode: str, made: list[planning.Made]
    ) -> Iterable[Refusal]:
        spark = self._engine.spark
        words = planning.refusal(spark, frame, mode)
        if words is None:
            return
        at = planning.blame(made, lambda each: planning.refusal(spark, each, mode) is not None)
        into = (
            "a table without a key takes only final rows: give it the key that you group by, "
            "aggregate over F.window with a watermark, or write to a topic"
        )
        yield Refusal(
            operator=f"{mode} mode",
            what=words,
            rewrite=into
            if isinstance(pipeline.target, Table)
            else "see Spark's unsupported streaming operations",
            at=at or pipeline.defined_at,
        )

    def _real_time_refusals(
        self, pipeline: Pipeline, frame: DataFrame, mode: str, made: list[planning.Made]
    ) -> Iterable[Refusal]:
        spark = self._engine.spark
        if isinstance(pipeline.target, Table):
            rewrite = "write to a topic, and from it to the table in a near-real-time pipeline"
            yield _refused(pipeline, "table target", "a table as the target", rewrite)
            return
        refused = [name for name in planning.streaming_operators(spark, frame) if name not in self._allowed]
        # A sort beside something else is there for it: a session window and a merge join sort their input.
        refused = [name for name in refused if name != "Sort"] or refused
        told: set[str] = set()
        for operator in reversed(refused):  # the innermost operator is the one the user wrote first
            what, rewrite = _REWRITES.get(operator, (f"the operator {operator}", "stay near-real-time"))
            if what in told:
                continue
            told.add(what)

            def has(each: DataFrame, operator: str = operator) -> bool:
                return operator in planning.streaming_operators(spark, each)

            yield Refusal(
                operator=operator,
                what=what,
                rewrite=rewrite,
                at=planning.blame(made, has) or pipeline.defined_at,
            )
        if not refused and (words := planning.refusal(spark, frame, mode, real_time=True)) is not None:
            yield _refused(pipeline, "real-time mode", words, "stay near-real-time")


def _check_latest(
    frames: Mapping[str, DataFrame], frame: DataFrame, pipeline: Pipeline, made: list[planning.Made]
) -> None:
    """Refuse what would make rows as they are now out of date: each change passes by once, and alone."""
    refused = [("Aggregate", "an aggregation over rows as they are now would count every change of a row")]
    hints = ["keep them in a table with a key, and aggregate over that table in batch"]
    if isinstance(pipeline.target, Table):
        refused.append(("Filter", "a filter keeps a row in the table that no longer passes it"))
        hints.append("say it as a deletion: withColumn('_deleted', F.col('_deleted') | ~condition)")
    for (operator, what), hint in zip(refused, hints, strict=True):
        usual = sum(planning.count(each, operator) for each in frames.values())
        if planning.count(frame, operator) > usual:
            at = planning.blame(
                made, lambda each, name=operator, most=usual: planning.count(each, name) > most
            )
            where = at or pipeline.defined_at
            raise CheckError(what, hint=hint, pipeline=pipeline.name, file=where.file, line=where.line)


def _check_upsert(frame: DataFrame, pipeline: Pipeline, table: Table) -> None:
    """Refuse rows that a table with a key cannot take, before they come."""
    where = pipeline.defined_at
    try:
        tables.check_upsert(table, frame)
    except TableError as error:
        raise TableError(
            error.what, hint=error.hint, pipeline=pipeline.name, file=where.file, line=where.line
        ) from None


def _fields(frame: DataFrame) -> list[dict[str, Any]]:
    return [{"name": field.name, "type": field.dataType.typeName()} for field in frame.schema.fields]


def _refused(pipeline: Pipeline, operator: str, what: str, rewrite: str) -> Refusal:
    return Refusal(operator=operator, what=what, rewrite=rewrite, at=pipeline.defined_at)


def check_all(checker: Checker, pipelines: Iterable[Pipeline]) -> list[Report | GearshiftError]:
    """A report of every pipeline, or what is wrong with it."""
    found: list[Report | GearshiftError] = []
    for pipeline in pipelines:
        try:
            found.append(checker.report(pipeline))
        except GearshiftError as error:
            found.append(error)
    return found
