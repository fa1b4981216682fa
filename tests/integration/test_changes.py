"""Debezium's records of several origins as Spark reads them: recorded bytes, MySQL, and what is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import gearshift as gs
from gearshift.definitions import Location, Topic
from gearshift.pipelines.records import reading
from gearshift.pipelines.records.debezium import WHY
from gearshift.settings import load
from gearshift.spark.session import open_session
from gearshift.stack.artifacts.artifacts import jars
from tests import changes_in_avro
from tests.changes_in_avro import Order

RECORDED = Path(__file__).parents[1] / "data" / "debezium"
NONE = reading.Versions(writers={})
AT = Location("orders.py", 1)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = load({"home": tmp_path_factory.mktemp("changes"), "spark_master": "local[2]"}, environ={})
    log_file = settings.home / "logs" / "spark.log"
    session = open_session(
        gs.App("x").graph, settings, jars("spark", cache=settings.cache), log_file=log_file
    )
    yield session
    session.stop()


def frame(spark: SparkSession, records: list[tuple[bytes | None, bytes | None]]) -> DataFrame:
    rows = [
        (key and bytearray(key), value and bytearray(value), 0, offset, datetime.now(UTC))
        for offset, (key, value) in enumerate(records)
    ]
    return spark.createDataFrame(  # pyright: ignore[reportUnknownMemberType]
        rows, "key binary, value binary, partition int, offset long, timestamp timestamp"
    )


def recorded(name: str) -> list[tuple[bytes | None, bytes | None]]:
    found = json.loads((RECORDED / name).read_text())
    return [tuple(text and text.encode() for text in (one["key"], one["value"])) for one in found]


def rows_of(raw: DataFrame, topic: Topic, versions: reading.Versions = NONE) -> list[Row]:
    """The rows that a transform gets."""
    return reading.rows(raw, topic, versions, name="x", group="x", aged=False).collect()


def dead_of(raw: DataFrame, topic: Topic, versions: reading.Versions = NONE) -> dict[int, str]:
    """Why the other records are dead letters, by offset."""
    bad = reading.decode(raw, topic, versions).where(reading.CORRUPT).select("offset", WHY).collect()
    return {row.offset: row[WHY] for row in bad}


def assert_ann(ann: Row) -> None:
    """The row of the recordings, whichever way it came."""
    assert (ann.id, ann.customer, ann.amount, ann.ratio) == (1, "Ann", Decimal("12.50"), 0.1)
    assert ann.placed_at.astimezone(UTC) == datetime(2026, 3, 1, 10, 0, 0, 123456, tzinfo=UTC)
    assert ann.updated_at.astimezone(UTC) == datetime(2026, 3, 1, 8, 0, 0, 500000, tzinfo=UTC)
    assert (ann.day, ann.tags, ann.free, ann.tip) == (
        date(2026, 3, 1),
        ["a", "b"],
        Decimal("1.2345"),
        5,
    )


def test_recorded_postgresql_changes_are_the_rows_that_were_there(spark: SparkSession) -> None:
    topic = Topic(name="x", value=Order, format="json", envelope="debezium", defined_at=AT)
    plain, wrapped = recorded("postgresql-plain.json"), recorded("postgresql-schema.json")
    found = rows_of(frame(spark, plain + wrapped), topic)
    # None is a dead letter: all but the three tombstones are here.
    assert [row.op for row in found] == ["r", "r", "c", "u", "d", "u", "d", "t", "r", "u", "d"]
    rows, with_schema = found[:8], found[8:]
    assert_ann(rows[0].after)
    assert bytes(rows[0].after.raw) == b"\x00\xff"
    gone = rows[4].before
    # All that PostgreSQL said of it is the key.
    assert (gone.id, gone.customer, gone.amount) == (2, None, None)
    assert [row.position for row in rows] == sorted(row.position for row in rows)
    assert_ann(with_schema[0].after)
    assert [row.after.free for row in with_schema[:2]] == [Decimal("1.2345"), Decimal("-12")]


def test_recorded_postgresql_changes_in_avro_are_the_same_rows_and_as_they_are_now(
    spark: SparkSession,
) -> None:
    recording = changes_in_avro.postgresql()
    versions = reading.Versions(writers=recording.values, keys=recording.keys)
    topic = Topic(name="x", value=Order, format="avro", envelope="debezium", defined_at=AT)
    raw = frame(spark, recording.records)
    rows = rows_of(raw, topic, versions)
    assert [row.op for row in rows] == ["r", "r", "c", "u", "d", "u", "d", "t"]
    assert_ann(rows[0].after)
    assert bytes(rows[0].after.raw) == b"\x00\xff"
    assert [row.after.free for row in rows[:3]] == [Decimal("1.2345"), None, Decimal(-12)]
    assert (rows[4].before.id, rows[4].before.customer) == (2, None)
    assert (rows[5].after.amount, rows[5].after.note, rows[5].after.tip) == (Decimal("-99.99"), "n", 7)
    assert [row.position for row in rows] == sorted(row.position for row in rows)

    latest = rows_of(raw, replace(topic, as_of="latest"), versions)
    assert [(row.id, row["_deleted"]) for row in latest] == [
        (1, False),
        (2, False),
        (3, False),
        (1, False),
        (2, True),
        (1, False),
        (1, True),
        (None, True),
    ]


def test_mysql_changes_in_avro_are_the_rows_that_were_there_and_the_rest_says_what_it_is(
    spark: SparkSession,
) -> None:
    made = changes_in_avro.mysql()
    versions = reading.Versions(writers=made.values, keys=made.keys)
    topic = Topic(name="x", value=changes_in_avro.Item, format="avro", envelope="debezium", defined_at=AT)
    raw = frame(spark, made.records)
    created, updated, deleted = rows_of(raw, topic, versions)
    item = changes_in_avro.Item(**_in_utc(created.after.asDict()))
    assert (item, created.before) == (changes_in_avro.ITEM, None)
    assert updated.before == created.after == deleted.before
    assert (updated.after.name, updated.after.seen, updated.after.total) == ("green tea", None, None)
    assert [row.position for row in (created, updated)] == [0, 1]
    assert dead_of(raw, topic, versions) == {
        4: "it is not a Debezium envelope: it has no op",
        5: "it is not a readable Debezium envelope",
        6: "it is not a readable Debezium envelope",
    }


def _in_utc(row: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in row.items():
        is_bytes = isinstance(value, bytearray)
        values[name] = (
            bytes(value) if is_bytes else value.astimezone(UTC) if isinstance(value, datetime) else value
        )
    return values


@dataclass(frozen=True)
class Item:
    id: int
    name: str
    price: Decimal
    seen: datetime | None


def envelope(**changes: Any) -> dict[str, Any]:
    row = {"id": 7, "name": "tea", "price": "2.50", "seen": "2026-03-01T10:00:00Z"}
    source = {"connector": "mysql", "file": "binlog.000003", "pos": 154, "ts_ms": 1_772_000_000_000}
    return {"before": None, "after": row, "op": "c", "source": source, **changes}


def test_what_is_no_change_is_a_dead_letter_that_says_why_and_other_databases_have_their_own_places(
    spark: SparkSession,
) -> None:
    topic = Topic(name="x", value=Item, format="json", envelope="debezium", defined_at=AT)
    row = envelope()["after"]
    created, deleted = envelope(), envelope(before=row, after=None, op="d")
    deleted["source"] = {**deleted["source"], "file": "binlog.000004", "pos": 4}
    records = [
        b"\xff\xfe",
        b"",
        b"[" * 5000,
        json.dumps(row).encode(),
        json.dumps(envelope(op="?")).encode(),
        json.dumps(envelope(after=None)).encode(),
        json.dumps(envelope(after={**row, "price": "12,5"})).encode(),
        json.dumps(envelope(after={**row, "seen": 1_772_000_000_000_000})).encode(),
        json.dumps(envelope(after={**row, "name": None})).encode(),
        json.dumps(envelope(after=None, op="d")).encode(),
        None,
        json.dumps(created).encode(),
        json.dumps(deleted).encode(),
    ]
    raw = frame(spark, [(None, record) for record in records])
    first, second = rows_of(raw, topic)
    assert (first.after.id, second.before) == (7, first.after)
    assert (first.position, second.position) == (11, 12)
    assert first.source_time.astimezone(UTC) == datetime(2026, 2, 25, 6, 13, 20, tzinfo=UTC)
    dead = dead_of(raw, topic)
    assert sorted(dead) == list(range(10))
    assert [dead[place] for place in range(3, 10)] == [
        "it is not a Debezium envelope: it has no op",
        "it is not a Debezium envelope: it has no op",
        "after is missing",
        "after.price is not a valid decimal(38,18)",
        "after.seen is not a valid timestamp",
        "after.name is null",
        "it does not say which row was deleted",
    ]
