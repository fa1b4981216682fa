"""Debezium's records of several origins as Spark reads them: recorded bytes, MySQL, and what is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import gearshift as gs
from gearshift.definitions import Location, Topic
from gearshift.pipelines import reading
from gearshift.pipelines.changes import WHY
from gearshift.pipelines.session import open_session
from gearshift.settings import load
from gearshift.stack.artifacts import jars

RECORDED = Path(__file__).parents[1] / "data" / "debezium"
NONE = reading.Versions(writers={})
AT = Location("orders.py", 1)


@dataclass(frozen=True)
class Order:
    id: int
    customer: str
    amount: Decimal
    ratio: float | None
    paid: bool
    placed_at: datetime
    updated_at: datetime | None
    day: date | None
    raw: bytes | None
    tags: list[str] | None
    note: str | None
    free: Decimal | None
    tip: int = 5


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


def read_in(
    raw: DataFrame, topic: Topic, versions: reading.Versions = NONE
) -> tuple[list[Row], dict[int, str]]:
    """The rows that a transform gets, and why the other records are dead letters, by offset."""
    bad = reading.decode(raw, topic, versions).where(reading.CORRUPT).select("offset", WHY).collect()
    return reading.rows(raw, topic, versions, name="x", aged=False).collect(), {
        row.offset: row[WHY] for row in bad
    }


def test_recorded_postgresql_changes_are_the_rows_that_were_there(spark: SparkSession) -> None:
    topic = Topic(name="x", value=Order, format="json", envelope="debezium", defined_at=AT)
    rows, dead = read_in(frame(spark, recorded("postgresql-plain.json")), topic)
    assert [row.op for row in rows] == ["r", "r", "c", "u", "d", "u", "d", "t"]
    ann = rows[0].after
    assert (ann.id, ann.customer, ann.amount) == (1, "Ann", Decimal("12.50"))
    placed_at = datetime(2026, 3, 1, 10, 0, 0, 123456, tzinfo=UTC)
    assert (ann.placed_at.astimezone(UTC), ann.day) == (placed_at, date(2026, 3, 1))
    assert (bytes(ann.raw), ann.tags, ann.free, ann.tip) == (b"\x00\xff", ["a", "b"], Decimal("1.2345"), 5)
    gone = rows[4].before
    assert (gone.id, gone.customer, gone.amount) == (
        2,
        None,
        None,
    )  # all that PostgreSQL said of it is the key
    assert [row.position for row in rows] == sorted(row.position for row in rows)
    assert dead == {}

    wrapped, dead = read_in(frame(spark, recorded("postgresql-schema.json")), topic)
    assert (dead, [row.op for row in wrapped]) == ({}, ["r", "u", "d"])
    assert wrapped[0].after[:8] == ann[:8]
    assert [row.after.free for row in wrapped[:2]] == [Decimal("1.2345"), Decimal("-12")]


def test_rows_as_they_are_now_have_columns_a_deletion_and_a_place(spark: SparkSession) -> None:
    topic = Topic(name="x", value=Order, format="json", envelope="debezium", as_of="latest", defined_at=AT)
    rows, _ = read_in(frame(spark, recorded("postgresql-plain.json")), topic)
    assert [(row.id, row["_deleted"]) for row in rows][:5] == [
        (1, False),
        (2, False),
        (3, False),
        (1, False),
        (2, True),
    ]


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


def test_other_databases_have_their_own_places_and_whole_rows_before(spark: SparkSession) -> None:
    topic = Topic(name="x", value=Item, format="json", envelope="debezium", defined_at=AT)
    created, deleted = envelope(), envelope(before=envelope()["after"], after=None, op="d")
    deleted["source"] = {**deleted["source"], "file": "binlog.000004", "pos": 4}
    raw = frame(spark, [(b'{"id":7}', json.dumps(one).encode()) for one in (created, deleted)])
    (first, second), dead = read_in(raw, topic)
    assert dead == {}
    assert second.before == first.after
    assert second.position > first.position == (3 << 36) + 154
    assert first.source_time.astimezone(UTC) == datetime(2026, 2, 25, 6, 13, 20, tzinfo=UTC)


def test_what_is_no_change_is_a_dead_letter_that_says_why(spark: SparkSession) -> None:
    topic = Topic(name="x", value=Item, format="json", envelope="debezium", defined_at=AT)
    row = envelope()["after"]
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
        json.dumps(envelope()).encode(),
    ]
    rows, dead = read_in(frame(spark, [(None, record) for record in records]), topic)
    assert [row.after.id for row in rows] == [7]
    assert sorted(dead) == list(range(10))
    assert [dead[place] for place in range(3, 10)] == [
        "it is no envelope of Debezium's: there is no op",
        "it is no envelope of Debezium's: there is no op",
        "after is missing",
        "after.price is no decimal(38,18)",
        "after.seen is no timestamp",
        "after.name is null",
        "it does not say which row was deleted",
    ]
