"""What can be wrong has its own error, which says what to do, before the running gear is touched."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import stack as local
from gearshift.connection import Connection
from gearshift.definitions import Pipeline
from gearshift.errors import (
    BrokerUnreachableError,
    CheckError,
    CheckpointFormatError,
    DefinitionError,
    GearRefusedError,
    GearshiftError,
    RegistryUnreachableError,
    TooFewSlotsError,
    TopicMissingError,
    TransformError,
)
from gearshift.freshness import Gear
from gearshift.pipelines.check.gears import Checker
from gearshift.pipelines.check.origin import Origin
from gearshift.pipelines.check.requirements import Requirements
from gearshift.pipelines.context import Kafka
from gearshift.pipelines.records.reading import kafka_options
from gearshift.pipelines.shift import shift
from gearshift.pipelines.supervisor import Supervisor
from gearshift.pipelines.verification import verify
from gearshift.runner.loading import load_app
from gearshift.runner.runner import Runner
from gearshift.schemas import Registry
from gearshift.settings import Settings, load
from gearshift.spark.session import EVERY_GEAR, open_session
from gearshift.stack.artifacts.artifacts import jars
from gearshift.storage.folders import open_folder
from gearshift.topics import Admin, DeadLetters, Producer
from tests.flow import values
from tests.support import closed_port, cluster, eventually

HERE = "tests/integration/test_errors.py"
NEAR, REAL = Gear.NEAR_REAL_TIME, Gear.REAL_TIME
SLOTS = 32


@dataclass
class Event:
    key: str
    n: int
    at: datetime


@dataclass
class Result:
    key: str | None = None
    value: int | None = None
    text: str | None = None


@dataclass
class Strict:
    key: str
    value: int


MOOD = {"mood": "well"}

# A file where no Python worker could import it from, with a function of its own in a UDF.
SHOUTING = """
from dataclasses import dataclass

import gearshift as gs
from pyspark.sql import functions as F

@dataclass
class Word:
    key: str

app = gs.App("shouting")
words = app.topic("words", value=Word)

def upper(word):
    return word.upper() + MARK

MARK = "!"

@app.pipeline(source=words, to=words, gear="near-real-time")
def shouted(words):
    return words.select("key", F.udf(upper, "string")("key").alias("text"))
