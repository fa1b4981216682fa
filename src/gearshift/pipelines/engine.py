"""What a pipeline needs in order to run, and how its query is built and started in a gear."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from gearshift.calendars import Interval, interval_at
from gearshift.connection import Connection
from gearshift.definitions import Graph, Pipeline, Table, Topic
from gearshift.errors import DefinitionError
from gearshift.freshness import Gear
from gearshift.location import spark_path
from gearshift.pipelines import planning, reading, writing
from gearshift.pipelines.checkpoint import open_folder
from gearshift.pipelines.ending import Endings
from gearshift.pipelines.live import group_prefix
from gearshift.pipelines.origin import Origin
from gearshift.pipelines.publishing import Publisher
from gearshift.pipelines.user_code import calling
from gearshift.rules.intervals import INTERVAL
from gearshift.settings import Settings
from gearshift.tables import load
from gearshift.topics import Admin

OnBatch = Callable[[DataFrame, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Spark, the cluster and the settings, for all pipelines of an app."""

    spark: SparkSession
    connection: Connection
    settings: Settings
    graph: Graph
    admin: Admin
    read: dict[tuple[str, str], Read] = field(
        default_factory=dict[tuple[str, str], "Read"], repr=False, compare=False
    )
    endings: Endings | None = field(default=None, repr=False, compare=False)
    publisher: Publisher = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        jvm: Any = self.spark
        object.__setattr__(self, "publisher", Publisher(self.settings, lambda: jvm._jvm))

    def folder_of(self, pipeline: Pipeline) -> str:
        """The URI of a pipeline's ledger and checkpoint."""
        return f"{self.settings.checkpoints_uri}/{self.graph.app}/{pipeline.name}"

    def table_uri(self, table: Table) -> str:
        """The URI of a table."""
        return f"{self.settings.warehouse_uri}/{table.name}"

    def stamps(self, pipeline: Pipeline, gear: Gear) -> bool:
        """Whether the records of a pipeline in a gear carry a stamp, which costs a fifth of a batch's throughput.

        In real-time it alone tells which records count. A micro-batch's offsets are logged before it runs,
        so its records are known by their time, unless several pipelines write the same topic.
        """
        writers = [each for each in self.graph.pipelines.values() if each.target == pipeline.target]
        return gear is Gear.REAL_TIME or len(writers) > 1

    def groups_of(self, pipeline: Pipeline) -> list[str]:
        """What the names of the consumer groups begin with that read a pipeline's topics."""
        return [group_prefix(self.query_name(pipeline), source) for source in pipeline.topics]

    def query_name(self, pipeline: Pipeline) -> str:
        """The name Spark and Kafka's tools know a pipeline by."""
        return f"{self.graph.app}.{pipeline.name}"


Versions = Mapping[str, reading.Versions]
"""The schema versions of each source topic, by topic name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """The typed rows of a source topic as they were last asked for."""

    versions: reading.Versions
    aged: bool
    frame: DataFrame


def transformed(engine: Engine, pipeline: Pipeline, versions: Versions, gear: Gear) -> DataFrame:
    """The user's transform applied to the pipeline's sources."""
    frames: dict[str, DataFrame] = {}
    for name, source in pipeline.sources.items():
        if isinstance(source, Topic):
            frames[name] = _rows(engine, pipeline, name, source, versions[source.name], gear)
        else:
            frames[name] = load(engine.spark, engine.table_uri(source))
    return apply(pipeline, frames)


def _rows(
    engine: Engine, pipeline: Pipeline, name: str, topic: Topic, versions: reading.Versions, gear: Gear
) -> DataFrame:
    """The typed rows of a topic, kept from start to start: making them anew would lengthen every shift's pause."""
    place = (pipeline.name, name)
    aged = gear is not Gear.BATCH  # how old records are when their batch comes round, its calendar decides
    known = engine.read.get(place)
    if known is None or (known.versions, known.aged) != (versions, aged):
        group = group_prefix(engine.query_name(pipeline), name)
        origin = Origin.read(open_folder(engine.folder_of(pipeline)))
        starts = origin.starts.get(topic.name) if origin is not None else None
        raw = reading.read_stream(engine.spark, engine.connection, topic, group=group, starts=starts)
        frame = reading.rows(raw, topic, versions, name=name, group=group, aged=aged)
        known = engine.read[place] = Read(versions=versions, aged=aged, frame=frame)
    return known.frame


