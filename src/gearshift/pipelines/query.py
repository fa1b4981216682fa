"""Builds a pipeline's query and starts it in a gear."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from gearshift.calendars import Interval, interval_at
from gearshift.definitions import Pipeline, Topic
from gearshift.errors import DefinitionError
from gearshift.freshness import Gear
from gearshift.pipelines.check.origin import Origin
from gearshift.pipelines.context import Context
from gearshift.pipelines.failures import calling
from gearshift.pipelines.live_progress import group_prefix
from gearshift.pipelines.records import reading, writing
from gearshift.rules.intervals import INTERVAL
from gearshift.spark import planning
from gearshift.spark.session import beginning_with
from gearshift.storage.folders import open_folder
from gearshift.storage.location import spark_path
from gearshift.tables import load

_MAX_REQUEST = "kafka.max.request.size"
_MAX_REQUEST_SIZE = 1 << 20  # the Java producer's defaults
_PRODUCER_BUFFER = 32 << 20

OnBatch = Callable[[DataFrame, int], None]

Versions = Mapping[str, reading.Versions]
"""The schema versions of each source topic, by topic name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    versions: reading.Versions
    aged: bool
    topic_id: str | None
    frame: DataFrame


class QueryBuilder:
    """Builds the query of one pipeline; keeps its source frames, since rebuilding them would lengthen each shift's pause."""

    def __init__(self, context: Context, pipeline: Pipeline) -> None:
        self._context = context
        self._pipeline = pipeline
        self._rows: dict[str, _Rows] = {}

    def start(
        self,
        gear: Gear,
        *,
        versions: Versions,
        tables: Mapping[str, int],
        stamp: int | None,
        schema_id: int | None,
        on_batch: OnBatch,
        parallelism: int | None,
        once: bool = False,
    ) -> StreamingQuery:
        """Start the query in a gear, on the pipeline's one checkpoint, which begins with `parallelism` if it is new.

        With `once` it runs one batch: the planned one, if there is one.
        """
        context, pipeline = self._context, self._pipeline
        frame = self.transformed(versions, gear, tables)
        mode = planning.output_mode(context.spark, frame, pipeline)
        if isinstance(pipeline.target, Topic):
            assert schema_id is not None
            output, options = as_records(
                context, pipeline, pipeline.target, frame, schema_id=schema_id, stamp=stamp
            )
            if writing.TOPIC in output.columns:
                # Counted above the last projection, so that no column is copied for it.
                output = output.observe(writing.RESULT, writing.count_invalid(pipeline.target))
            writer = (
                output.writeStream.format("kafka")
                .options(**options)
                .option("kafka.compression.type", "lz4")  # 1.5 times as fast as without, in every gear
                .option("kafka.linger.ms", "0" if gear is Gear.REAL_TIME else "5")
                .outputMode(mode)
            )
        else:
            writer = frame.writeStream.foreachBatch(on_batch).outputMode(mode)
        writer = writer.option("checkpointLocation", spark_path(f"{context.folder_of(pipeline)}/spark"))
        writer = writer.queryName(context.query_name(pipeline))
        trigger: Any = writer.trigger  # its type stubs lack realTime
        if once:
            triggered = trigger(once=True)
        elif gear is Gear.REAL_TIME:
            triggered = trigger(realTime=_milliseconds(context.settings.checkpoint_interval))
        elif gear is Gear.NEAR_REAL_TIME:
            triggered = trigger(processingTime=_milliseconds(pipeline.trigger))
        else:
            triggered = trigger(availableNow=True)
        with beginning_with(context.spark, parallelism) if parallelism is not None else nullcontext():
            return triggered.start()

    def transformed(self, versions: Versions, gear: Gear, tables: Mapping[str, int]) -> DataFrame:
        """The user's transform applied to the pipeline's sources: topics, and tables at the given versions."""
        frames: dict[str, DataFrame] = {}
        for name, source in self._pipeline.sources.items():
            if isinstance(source, Topic):
                frames[name] = self._topic_rows(name, source, versions[source.name], gear)
            else:
                uri = self._context.table_uri(source)
                frames[name] = load(self._context.spark, uri, version=tables[source.name])
        return apply(self._pipeline, frames)

    def _topic_rows(self, name: str, topic: Topic, versions: reading.Versions, gear: Gear) -> DataFrame:
        """The typed rows of a topic."""
        aged = gear is not Gear.BATCH  # in batch, the calendar decides how old records are
        context = self._context
        origin = Origin.read(open_folder(context.folder_of(self._pipeline))) or Origin()
        known, topic_id = self._rows.get(name), origin.topics.get(topic.name)
        if known is None or (known.versions, known.aged, known.topic_id) != (versions, aged, topic_id):
            group = group_prefix(context.query_name(self._pipeline), name)
            starts = origin.starts.get(topic.name)
            raw = reading.read_stream(
                context.spark, context.connection, topic, group=group, starts=starts, topic_id=topic_id
            )
            frame = reading.rows(raw, topic, versions, name=name, group=group, aged=aged)
            known = self._rows[name] = _Rows(versions=versions, aged=aged, topic_id=topic_id, frame=frame)
        return known.frame


def _milliseconds(duration: timedelta) -> str:
    return f"{int(duration.total_seconds() * 1000)} milliseconds"


def apply(pipeline: Pipeline, frames: Mapping[str, DataFrame], interval: Interval | None = None) -> DataFrame:
    """Call the user's function on frames by parameter name, and on the interval if it takes one."""
    with calling(pipeline):
        result: Any = pipeline.transform(**frames, **interval_argument(pipeline, interval))
    return require_frame(pipeline, result)


def require_frame(pipeline: Pipeline, result: Any) -> DataFrame:
    """The result of a transform; raises DefinitionError if it is not a DataFrame."""
    if not isinstance(result, DataFrame):
        where = pipeline.defined_at
        raise DefinitionError(
            f"the transform returned {type(result).__name__}, not a DataFrame",
            hint="return a DataFrame",
            pipeline=pipeline.name,
            file=where.file,
            line=where.line,
        )
    return result


def interval_argument(pipeline: Pipeline, interval: Interval | None) -> dict[str, Interval]:
    """The interval as a keyword argument, if the transform takes one; a plan without an interval uses today's."""
    if pipeline.intervals is None or not pipeline.intervals.is_parameter:
        return {}
    return {INTERVAL: interval or interval_at(pipeline.calendar, datetime.now(UTC), UTC)}


def as_records(
    context: Context,
    pipeline: Pipeline,
    target: Topic,
    frame: DataFrame,
    *,
    schema_id: int,
    stamp: int | None,
) -> tuple[DataFrame, dict[str, str]]:
    """The rows of a result as records for a topic, and the options of the Kafka sink."""
    options = reading.kafka_options(context.connection)
    largest = min(context.admin.largest_record(target.name), _PRODUCER_BUFFER)
    # The topic's limit applies unless the user has set a lower one.
    limit = int(options.setdefault(_MAX_REQUEST, str(max(largest, _MAX_REQUEST_SIZE))))
    output = writing.records(
        frame,
        pipeline,
        target,
        app=context.graph.app,
        schema_id=schema_id,
        stamp=stamp,
        largest=min(largest, limit),
    )
    return output, options if writing.TOPIC in output.columns else {**options, "topic": target.name}
