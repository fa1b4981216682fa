"""Which gears a pipeline can run in, found by planning it with Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import DataFrame, SparkSession

from gearshift import tables
from gearshift.calendars import interval_at
from gearshift.definitions import Location, Pipeline, Table, Topic
from gearshift.errors import (
    CheckError,
    GearRefusedError,
    GearshiftError,
    TableError,
)
from gearshift.freshness import Gear
from gearshift.pipelines.check.continuity import require_code
from gearshift.pipelines.context import Context
from gearshift.pipelines.failures import calling
from gearshift.pipelines.intervals.bounds import kind_of_time
from gearshift.pipelines.intervals.run import labelled
from gearshift.pipelines.query import apply, interval_argument, require_frame
from gearshift.pipelines.records import reading
from gearshift.pipelines.records.writing import check_columns
from gearshift.schemas import schema_text
from gearshift.spark import planning
from gearshift.spark.hive.publishing import check_publishing

# By Spark's operator: the user's code that it stands for, and what to write instead.
_REWRITES = {
    "StreamingSymmetricHashJoin": (
        "a join of two streams",
        "write one side to a table and join with F.broadcast(table), which is reloaded every refresh=, "
        "or stay near-real-time",
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
    "RangeExchange": ("a repartition by range", "use repartition, which partitions by hash"),
    "StreamingGlobalLimit": ("a limit", "remove it: a stream does not end"),
    "Sort": ("a sort", "remove it: a stream has the order of its partitions"),
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
        """Whether there is no refusal."""
        return not self.refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of planning a pipeline: a verdict per gear, and its shuffles and state."""

    pipeline: Pipeline
    verdicts: Mapping[Gear, Verdict]
    shuffles: int = 0
    state: tuple[str, ...] = ()
    """The state it keeps between batches."""
    frame: DataFrame | None = field(default=None, repr=False)
    """The stream that was planned; None for a pipeline over tables alone."""

    def plan(self) -> str | None:
        """Spark's plan as text."""
        return None if self.frame is None else planning.plan(self.frame)

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

    def __init__(self, context: Context, reports: Mapping[str, Report] | None = None) -> None:
        self.reports = dict(reports or {})
        """The latest report of each pipeline."""
        self._context = context
        self._allowed = planning.real_time_operators(context.spark)
        self._topics: dict[tuple[str, str, str | None], DataFrame] = {}

    def report(self, pipeline: Pipeline) -> Report:
        """Plan a pipeline; raises if the user's function does."""
        report = self.reports[pipeline.name] = self._plan(pipeline)
        return report

    def _plan(self, pipeline: Pipeline) -> Report:
        spark = self._context.spark
        frames = {name: self._frame(name, source) for name, source in pipeline.sources.items()}
        if pipeline.intervals is not None:
            for name, column in pipeline.intervals.event_time.items():
                kind_of_time(pipeline, name, column, _fields(frames[name]))
        with calling(pipeline):
            result, made = planning.trace(pipeline, {**frames, **interval_argument(pipeline, None)})
        frame = self._labelled(pipeline, require_frame(pipeline, result))
        if any(topic.as_of for topic in pipeline.topics.values()):
            _check_latest(frames, frame, pipeline, made)
        if isinstance(pipeline.target, Topic):
            check_columns(frame.schema, pipeline, pipeline.target)
        elif pipeline.target.key:
            _check_upsert(frame, pipeline, pipeline.target)
            if pipeline.topics and not pipeline.target.sequence_by:
                _check_order(spark, frame, pipeline, pipeline.target, made)
        check_publishing(pipeline, self._context.settings)
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
        require_code(self._context, pipeline, state)
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
            frame=frame,
        )

    def _frame(self, name: str, source: Topic | Table) -> DataFrame:
        return self._topic(name, source) if isinstance(source, Topic) else self._table(source)

    def _topic(self, name: str, topic: Topic) -> DataFrame:
        """The topic's rows, built once per topic: they take most of the planning time."""
        key = (name, topic.name, topic.as_of)
        if key not in self._topics:
            raw = reading.plan_stream(self._context.spark, topic)
            # The plan has the same operators for every version, so any id works.
            versions = reading.Versions(writers={} if topic.envelope else {1: schema_text(topic)})
            self._topics[key] = reading.rows(raw, topic, versions, name=name, group="check")
        return self._topics[key]

    def _table(self, table: Table) -> DataFrame:
        """The table, or an empty one with the columns of the pipeline that writes it."""
        uri = self._context.table_uri(table)
        if tables.exists(uri):
            return tables.load(self._context.spark, uri)
        feeding = [p for p in self._context.graph.pipelines.values() if p.target == table]
        if not feeding:
            where = table.defined_at
            raise TableError(
                f"table {table.name} does not exist and no pipeline writes it",
                hint="declare a pipeline with it as the target",
                file=where.file,
                line=where.line,
            )
        frames = {name: self._frame(name, source) for name, source in feeding[0].sources.items()}
        schema = self._labelled(feeding[0], apply(feeding[0], frames)).schema
        return self._context.spark.createDataFrame([], schema)  # pyright: ignore[reportUnknownMemberType]

    def _labelled(self, pipeline: Pipeline, frame: DataFrame) -> DataFrame:
        """The transform's result with the columns that its target stores."""
        if pipeline.intervals is None:
            return frame
        zone = ZoneInfo(self._context.graph.timezone)
        return labelled(frame, pipeline, interval_at(pipeline.calendar, datetime.now(UTC), zone))

    def _streaming_refusals(
        self, pipeline: Pipeline, frame: DataFrame, mode: str, made: list[planning.Made]
    ) -> Iterable[Refusal]:
        spark = self._context.spark
        words = planning.refusal(spark, frame, mode)
        if words is None:
            return
        at = planning.blame(made, lambda each: planning.refusal(spark, each, mode) is not None)
        into = (
            "a table without a key takes final rows only: declare the grouping columns as its key, "
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
        spark = self._context.spark
        if isinstance(pipeline.target, Table):
            rewrite = "write to a topic, and from it to the table in a near-real-time pipeline"
            yield _refused(pipeline, "table target", "a table as the target", rewrite)
            return
        refused = [name for name in planning.streaming_operators(spark, frame) if name not in self._allowed]
        # Spark adds sorts for other operators: a session window and a merge join sort their input.
        refused = [name for name in refused if name != "Sort"] or refused
        reported: set[str] = set()
        for operator in reversed(refused):  # the innermost operator is the one the user wrote first
            what, rewrite = _REWRITES.get(operator, (f"the operator {operator}", "stay near-real-time"))
            if what in reported:
                continue
            reported.add(what)

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
    """Raise for operators that would make an `as_of` result stale: each change is read once and alone."""
    refused = [("Aggregate", "an aggregation over current rows would count every change of a row")]
    hints = ["keep them in a table with a key, and aggregate over that table in batch"]
    if isinstance(pipeline.target, Table):
        refused.append(("Filter", "a filter leaves a row in the table that no longer passes it"))
        hints.append("mark it as deleted: withColumn('_deleted', F.col('_deleted') | ~condition)")
    for (operator, what), hint in zip(refused, hints, strict=True):
        usual = sum(planning.count(each, operator) for each in frames.values())
        if planning.count(frame, operator) > usual:
            at = planning.blame(
                made, lambda each, name=operator, most=usual: planning.count(each, name) > most
            )
            where = at or pipeline.defined_at
            raise CheckError(what, hint=hint, pipeline=pipeline.name, file=where.file, line=where.line)


def _check_upsert(frame: DataFrame, pipeline: Pipeline, table: Table) -> None:
    """Raise if a table with a key cannot take the rows."""
    where = pipeline.defined_at
    try:
        tables.check_upsert(table, frame)
    except TableError as error:
        raise TableError(
            error.what, hint=error.hint, pipeline=pipeline.name, file=where.file, line=where.line
        ) from None


def _check_order(
    spark: SparkSession, frame: DataFrame, pipeline: Pipeline, table: Table, made: list[planning.Made]
) -> None:
    """Raise if the latest row of a key cannot be determined because the table has no `sequence_by`.

    The rows of a partition arrive in order unless they are shuffled, and a group has one row per batch.
    """
    if not planning.shuffles(spark, frame):
        return
    groups = planning.grouped_by(frame)
    others = [name for name in groups or () if name in frame.columns and name not in table.key]
    if groups is not None and not others:
        return
    at = planning.blame(made, lambda each: each.isStreaming and planning.shuffles(spark, each) > 0)
    where = at or pipeline.defined_at
    latest = f"it is undefined which of two rows with the same {', '.join(table.key)} is the latest"
    if others:
        what = f"rows of table {table.name} are grouped by {', '.join(groups or ())}, so {latest}"
        hint = f"add {', '.join(others)} to the table's key, or declare sequence_by="
    else:
        what = f"rows of table {table.name} are shuffled, so {latest}"
        hint = (
            "declare sequence_by=, a column that increases with each change, or join with F.broadcast(table)"
        )
    raise CheckError(what, hint=hint, pipeline=pipeline.name, file=where.file, line=where.line)


def _fields(frame: DataFrame) -> list[dict[str, Any]]:
    return [{"name": field.name, "type": field.dataType.typeName()} for field in frame.schema.fields]


def _refused(pipeline: Pipeline, operator: str, what: str, rewrite: str) -> Refusal:
    return Refusal(operator=operator, what=what, rewrite=rewrite, at=pipeline.defined_at)


def check_all(checker: Checker, pipelines: Iterable[Pipeline]) -> list[Report | GearshiftError]:
    """A report for every pipeline, or its error."""
    found: list[Report | GearshiftError] = []
    for pipeline in pipelines:
        try:
            found.append(checker.report(pipeline))
        except GearshiftError as error:
            found.append(error)
    return found
