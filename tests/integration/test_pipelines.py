"""What pipelines read and write: tables, several sources, JSON, every type."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated

import duckdb
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import tables
from gearshift.freshness import Gear
from gearshift.runner.runner import Runner
from gearshift.schemas import Registry, pack
from gearshift.settings import Settings
from gearshift.topics import Admin, Producer, read
from tests.flow import Event, Flow, values
from tests.support import eventually


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Part:
    name: str
    weight: float | None


@dataclass
class Everything:
    text: str
    whole: int
    number: float
    truth: bool
    octets: bytes
    money: Annotated[Decimal, gs.DecimalOf(12, 2)]
    instant: datetime
    day: date
    colour: Colour
    maybe: str | None
    parts: list[Part]
    tags: dict[str, int] = field(default_factory=dict)


def example(number: int) -> Everything:
    return Everything(
        text=f"größe {number}",
        whole=2**60 + number,
        number=number / 3,
        truth=number % 2 == 0,
        octets=bytes([number % 256, 0, 255]),
        money=Decimal("-12345.67"),
        instant=datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
        day=date(1999, 12, 31),
        colour=Colour.BLUE,
        maybe=None if number % 3 else "there",
        parts=[Part("a", None), Part("b", 1.5)],
        tags={"x": number},
    )


def test_every_type_passes_through_spark_unchanged_in_avro_and_json(unique: str, settings: Settings) -> None:
    app = gs.App(unique)
    from_avro = app.topic(f"{unique}-avro", value=Everything, key="text")
    to_json = app.topic(f"{unique}-json", value=Everything, key="text", format="json")
    to_avro = app.topic(f"{unique}-back", value=Everything, key="text")

    @app.pipeline(source=from_avro, to=to_json, gear="real-time")
    def first(records: DataFrame) -> DataFrame:
        return records

    @app.pipeline(source=to_json, to=to_avro, gear="near-real-time", freshness="10 seconds")
    def second(records: DataFrame) -> DataFrame:
        return records

    garbled = app.topic(f"{unique}-garbled", value=Event, format="json")
    readable = app.topic(f"{unique}-readable", value=Event)

    @app.pipeline(source=garbled, to=readable, gear="near-real-time", freshness="10 seconds")
    def third(records: DataFrame) -> DataFrame:
        return records

    sent = [example(number) for number in range(30)]
    no_text = [b"\xff\xfe", b'{"key": "\xff", "n": 1}', b'{"key": "k", "n": "\xc3\x28"}']
    with Runner(app, settings) as runner:
        connection = runner.context.connection
        with Registry(connection) as registry, Producer(connection) as producer:
            for value in sent:
                producer.send(from_avro, value)
            for payload in no_text:
                producer.send_bytes(garbled.name, pack(registry.register(garbled), payload))
            producer.send(garbled, Event(key="naïve", n=7))
        eventually(lambda: len(values(connection, to_avro)) >= len(sent), every=0.3)
        assert sorted(values(connection, to_json), key=lambda value: value.whole) == sent
        assert sorted(values(connection, to_avro), key=lambda value: value.whole) == sent
        eventually(lambda: values(connection, readable), every=0.3)
        assert values(connection, readable) == [Event(key="naïve", n=7)]
        letters = eventually(lambda: list(read(connection, garbled.dead_letters)), every=0.3)
        assert [letter.value[5:] for letter in letters if letter.value] == no_text


def test_a_table_takes_every_record_once_through_shifts_and_batches_read_it_in_full(
    unique: str, settings: Settings
) -> None:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key", partitions=3)
    kept = app.table("kept", partition_by="part")
    totals = app.table("totals")

    @app.pipeline(source=events, to=kept, gear="near-real-time", freshness="10 seconds")
    def keep(events: DataFrame) -> DataFrame:
        return events.withColumn("part", F.col("n") % 4)

    @app.pipeline(source=kept, to=totals, freshness="1 day")
    def total(kept: DataFrame) -> DataFrame:
        return kept.groupBy("part").agg(F.count("*").alias("events"), F.max("n").alias("highest"))

    with Runner(app, settings) as runner:
        with Flow(runner.context.connection, events, rate=300) as flow:
            eventually(lambda: tables.exists(runner.context.table_uri(kept)))
            runner.shift("keep", Gear.BATCH)
            runner.shift("keep", Gear.NEAR_REAL_TIME)
            runner.shift("keep", Gear.BATCH)
        runner.shift("keep", Gear.BATCH)
        runner.shift("total", Gear.BATCH)
        uri = runner.context.table_uri(kept)
        loaded = tables.load(runner.spark, uri)
        assert loaded.count() == loaded.select("n").distinct().count() == flow.sent
        ledger = runner.supervisors["keep"].ledger
        assert (ledger.gap, ledger.replayed) == (0, 0)
        group = runner.context.admin.group_offsets(f"{unique}.keep", [events.name])
        assert sum(group.values()) == flow.sent

    warehouse = settings.warehouse_uri
    answer = tables.sql(warehouse, "select sum(events), max(highest) from totals").rows
    assert list(answer) == [(flow.sent, flow.sent - 1)]
    files = [f"{uri}/{file.path}".removeprefix("file://") for file in tables.read_paths(uri).files]
    assert duckdb.sql(f"select count(distinct n) from read_parquet({files!r})").fetchall() == [(flow.sent,)]


def test_several_sources_come_by_name_and_two_streams_join_near_real_time(
    unique: str, settings: Settings
) -> None:
    app = gs.App(unique)
    left = app.topic(f"{unique}-left", value=Event, key="key")
    right = app.topic(f"{unique}-right", value=Event, key="key")
    both = app.topic(f"{unique}-both", value=Event, key="key")

    @app.pipeline(
        source={"ours": left, "theirs": right}, to=both, gear="near-real-time", freshness="10 seconds"
    )
    def join(theirs: DataFrame, ours: DataFrame) -> DataFrame:
        return ours.join(theirs.withColumnRenamed("n", "other"), "key").select(
            "key", F.col("other").alias("n")
        )

    with Runner(app, settings) as runner:
        connection = runner.context.connection
        with Producer(connection) as producer:
            for number in range(20):
                producer.send(left, Event(f"k{number}", number))
                producer.send(right, Event(f"k{number}", 100 + number))
        eventually(lambda: len(values(connection, both)) >= 20, every=0.3)
        assert {event.n for event in values(connection, both)} == set(range(100, 120))
        assert runner.supervisors["join"].ledger.gap == 0


def test_a_batch_runs_once_per_interval_of_its_calendar(unique: str, settings: Settings) -> None:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key")
    copies = app.topic(f"{unique}-copies", value=Event, key="key")

    @app.pipeline(source=events, to=copies, freshness="1 month")
    def copy(events: DataFrame) -> DataFrame:
        return events

    def runs(runner: Runner) -> list[str]:
        return [run.why for run in runner.supervisors["copy"].ledger.runs if run.verified]

    with Runner(app, settings) as runner:
        eventually(lambda: runs(runner) == ["calendar"])
    with Runner(app, settings) as runner:
        due = eventually(lambda: runner.supervisors["copy"].condition.next_run)
        assert due > datetime.now(UTC)
        assert runner.status()["pipelines"][0]["state"] == "waiting"
        assert runs(runner) == ["calendar"]
        assert Admin(runner.context.connection).end_offsets([copies.name]) == {(copies.name, 0): 0}
