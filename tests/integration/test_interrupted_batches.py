"""A batch that ends between the table's commit and Spark's: the next start runs it again, and nothing is lost."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import tables
from gearshift.connection import Connection
from gearshift.definitions import Table
from gearshift.errors import TableError
from gearshift.pipelines.ledger.listing import find_ledgers
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from gearshift.spark.hive.publishing import Publisher
from gearshift.topics import Producer, read
from gearshift.topics.dead_letters.writer import CONNECT
from tests.flow import Event
from tests.support import eventually


def test_pipelines_that_end_between_the_tables_commit_and_sparks_go_on(
    unique: str, settings: Settings, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key", partitions=2)

    @app.pipeline(source=events, to=app.table("counts", key="key"), freshness="10 seconds")
    def count(events: DataFrame) -> DataFrame:
        return events.groupBy("key").count()

    @app.pipeline(source=events, to=app.table("firsts"), freshness="10 seconds")
    def first(events: DataFrame) -> DataFrame:
        timed = events.select("key", "n", F.timestamp_seconds(F.col("n") + 10_000).alias("at"))
        return timed.withWatermark("at", "1 hour").dropDuplicatesWithinWatermark(["n"])

    @app.pipeline(source=events, to=app.table("copies"), freshness="10 seconds")
    def copy(events: DataFrame) -> DataFrame:
        return events

    sent: list[Event] = []

    def send(producer: Producer, numbers: range) -> None:
        for n in numbers:
            sent.append(Event(key=f"k{n % 7}", n=n))
            producer.send(events, sent[-1])
        producer.send_bytes(events.name, b"garbage", key=b"x")
        producer.flush()

    def rows(name: str) -> list[dict[str, object]]:
        uri = tables.table_uri(settings.warehouse_uri, name)
        return tables.rows(uri) if tables.exists(uri) else []

    def complete() -> bool:
        numbers = sorted(event.n for event in sent)
        return (
            {row["key"]: row["count"] for row in rows("counts")} == Counter(event.key for event in sent)
            and sorted(row["n"] for row in rows("firsts")) == sorted(set(numbers))  # pyright: ignore[reportArgumentType]
            and sorted(row["n"] for row in rows("copies")) == numbers  # pyright: ignore[reportArgumentType]
        )

    # While it runs: what follows the table's commit fails once, and the query is started again.
    failed: set[str] = set()

    def fail_once(_publisher: Publisher, table: Table) -> None:
        if table.name not in failed:
            failed.add(table.name)
            raise TableError("what follows the commit failed")

    monkeypatch.setattr(Publisher, "publish", fail_once)
    with Runner(app, settings) as runner, Producer(runner.stack.connection) as producer:
        send(producer, range(100))
        eventually(complete, within=90, every=0.3)
        eventually(
            lambda: all(supervisor.condition.state == "running" for supervisor in runner.supervisors.values())
        )
        assert failed == {"counts", "firsts", "copies"}
        send(producer, range(50, 200))
        eventually(complete, within=90, every=0.3)
    # While it is stopped: Spark's commit of the last batch is missing, as after a kill.
    for ledger in find_ledgers(settings.checkpoints_uri):
        newest = ledger.checkpoint.committed()[-1]
        if ledger.checkpoint.planned()[-1] > newest:
            continue  # the stop itself came between: no batch is planned unless the one before it is committed
        folder = settings.home / "checkpoints" / unique / ledger.pipeline / "spark" / "commits"
        (folder / str(newest)).unlink()
        (folder / f".{newest}.crc").unlink(missing_ok=True)
    older = settings.home / "older"
    shutil.copytree(settings.home / "checkpoints" / unique / "copy", older)
    with Runner(app, settings) as runner, Producer(runner.stack.connection) as producer:
        send(producer, range(200, 300))
        eventually(complete, within=90, every=0.3)
        assert {supervisor.condition.error for supervisor in runner.supervisors.values()} == {None}
    for ledger in find_ledgers(settings.checkpoints_uri):
        assert sum(run.records for run in ledger.runs) == len(sent) + 3
        assert ledger.gap == 0
        assert sum(run.dead for run in ledger.runs) == 3
    # A batch that lost its commit after it was reported sets its letters aside again: each pipeline has all three.
    letters = {
        tuple(letter.header(f"{CONNECT}{what}") for what in ("connector.name", "partition", "offset"))
        for letter in read(connection, events.dead_letters)
    }
    assert len(letters) == 9
    # An older copy of checkpoint and ledger: the next batch has a number that the table has, and other records.
    folder = settings.home / "checkpoints" / unique / "copy"
    shutil.rmtree(folder)
    older.rename(folder)
    with Runner(app, settings) as runner:
        condition = runner.supervisors["copy"].condition
        eventually(lambda: condition.state == "stopped")
        assert "it is an older copy" in (condition.error or "")
        assert f"gearshift reset {unique}.copy" in (condition.error or "")
