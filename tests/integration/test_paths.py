"""A project may live in a folder of any name: ledger, checkpoint and tables stay together."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import tables
from gearshift.connection import Connection
from gearshift.freshness import Gear
from gearshift.pipelines.ledger.listing import find_ledgers
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from gearshift.topics import Producer
from tests.flow import Count, Event, values
from tests.support import eventually

AWKWARD, MOVED = "mein Projekt ü%20#1", "verschoben [2] & weg"


def test_ledger_checkpoint_and_tables_stay_together_in_a_folder_of_any_name_and_when_it_moves(
    unique: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")  # as under cron and systemd: Java then has no word for an umlaut
    project = tmp_path / AWKWARD
    shop = tmp_path / "Läden & Lager #1"
    settings = settings.model_copy(update={"warehouse": str(shop)})
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key", partitions=2)
    copies = app.topic(f"{unique}-copies", value=Event, key="key", partitions=2)
    counts = app.topic(f"{unique}-counts", value=Count, key="key", partitions=2)
    kept = app.table("kept", partition_by="key")
    latest = app.table("latest", key="key")

    @app.pipeline(source=events, to=copies, gear="near-real-time", freshness="4 seconds")
    def copy(events: DataFrame) -> DataFrame:
        return events

    @app.pipeline(source=events, to=counts, gear="near-real-time", freshness="4 seconds")
    def count(events: DataFrame) -> DataFrame:
        return events.groupBy("key").agg(F.count("*").alias("count"))

    @app.pipeline(source=events, to=kept, gear="near-real-time", freshness="4 seconds")
    def keep(events: DataFrame) -> DataFrame:
        return events

    @app.pipeline(source=kept, to=latest, freshness="1 day")
    def newest(kept: DataFrame) -> DataFrame:
        return kept.groupBy("key").agg(F.max("n").alias("n"))

    sent = 0
    for name, gears in ((AWKWARD, (Gear.REAL_TIME, Gear.BATCH)), (MOVED, (Gear.NEAR_REAL_TIME, Gear.BATCH))):
        if project.exists():
            project = project.rename(tmp_path / name)
        settings = settings.model_copy(update={"home": project / ".gearshift"})
        with Runner(app, settings) as runner:
            connection = runner.context.connection
            for gear in gears:
                with Producer(connection) as producer:
                    for _ in range(50):
                        producer.send(events, Event(key=f"schlüssel {sent % 5}", n=sent))
                        sent += 1
                for name in ("copy", "count"):
                    runner.shift(name, gear)
                wait_for(connection, copies, sent)
            runner.shift("keep", Gear.BATCH)
            runner.shift("newest", Gear.BATCH)
            written = values(connection, copies)
    assert sorted(event.n for event in written) == list(range(sent))
    for ledger in find_ledgers(settings.checkpoints_uri):
        if ledger.pipeline != "newest":
            read = sum(run.records for run in ledger.runs)
            assert (read, ledger.gap, ledger.replayed) == (sent, 0, 0), ledger.pipeline
    answer = tables.sql(settings.warehouse_uri, "select count(*), max(n) from kept").rows
    assert list(answer) == [(sent, sent - 1)]
    answer = tables.sql(settings.warehouse_uri, "select count(*), max(n) from latest").rows
    assert list(answer) == [(5, sent - 1)]
    assert {path.name for path in tmp_path.iterdir()} == {MOVED, shop.name}
    checkpoints = settings.home / "checkpoints" / unique
    assert {path.name for path in checkpoints.iterdir()} == {".lease.json", "copy", "count", "keep", "newest"}


def wait_for(connection: Connection, topic: gs.Topic, records: int) -> None:
    eventually(lambda: len(values(connection, topic)) >= records)