def apply(pipeline: Pipeline, frames: Mapping[str, DataFrame], interval: Interval | None = None) -> DataFrame:
    """Call the user's function on frames by parameter name, and on the interval if it takes it."""
    with calling(pipeline):
        result: Any = pipeline.transform(**frames, **interval_argument(pipeline, interval))
    if not isinstance(result, DataFrame):
        where = pipeline.defined_at
        raise DefinitionError(
            f"the transform returned {type(result).__name__}, not a DataFrame",
            hint="return the frame",
            pipeline=pipeline.name,
            file=where.file,
            line=where.line,
        )
    return result


def interval_argument(pipeline: Pipeline, interval: Interval | None) -> dict[str, Interval]:
    """The interval as the transform takes it, or nothing; a plan that runs no interval is made with today's."""
    if pipeline.intervals is None or not pipeline.intervals.is_parameter:
        return {}
    return {INTERVAL: interval or interval_at(pipeline.calendar, datetime.now(UTC), UTC)}


def start(
    engine: Engine,
    pipeline: Pipeline,
    gear: Gear,
    *,
    versions: Versions,
    stamp: int | None,
    schema_id: int | None,
    on_batch: OnBatch,
) -> StreamingQuery:
    """Start the pipeline's query in a gear, on its one checkpoint."""
    frame = transformed(engine, pipeline, versions, gear)
    mode = planning.output_mode(engine.spark, frame, pipeline)
    if isinstance(pipeline.target, Topic):
        assert schema_id is not None
        output = writing.records(frame, pipeline, pipeline.target, schema_id=schema_id, stamp=stamp)
        writer = (
            output.writeStream.format("kafka")
            .options(**reading.kafka_options(engine.connection))
            .option("topic", pipeline.target.name)
            .option("kafka.compression.type", "lz4")  # half as fast again as without, in every gear
            .option("kafka.linger.ms", "0" if gear is Gear.REAL_TIME else "5")
            .outputMode(mode)
        )
    else:
        writer = frame.writeStream.foreachBatch(on_batch).outputMode(mode)
    writer = writer.option("checkpointLocation", spark_path(f"{engine.folder_of(pipeline)}/spark"))
    writer = writer.queryName(engine.query_name(pipeline))
    if gear is Gear.REAL_TIME:
        interval = engine.settings.checkpoint_interval
        real_time: Any = writer.trigger  # its overloads leave realTime out
        return real_time(realTime=f"{int(interval.total_seconds() * 1000)} milliseconds").start()
    if gear is Gear.NEAR_REAL_TIME:
        return writer.trigger(
            processingTime=f"{int(pipeline.trigger.total_seconds() * 1000)} milliseconds"
        ).start()
    return writer.trigger(availableNow=True).start()


@dataclass(slots=True)
class Gate:
    """Lets a query be stopped between the batches of its Python sink.

    Spark interrupts a batch that is inside a Python call with a dump of its threads. So whoever stops
    the query first waits for the batch under way, and a batch that comes to a closed gate gives up by itself.
    """

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False

    @contextmanager
    def batch(self) -> Generator[None]:
        """Hold the gate for the time of one batch."""
        with self._lock:
            if self._closed:
                raise InterruptedError("the query is stopping")
            yield

    def close(self) -> None:
        """Wait for the batch under way, then let no other in."""
        with self._lock:
            self._closed = True