"""


def app_of(name: str, shouted: Callable[..., DataFrame]) -> gs.App:
    """One pipeline for each way of being wrong; all of them run well near-real-time."""
    app = gs.App(name)
    events = app.topic(f"{name}-events", value=Event, key="key")
    others = app.topic(f"{name}-others", value=Event, key="key")
    wide = app.topic(f"{name}-wide", value=Event, key="key", partitions=SLOTS)

    def result(of: str) -> gs.Topic:
        return app.topic(f"{name}-{of}", value=Result, key="key")

    @app.pipeline(source={"events": events, "others": others}, to=result("joined"), gear="near-real-time")
    def joined(events: DataFrame, others: DataFrame) -> DataFrame:
        left = events.withWatermark("at", "1 minute")
        right = others.withWatermark("at", "1 minute").select("key", F.col("at").alias("other"))
        return (
            left.withColumn("text", F.upper("key"))
            .join(right, "key")  # the join
            .where("at = other")
            .select("key", "text")
        )

    @app.pipeline(source=events, to=result("called"), gear="near-real-time")
    def called(events: DataFrame) -> DataFrame:
        shout = F.udf(lambda word: word.upper(), "string")
        named = events.select("key", "n")
        loud = named.withColumn("text", shout("key"))  # the UDF
        return loud.select("key", "text")

    app.pipeline(source=events, to=result("shouted"), freshness="10 s")(shouted)

    @app.pipeline(source=events, to=result("sessions"), gear="near-real-time")
    def sessions(events: DataFrame) -> DataFrame:
        marked = events.withWatermark("at", "1 minute")
        grouped = marked.groupBy(F.session_window("at", "5 minutes"), "key")
        counted = grouped.agg(F.count("*").alias("value"))  # the session window
        return counted.select("key", "value")

    @app.pipeline(source=events, to=result("distinct"), gear="near-real-time")
    def distinct(events: DataFrame) -> DataFrame:
        marked = events.withWatermark("at", "1 minute")
        once = marked.dropDuplicatesWithinWatermark(["key"])  # the deduplication
        return once.select("key")

    @app.pipeline(source=events, to=app.table("kept"), gear="near-real-time")  # the table
    def kept(events: DataFrame) -> DataFrame:
        return events

    @app.pipeline(source=wide, to=result("much"), gear="near-real-time")
    def much(wide: DataFrame) -> DataFrame:
        return wide.select("key")

    @app.pipeline(source=events, to=result("old"), gear="near-real-time")
    def old(events: DataFrame) -> DataFrame:
        return events.select("key")

    @app.pipeline(source=events, to=result("lonely"), gear="near-real-time")
    def lonely(events: DataFrame) -> DataFrame:
        return events.select("key")

    @app.pipeline(source=events, to=result("moody"), gear="near-real-time")  # the moody pipeline
    def moody(events: DataFrame) -> DataFrame | None:
        if MOOD["mood"] == "raising":
            raise ValueError("out of tune")  # the raising line
        if MOOD["mood"] == "spelling":
            return events.select("kye")  # the misspelt column
        if MOOD["mood"] == "silent":
            return None
        if MOOD["mood"] == "adding":
            return events.select("key", "n")
        if MOOD["mood"] == "mixing":
            return events.select("key", F.col("key").alias("value"))
        return events.select("key")

    target = app.topic(f"{name}-strict", value=Strict, key="key")

    @app.pipeline(source=others, to=target, freshness="10 s", on_invalid="stop")
    def strict(others: DataFrame) -> DataFrame:
        return others.select("key", F.when(F.col("n") >= 0, F.col("n")).alias("value"))

    return app


@pytest.fixture(scope="module")
def settings(stack: local.Stack, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("errors")
    return load(
        {
            "home": folder / "home",
            **cluster(stack.connection),
            "checkpoint_interval": "5 seconds",
            "spark_master": f"local[{SLOTS}]",
        },
        folder=folder,
        environ={},
    )


@pytest.fixture(scope="module")
def runner(
    settings: Settings, stack: local.Stack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Runner]:
    file = tmp_path_factory.mktemp("elsewhere") / "shouting.py"
    file.write_text(SHOUTING, encoding="utf-8")
    shouted = load_app(file).graph.pipelines["shouted"].transform
    app = app_of(f"e{uuid.uuid4().hex[:8]}", shouted)
    leave_old_checkpoint(app, settings, stack.connection)
    with Runner(app, settings) as running:
        for supervisor in running.supervisors.values():
            eventually(lambda supervisor=supervisor: supervisor.query and supervisor.query.isActive)
        yield running


def leave_old_checkpoint(app: gs.App, settings: Settings, connection: Connection) -> None:
    """Run a plain Spark query with Spark's own defaults where the pipeline `old` will look for its checkpoint."""
    graph = app.graph
    pipeline = graph.pipelines["old"]
    source, target = pipeline.topics["events"], pipeline.target
    with Admin(connection) as admin:
        admin.ensure(graph.topics.values())
    with Producer(connection) as producer:
        producer.send(source, Event("old", 1, datetime.now(UTC)))
    log_file = settings.home / "logs" / "spark.log"
    spark = open_session(graph, settings, jars("spark", cache=settings.cache), log_file=log_file)
    for name in EVERY_GEAR:
        spark.conf.unset(name)
    options = {**kafka_options(connection), "startingOffsets": "earliest"}
    (
        spark.readStream.format("kafka")
        .options(subscribe=source.name, **options)
        .load()
        .select("value")
        .writeStream.format("kafka")
        .options(topic=target.name, **options)
        .option("checkpointLocation", f"{settings.checkpoints_uri}/{graph.app}/old/spark")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    for name, value in EVERY_GEAR.items():
        spark.conf.set(name, value)


def line_of(mark: str) -> int:
    """The line of this file that ends in a comment."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    found = [number for number, line in enumerate(lines, 1) if line.endswith(f"  # {mark}")]
    assert len(found) == 1, (mark, found)
    return found[0]


@contextmanager
def untouched(supervisor: Supervisor) -> Iterator[None]:
    """The very same query runs on in the same gear, and the ledger has no new run."""
    query, gear, runs = supervisor.query, supervisor.gear, len(supervisor.ledger.runs)
    assert query is not None and query.isActive, (supervisor.condition.state, supervisor.condition.error)
    yield
    assert supervisor.query is not None and supervisor.query.runId == query.runId
    assert query.isActive
    assert supervisor.gear is gear
    assert len(supervisor.ledger.runs) == runs
    assert supervisor.condition.error is None


def refused(runner: Runner, pipeline: str, gear: Gear = REAL) -> GearshiftError:
    """The error of a shift that did nothing else."""
    steps: list[str] = []
    with untouched(runner.supervisors[pipeline]), pytest.raises(GearshiftError) as caught:
        runner.shift(pipeline, gear, on_step=lambda step, _: steps.append(step))
    assert steps == ["check"]
    return caught.value


@pytest.mark.parametrize(
    ("pipeline", "operator", "mark", "what", "rewrite"),
    [
        ("joined", "StreamingSymmetricHashJoin", "the join", "a join of two streams", "F.broadcast(table)"),
        ("called", "PythonUDF", "the UDF", "a Python UDF", "pyspark.sql.functions"),
        ("sessions", "SessionWindow", "the session window", "a session window", "F.window"),
        (
            "distinct",
            "StreamingDeduplicateWithinWatermark",
            "the deduplication",
            "dropDuplicatesWithinWatermark",
            "use dropDuplicates",
        ),
        ("kept", "table target", "the table", "a table as the target", "write to a topic"),
    ],
)
def test_what_real_time_cannot_run_is_refused_with_operator_line_and_rewrite(
    runner: Runner, pipeline: str, operator: str, mark: str, what: str, rewrite: str
) -> None:
    error = refused(runner, pipeline)
    assert type(error) is GearRefusedError
    assert error.what.startswith(f"real-time cannot run {what} (")
    assert (error.file, error.line) == (HERE, line_of(mark))
    assert error.pipeline == pipeline
    assert rewrite in (error.hint or "")
    assert "works in: batch, near-real-time" in (error.hint or "")
    verdict = Checker(runner.context).report(runner.graph.pipelines[pipeline]).verdicts[REAL]
    named = {"PythonUDF": ("ArrowEvalPython", "BatchEvalPython"), "SessionWindow": SESSION_OPERATORS}
    assert verdict.refusals[0].operator in named.get(operator, (operator,))


SESSION_OPERATORS = (
    "MergingSessions",
    "UpdatingSessions",
    "SessionWindowStateStoreSave",
    "SessionWindowStateStoreRestore",
)


def test_a_checkpoint_of_plain_spark_is_refused_in_real_time_and_goes_on_below(runner: Runner) -> None:
    error = refused(runner, "old")
    assert type(error) is CheckpointFormatError
    assert "state format v1" in error.what
    folder = runner.context.folder_of(runner.graph.pipelines["old"])
    assert folder in error.what and "gearshift reset " in (error.hint or "")
    assert "stay in batch or near-real-time" in (error.hint or "")


def test_too_few_slots_are_counted_before_anything_is_stopped(runner: Runner) -> None:
    error = refused(runner, "much")
    assert type(error) is TooFewSlotsError
    assert f"real-time needs {SLOTS} task slots (much {SLOTS})" in error.what
    assert f"Spark has {SLOTS}" in error.what
    assert f"local[{SLOTS + 4}]" in (error.hint or "")


def test_a_topic_that_is_gone_is_named(runner: Runner) -> None:
    topic = runner.graph.pipelines["lonely"].target.name
    runner.context.admin.delete([topic])
    error = refused(runner, "lonely")
    assert type(error) is TopicMissingError
    assert error.topic == topic
    assert error.hint


@pytest.mark.parametrize("gear", [REAL, Gear.BATCH])
def test_a_broker_that_is_down_is_told_from_a_registry_that_is_down(runner: Runner, gear: Gear) -> None:
    supervisor = runner.supervisors["moody"]
    context, address = runner.context, f"127.0.0.1:{closed_port()}"
    without_broker = replace(context.connection, bootstrap_servers=address)
    without_registry = replace(context.connection, registry_url=f"http://{address}")
    for connection, kind in (
        (without_broker, BrokerUnreachableError),
        (without_registry, RegistryUnreachableError),
    ):
        with Admin(connection, answer_within=timedelta(seconds=3)) as admin:
            elsewhere = replace(context, kafka=Kafka(connection=connection, admin=admin))
            requirements = Requirements(elsewhere, Checker(elsewhere), {})
            with untouched(supervisor), pytest.raises(GearshiftError) as caught:
                shift(supervisor, gear, requirements, on_step=lambda *_: None)
        assert type(caught.value) is kind
        assert address in caught.value.what
        assert caught.value.retriable and caught.value.hint


@pytest.mark.parametrize(
    ("mood", "kind", "mark", "words", "hint"),
    [
        ("raising", TransformError, "the raising line", "ValueError: out of tune", "fix the function"),
        ("spelling", TransformError, "the misspelt column", "kye", "fix the function"),
        ("silent", DefinitionError, "the moody pipeline", "returned NoneType", "return a DataFrame"),
        ("adding", CheckError, "the moody pipeline", "column n is not a field of Result", "drop it"),
        ("mixing", CheckError, "the moody pipeline", "column value is string but", "cast it to bigint"),
    ],
)
@pytest.mark.parametrize("gear", [REAL, Gear.BATCH])
def test_a_transform_that_went_wrong_is_blamed_on_its_own_line(
    runner: Runner, gear: Gear, mood: str, kind: type[GearshiftError], mark: str, words: str, hint: str
) -> None:
    MOOD["mood"] = mood
    try:
        error = refused(runner, "moody", gear)
    finally:
        MOOD["mood"] = "well"
    assert type(error) is kind
    assert words in error.what and "\n" not in error.what
    assert (error.file, error.line) == (HERE, line_of(mark))
    assert error.pipeline == "moody"
    assert hint in (error.hint or "")


def test_a_null_in_a_required_field_stops_its_pipeline_and_no_other(runner: Runner) -> None:
    supervisor = runner.supervisors["strict"]
    with Producer(runner.context.connection) as producer:
        producer.send(runner.graph.pipelines["strict"].topics["others"], Event("a", -1, datetime.now(UTC)))
    error = eventually(lambda: supervisor.condition.error)
    assert supervisor.condition.state == "failed"
    assert "required field value is null" in error
    assert "on_invalid" in error
    assert runner.status()["pipelines"][-1]["error"] == error
    with untouched(runner.supervisors["moody"]):
        pass


def test_a_function_of_the_apps_own_file_runs_in_a_udf_wherever_the_file_is(runner: Runner) -> None:
    target = runner.graph.pipelines["shouted"].target
    assert isinstance(target, gs.Topic)
    eventually(
        lambda: any(result.text == "OLD!" for result in values(runner.context.connection, target)),
        every=0.5,
    )


def test_an_unknown_pipeline_is_answered_with_those_there_are(runner: Runner) -> None:
    with pytest.raises(DefinitionError, match="unknown pipeline 'load_alert'") as caught:
        runner.shift("load_alert", REAL)
    assert "moody" in (caught.value.hint or "")


# What the check says of a transform, and what Spark does with it.

Transform = Callable[[DataFrame, DataFrame], DataFrame]


def _static(frame: DataFrame) -> DataFrame:
    return frame.sparkSession.range(10).select(
        F.col("id").cast("string").alias("key"), F.col("id").alias("m")
    )


def _marked(frame: DataFrame) -> DataFrame:
    return frame.withWatermark("at", "1 minute")


def _per_key(column: Callable[[], Column]) -> Transform:
    return lambda events, _: events.groupBy("key").agg(column())


TRANSFORMS: dict[str, Transform] = {
    "project": lambda e, _: e.select("key", F.col("n").alias("value")),
    "functions": lambda e, _: e.select(F.sha2("key", 256).alias("text"), F.rand().cast("int").alias("value")),
    "explode": lambda e, _: e.select(F.explode(F.split("key", "")).alias("text")),
    "union": lambda e, o: e.select("key").union(o.select("key")),
    "count": _per_key(lambda: F.count("*").alias("value")),
    "max of a string": _per_key(lambda: F.max(F.upper("key")).alias("text")),
    "collect_list": _per_key(lambda: F.to_json(F.collect_list("n")).alias("text")),
    "approx_count_distinct": _per_key(lambda: F.approx_count_distinct("n").alias("value")),
    "count of all": lambda e, _: e.groupBy().agg(F.count("*").alias("value")),
    "rollup": lambda e, _: e.rollup("key").agg(F.count("*").alias("value")),
    "windowed count": lambda e, _: (
        _marked(e).groupBy(F.window("at", "1 minute"), "key").agg(F.count("*").alias("value"))
    ).select("key", "value"),
    "count of counts": lambda e, _: (
        _marked(e)
        .groupBy(F.window("at", "1 minute"), "key")
        .count()
        .groupBy(F.window(F.window_time("window"), "5 minutes"))
        .agg(F.count("*").alias("value"))
        .select("value")
    ),
    "dropDuplicates": lambda e, _: e.dropDuplicates(["key"]).select("key"),
    "dropDuplicatesWithinWatermark": lambda e, _: (
        _marked(e).dropDuplicatesWithinWatermark(["key"]).select("key")
    ),
    "broadcast join": lambda e, _: e.join(F.broadcast(_static(e)), "key").select("key"),
    "broadcast cross join": lambda e, _: e.crossJoin(F.broadcast(_static(e).select("m"))).select("key"),
    "merge join": lambda e, _: e.join(_static(e).hint("merge"), "key").select("key"),
    "stream-stream join": lambda e, o: _marked(e).join(_marked(o).drop("n"), ["key", "at"]).select("key"),
    "session window": lambda e, _: (
        _marked(e).groupBy(F.session_window("at", "1 minute"), "key").agg(F.count("*").alias("value"))
    ).select("key", "value"),
    "UDF": lambda e, _: e.select(F.udf(str.upper, "string")("key").alias("text")),
    "mapInPandas": lambda e, _: e.select("key").mapInPandas(lambda frames: frames, "key string"),
    "repartition": lambda e, _: e.select("key").repartition(2),
    "repartition by range": lambda e, _: e.select("key").repartitionByRange(2, "key"),
    "coalesce": lambda e, _: e.select("key").coalesce(1),
    "sample": lambda e, _: e.select("key").sample(0.5),
    "limit": lambda e, _: e.select("key").limit(3),
    "sort": lambda e, _: e.select("key").orderBy("key"),
    "sort of counts": lambda e, _: e.groupBy("key").agg(F.count("*").alias("value")).orderBy("value"),
    "distinct count": lambda e, _: e.groupBy("key").agg(F.countDistinct("n").alias("value")),
}


@pytest.fixture(scope="module")
def started(runner: Runner) -> dict[str, tuple[Checker, Pipeline, dict[Gear, str | None]]]:
    """Each transform and why Spark did not run it in real-time and, if so, below; several at a time, for they mostly wait."""
    context = runner.context
    events, others = (context.graph.topics[f"{context.graph.app}-{of}"] for of in ("events", "others"))
    with Registry(context.connection) as registry, DeadLetters(context.connection) as letters:

        def start(
            entry: tuple[int, tuple[str, Transform]],
        ) -> tuple[Checker, Pipeline, dict[Gear, str | None]]:
            number, (_, transform) = entry
            app = gs.App(context.graph.app)

            def tried(events: DataFrame, others: DataFrame) -> DataFrame:
                return transform(events, others)

            tried.__name__ = f"tried-{number}"
            sources = {"events": events, "others": others}
            # Nobody listens to these queries: they are seen to work when the next batch finds nothing to do.
            app.pipeline(source=sources, to=sink, gear="near-real-time", freshness="1 second")(tried)
            pipeline = app.graph.pipelines[tried.__name__]
            # All of them read and write the same topics: none is another one renamed.
            Origin().write(open_folder(context.folder_of(pipeline)))
            tries = {REAL: attempt(pipeline, REAL)}
            if tries[REAL] is not None:
                tries[NEAR] = attempt(pipeline, NEAR)
            return Checker(context), pipeline, tries

        def attempt(pipeline: Pipeline, gear: Gear) -> str | None:
            supervisor = Supervisor(
                context, replace(pipeline, name=f"{pipeline.name}-{gear}"), registry, letters
            )
            try:
                supervisor.start(gear, "test")
                verify(supervisor)
            except GearshiftError as error:
                return str(error)
            finally:
                supervisor.halt()
                supervisor.recorder.close()
            return None

        sink = gs.App("sink").topic(f"{context.graph.app}-tried", value=Result)
        context.admin.ensure([sink])
        registry.register(sink)
        with ThreadPoolExecutor(4) as pool:
            return dict(zip(TRANSFORMS, pool.map(start, enumerate(TRANSFORMS.items())), strict=True))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_check_agrees_with_spark(
    started: dict[str, tuple[Checker, Pipeline, dict[Gear, str | None]]], name: str
) -> None:
    checker, pipeline, tries = started[name]
    verdicts = checker.report(pipeline).verdicts
    for gear, failure in tries.items():
        told = [f"{refusal.operator}: {refusal.what}" for refusal in verdicts[gear].refusals]
        assert bool(told) == (failure is not None), f"{gear}: the check says {told}, Spark says {failure}"
