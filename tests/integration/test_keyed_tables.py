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
    assert "give it the key that you group by" in refusal["rewrite"]
    assert "key='place', which the rows do not have" in keeping["error"]["what"]
    assert keeping["error"]["file"].endswith("test_keyed_tables.py")
