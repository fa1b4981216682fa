"""Pipelines into tables with a key: a row replaces the one before it, so running totals can be kept in one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import tables
from gearshift.freshness import Gear
from gearshift.runner.checking import check_app
from gearshift.runner.runner import Runner
from gearshift.settings import Settings, load
from gearshift.topics import Producer
from tests.flow import Event
from tests.support import eventually


def test_a_running_count_in_a_table_with_a_key_is_exact_through_shifts_and_restarts(
    unique: str, settings: Settings
) -> None:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key", partitions=2)
    counts = app.table("counts", key="key")
    sent: Counter[str] = Counter()

    @app.pipeline(source=events, to=counts, freshness="10 seconds")
    def count(events: DataFrame) -> DataFrame:
        return events.groupBy("key").count()

    def send(producer: Producer, records: int) -> None:
        for n in range(records):
            key = f"k{n * n % 17}"
            producer.send(events, Event(key=key, n=n))
            sent[key] += 1
        producer.flush()

    def counted() -> dict[str, int]:
        uri = tables.table_uri(settings.warehouse_uri, "counts")
        return {row["key"]: row["count"] for row in tables.rows(uri)} if tables.exists(uri) else {}

    with Runner(app, settings) as runner, Producer(runner.stack.connection) as producer:
        send(producer, 300)
        eventually(lambda: counted() == sent, every=0.3)
        send(producer, 200)
        runner.shift("count", Gear.BATCH)
        assert counted() == sent
        runner.shift("count", Gear.NEAR_REAL_TIME)
        send(producer, 100)
    with Runner(app, settings):
        eventually(lambda: counted() == sent, every=0.3)
    assert len(tables.rows(tables.table_uri(settings.warehouse_uri, "counts"))) == len(sent)


def test_what_a_table_cannot_keep_is_told_by_check(tmp_path: Path) -> None:
    app = gs.App("checked")
    events = app.topic("events", value=Event, key="key")

    @app.pipeline(source=events, to=app.table("counts"), freshness="10 seconds")
    def count(events: DataFrame) -> DataFrame:
        return events.groupBy("key").count()

    @app.pipeline(source=events, to=app.table("latest", key="place"), freshness="10 seconds")
    def keep(events: DataFrame) -> DataFrame:
        return events.select(F.col("key").alias("name"), "n")

    counting, keeping = check_app(app, load({"home": tmp_path}, environ={}))
    (refusal,) = counting["gears"]["near-real-time"]["refusals"]
    assert "declare the grouping columns as its key" in refusal["rewrite"]
    assert "key='place', which the rows do not have" in keeping["error"]["what"]
    assert keeping["error"]["file"].endswith("test_keyed_tables.py")


def test_without_order_by_the_last_record_of_a_key_stays_however_many_a_batch_has(
    unique: str, settings: Settings
) -> None:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key", partitions=3)

    @app.pipeline(source=events, to=app.table("latest", key="key"), freshness="10 seconds")
    def keep(events: DataFrame) -> DataFrame:
        return events.where("n % 10 != 9")

    uri = tables.table_uri(settings.warehouse_uri, "latest")
    last: dict[str, int] = {}

    def send(producer: Producer, numbers: range) -> None:
        for n in numbers:
            key = f"k{n * n % 17}"
            producer.send(events, Event(key=key, n=n))
            if n % 10 != 9:
                last[key] = n
        producer.flush()

    with Runner(app, settings) as runner, Producer(runner.stack.connection) as producer:
        for numbers in (range(2000, 4000), range(500)):  # later is what comes later, not what is higher
            send(producer, numbers)
            eventually(
                lambda: tables.exists(uri) and {row["key"]: row["n"] for row in tables.rows(uri)} == last,
                every=0.3,
            )
            assert runner.supervisors["keep"].condition.error is None
        assert max(batch.records for batch in runner.supervisors["keep"].ledger.recent) > 17


def test_rows_that_nothing_puts_in_order_are_refused_by_check(tmp_path: Path) -> None:
    app = gs.App("checked")
    events = app.topic("events", value=Event, key="key", partitions=3)
    names = app.table("names")
    how = {"freshness": "10 seconds"}

    @app.pipeline(source=events, to=names, freshness="10 seconds")
    def keep_names(events: DataFrame) -> DataFrame:
        return events.select("key", F.upper("key").alias("name"))

    @app.pipeline(source=events, to=app.table("by_two", key="key"), **how)
    def grouped_by_more(events: DataFrame) -> DataFrame:
        return events.groupBy("key", "n").count()

    @app.pipeline(source=events, to=app.table("spread", key="key"), **how)
    def shuffled(events: DataFrame) -> DataFrame:
        return events.repartition(4)

    @app.pipeline(source=events, to=app.table("spread_in_order", key="key", sequence_by="n"), **how)
    def shuffled_in_order(events: DataFrame) -> DataFrame:
        return events.repartition(4)

    @app.pipeline(source=events, to=app.table("by_key", key="key"), **how)
    def grouped(events: DataFrame) -> DataFrame:
        return events.groupBy("key").agg(F.max("n").alias("n")).where("n > 3")

    @app.pipeline(source=events, to=app.table("by_window", key=("key", "start")), **how)
    def windowed(events: DataFrame) -> DataFrame:
        timed = events.withColumn("at", F.timestamp_seconds("n")).withWatermark("at", "1 hour")
        return (
            timed.groupBy("key", F.window("at", "1 hour")).count().selectExpr("key", "window.start", "count")
        )

    @app.pipeline(source=events, to=app.table("firsts", key="key"), **how)
    def first(events: DataFrame) -> DataFrame:
        return events.dropDuplicates(["key"])

    @app.pipeline(source={"events": events, "names": names}, to=app.table("named", key="key"), **how)
    def named(events: DataFrame, names: DataFrame) -> DataFrame:
        return events.join(F.broadcast(names), "key", "left")

    found = {each["pipeline"]: each["error"] for each in check_app(app, load({"home": tmp_path}, environ={}))}
    assert {name for name, error in found.items() if error} == {"grouped_by_more", "shuffled"}
    assert "grouped by key, n" in found["grouped_by_more"]["what"]
    assert found["grouped_by_more"]["hint"] == "add n to the table's key, or declare sequence_by="
    assert "are shuffled, so" in found["shuffled"]["what"]
    assert "sequence_by=" in found["shuffled"]["hint"]
    assert found["shuffled"]["file"].endswith("test_keyed_tables.py")
