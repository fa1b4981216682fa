"""Stopping is prompt, whatever is under way, and leaves a state to go on from."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import tables
from gearshift.freshness import Gear
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from gearshift.topics import Producer
from tests.arrow_frames import ArrowFrame
from tests.flow import Count, Event, highest_counts, values
from tests.support import eventually


def test_a_long_batch_is_interrupted_and_done_again_by_the_next_run(unique: str, settings: Settings) -> None:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key")
    copies = app.topic(f"{unique}-copies", value=Event, key="key")
    slow = True

    @app.pipeline(source=events, to=copies, gear="batch")
    def copy(events: DataFrame) -> DataFrame:
        if not slow:
            return events
        endless = events.sparkSession.range(5_000_000_000).withColumn(
            "digest", F.sha2(F.col("id").cast("string"), 512)
        )
        return events.crossJoin(endless.where("digest = 'never'")).select("key", "n")

    with Runner(app, settings) as runner:
        supervisor = runner.supervisors["copy"]
        with Producer(runner.context.connection) as producer:
            for number in range(10):
                producer.send(events, Event("k", number))
        eventually(lambda: supervisor.query is not None and supervisor.query.isActive)
        tracker = runner.spark.sparkContext.statusTracker()
        eventually(tracker.getActiveJobsIds)
        began = time.monotonic()
    assert time.monotonic() - began < 30
    assert not any(run.verified for run in supervisor.ledger.runs)

    slow = False
    with Runner(app, settings) as runner:
        eventually(
            lambda: len(values(runner.context.connection, copies)) == 10,
            every=0.3,
        )
        assert {event.n for event in values(runner.context.connection, copies)} == set(range(10))


def test_closing_a_busy_batch_pipeline_leaves_the_others_alone(unique: str, settings: Settings) -> None:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key")
    copies = app.topic(f"{unique}-copies", value=Event, key="key")
    kept, report = app.table(f"{unique}_kept"), app.table(f"{unique}_report")

    @app.pipeline(source=events, to=copies, gear="real-time")
    def copy(events: DataFrame) -> DataFrame:
        return events

    @app.pipeline(source=kept, to=report, gear="batch")
    def endless(kept: DataFrame) -> DataFrame:
        numbers = kept.sparkSession.range(5_000_000_000)
        return numbers.where(F.sha2(F.col("id").cast("string"), 512) == "never")

    uri = tables.table_uri(settings.warehouse_uri, kept.name)
    tables.append(kept, uri, ArrowFrame({"n": "long"}, [(1,)]), writer="w", batch_id=0)
    with Runner(app, settings) as runner, Producer(runner.context.connection) as producer:
        copying, busy = runner.supervisors["copy"], runner.supervisors["endless"]
        tracker = runner.spark.sparkContext.statusTracker()
        eventually(lambda: len(list(tracker.getActiveJobsIds())) > 1)
        query = copying.query
        began = time.monotonic()
        busy.close()
        assert time.monotonic() - began < 20
        assert busy.condition.state == "stopped"
        eventually(lambda: len(list(tracker.getActiveJobsIds())) == 1)
        producer.send(events, Event("k", 1))
        producer.flush()
        eventually(lambda: values(runner.context.connection, copies))
        assert query is not None
        assert (copying.query, query.isActive, copying.condition.restarts) == (query, True, 0)


def test_a_stop_or_a_shift_out_of_real_time_ends_the_batch_and_replays_nothing(
    unique: str, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """The checkpoint is ten minutes away and two partitions of three are idle."""
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key", partitions=3)
    copies = app.topic(f"{unique}-copies", value=Event, key="key", partitions=3)
    counts = app.topic(f"{unique}-counts", value=Count, key="key")

    @app.pipeline(source=events, to=copies, gear="real-time")
    def copy(events: DataFrame) -> DataFrame:
        return events

    @app.pipeline(source=events, to=counts, gear="real-time")
    def count(events: DataFrame) -> DataFrame:
        return events.groupBy("key").agg(F.count("*").alias("count"))

    def send_five(runner: Runner, first: int) -> None:
        connection = runner.context.connection
        with Producer(connection) as producer:
            for number in range(first, first + 5):
                producer.send(events, Event("k", number))
        eventually(lambda: len(values(connection, copies)) >= first + 5, every=0.3)
        eventually(lambda: highest_counts(values(connection, counts)).get("k") == first + 5, every=0.3)

    far = settings.model_copy(update={"checkpoint_interval": timedelta(minutes=10)})
    with Runner(app, far) as runner:
        assert runner.context.endings is not None
        assert runner.context.endings.works, "Spark's or Kafka's internals changed: see pipelines/stopping.py"
        send_five(runner, 0)
    ledgers = [supervisor.ledger for supervisor in runner.supervisors.values()]
    assert [sum(run.records for run in ledger.runs) for ledger in ledgers] == [5, 5]
    with Runner(app, far) as runner:
        send_five(runner, 5)
        done = [runner.shift(name, Gear.NEAR_REAL_TIME) for name in ("copy", "count")]
        assert [each.replayed for each in done] == [0, 0]
        assert all(each.waited < 60 for each in done)
        send_five(runner, 10)
        connection = runner.context.connection
        copied = values(connection, copies)
        assert sorted(event.n for event in copied) == list(range(15))
        for supervisor in runner.supervisors.values():
            assert (supervisor.ledger.gap, supervisor.ledger.replayed) == (0, 0)
            assert supervisor.condition.restarts == 0
    assert "again at the next start" not in caplog.text


def test_a_runner_that_has_ended_keeps_no_client_of_kafka_open(unique: str, settings: Settings) -> None:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key")
    copies = app.topic(f"{unique}-copies", value=Event, key="key")

    @app.pipeline(source=events, to=copies, gear="near-real-time")
    def copy(events: DataFrame) -> DataFrame:
        return events

    before = _kafka_clients()
    with Runner(app, settings) as runner, Producer(runner.context.connection) as producer:
        producer.send(events, Event("k", 1))
        producer.flush()
        eventually(lambda: values(runner.context.connection, copies))
    eventually(lambda: _kafka_clients() <= before)


def _kafka_clients() -> int:
    """How many clients of librdkafka this process has: each has one thread of this name."""
    threads = Path("/proc/self/task").glob("*/comm")
    return sum(thread.read_text(encoding="utf-8").strip() == "rdk:main" for thread in threads)
