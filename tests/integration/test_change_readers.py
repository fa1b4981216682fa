"""The two readers of Debezium's records, Python's in deliveries and Spark's in pipelines, agree on every record."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from io import BytesIO
from typing import Any, TypeVar

import fastavro
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import gearshift as gs
from gearshift.definitions import Location, Topic
from gearshift.errors import DecodeError
from gearshift.pipelines.records import reading
from gearshift.pipelines.records.debezium import VALUE, WHY
from gearshift.schemas.debezium.avro import Written, reader
from gearshift.schemas.debezium.events import ChangeDecoder
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.wire import pack, unpack
from gearshift.settings import load
from gearshift.spark.session import open_session
from gearshift.stack.artifacts.artifacts import jars
from tests.change_values import IN_AVRO, Everything, avro_rows, avro_schema, envelopes
from tests.meanings import damaged


@dataclass(frozen=True)
class Newer(Everything):
    """The row with columns that its table may not have yet."""

    tip: int | None = 5
    served: int = 3


TOPIC = Topic(name="x", value=Everything, format="json", envelope="debezium", defined_at=Location("x.py", 1))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NONE = reading.Versions(writers={})


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    own = load({"home": tmp_path_factory.mktemp("readers"), "spark_master": "local[2]"}, environ={})
    log_file = own.home / "logs" / "spark.log"
    session = open_session(gs.App("x").graph, own, jars("spark", cache=own.cache), log_file=log_file)
    yield session
    session.stop()


def by_python(
    record: bytes, read: Callable[[bytes], Any] | None = None, row: type[Everything] = Everything
) -> dict[str, Any] | str:
    """The row as a delivery has it, or why there is none."""
    try:
        change = ChangeDecoder(row, read=read).decode(None, record)
    except DecodeError as error:
        return str(error)
    assert change is not None and change.after is not None
    found = dict(vars(change.after))
    found["status"] = found["status"] and found["status"].value
    found["at"] = found["at"] and (found["at"] - EPOCH) // timedelta(microseconds=1)
    return found


def by_spark(
    spark: SparkSession, records: list[bytes], topic: Topic = TOPIC, versions: reading.Versions = NONE
) -> list[dict[str, Any] | str]:
    """The rows as a pipeline has them, or why there is none."""
    now = datetime.now(UTC)
    rows = [(None, bytearray(record), 0, offset, now) for offset, record in enumerate(records)]
    raw = spark.createDataFrame(  # pyright: ignore[reportUnknownMemberType]
        rows, "key binary, value binary, partition int, offset long, timestamp timestamp"
    )
    decoded = reading.decode(raw, topic, versions).orderBy("offset")
    # As a number: PySpark cannot make a datetime of the first day of the year 1.
    after = F.col(f"{VALUE}.after")
    after = after.withField("at", F.unix_micros(after["at"])).alias("after")
    # A pipeline stops at a record that lacks a required column; a delivery sets it aside.
    missing = F.concat(F.col(f"{VALUE}.missing"), F.lit(" is missing"))
    why = F.when(F.col(reading.CORRUPT), F.col(WHY)).otherwise(missing).alias("why")
    found = decoded.select(after, why).collect()
    return [row["why"] or _plain(row["after"].asDict()) for row in found]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: bytes(value) if isinstance(value, bytearray) else value for name, value in row.items()}


def _same(one: dict[str, Any] | str, other: dict[str, Any] | str) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str)
    return all(_equal(one[name], other[name]) for name in one)


def _equal(one: Any, other: Any) -> bool:
    return one == other or (one != one and other != other)


T = TypeVar("T")


def generated(records: st.SearchStrategy[T], count: int) -> list[T]:
    """So many records: a query takes seconds, whether it is for one record or for thousands."""
    found: list[T] = []

    # The same records each time; `GEARSHIFT_TEST_RANDOM=1` draws others.
    @settings(
        max_examples=count,
        phases=(Phase.generate,),
        database=None,
        derandomize="GEARSHIFT_TEST_RANDOM" not in os.environ,
    )
    @given(records)
    def collect(record: T) -> None:
        found.append(record)

    collect()
    return found


@cache
def in_json() -> list[bytes]:
    return generated(envelopes(), 3000)


@cache
def in_avro() -> tuple[dict[int, str], list[bytes]]:
    """Schemas by id, and records of them."""
    schemas = {number: avro_schema(table) for number, table in enumerate(IN_AVRO)}
    plain = {number: fastavro.parse_schema(Written.read(text).plain) for number, text in schemas.items()}
    records: list[bytes] = []
    for number, row in generated(avro_rows(), 2000):
        written = BytesIO()
        envelope = {"before": None, "after": row, "source": {"connector": "mariadb"}, "op": "c"}
        fastavro.schemaless_writer(written, plain[number], envelope)
        records.append(pack(number, written.getvalue()))
    return schemas, records


def reader_of(schemas: dict[int, str]) -> Callable[[bytes], Any]:
    readers = {number: reader(text) for number, text in schemas.items()}

    def read(data: bytes) -> Any:
        number, payload = unpack(data)
        return readers[number](payload)

    return read


def misspelt(chance: random.Random, record: bytes) -> bytes:
    """The record with a letter or a digit of it changed, so that most are still JSON."""
    out = bytearray(record)
    at = chance.choice([at for at, byte in enumerate(record) if chr(byte).isalnum()])
    out[at] = ord(chance.choice("0123456789" if chr(out[at]).isdigit() else "abcdefnqrstu"))
    return bytes(out)


def test_both_readers_give_the_same_row_or_none_of_json(spark: SparkSession) -> None:
    records = in_json()
    assert_same(records, [by_python(record) for record in records], by_spark(spark, records))


def test_both_readers_give_the_same_row_or_none_of_damaged_json(spark: SparkSession) -> None:
    chance = random.Random(7)
    records = [
        b'{"op":"c","after":{"name":' + b"[" * 300 + b"]" * 300 + b"}}",
        *(misspelt(chance, record) for record in in_json()),
        *(damaged(chance, record) for record in in_json()[:1000]),
    ]
    assert_same(records, [by_python(record) for record in records], by_spark(spark, records), least=300)


def test_neither_reader_takes_a_delete_that_does_not_say_which_row(spark: SparkSession) -> None:
    row = {"id": 1}
    records = [json.dumps({"op": "d", "before": None, "after": after}).encode() for after in (None, row)]
    for one, other in zip(map(by_python, records), by_spark(spark, records), strict=True):
        assert "does not say which row was deleted" in one
        assert "does not say which row was deleted" in other


def test_neither_reader_takes_a_schema_that_does_not_describe_each_column_once(spark: SparkSession) -> None:
    unnamed, twice = [{"type": "int64"}], [{"field": "id"}, {"field": "id"}]
    schemas = [
        {"type": "array"},
        {"type": "struct"},
        {"type": "struct", "fields": [None]},
        {"type": "struct", "fields": [{"field": "op"}, {"field": "op"}]},
        {"type": "struct", "fields": [{"field": "after", "type": "int32"}]},
        {"type": "struct", "fields": [{"field": "after", "type": "struct"}]},
        {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": unnamed}]},
        {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": twice}]},
    ]
    records = [
        json.dumps({"schema": schema, "payload": {"op": "c", "after": {"id": 1}}}).encode()
        for schema in schemas
    ]
    for one, other in zip(map(by_python, records), by_spark(spark, records), strict=True):
        assert "an invalid Connect schema" in one
        assert other == "it is not a readable Debezium envelope"


def test_both_readers_agree_on_what_is_wrapped_and_on_a_column_that_the_table_no_longer_has(
    spark: SparkSession,
) -> None:
    envelope = {"op": "c", "after": {"id": 1}}  # without the optional columns, which are null
    wholes = (
        {"schema": None, "payload": envelope},
        {"payload": envelope},
        {"schema": None, "payload": envelope, "more": 1},
        {**envelope, "payload": {"op": "c", "after": {"id": 2}}},
        {"op": "c", "after": {}},
    )
    records = [json.dumps(whole).encode() for whole in wholes]
    one = [by_python(record) for record in records]
    assert [row["id"] if isinstance(row, dict) else None for row in one] == [1, None, None, 1, None]
    assert_same(records, one, by_spark(spark, records))


def test_both_readers_give_a_default_for_a_column_that_is_absent_and_not_for_a_null(
    spark: SparkSession,
) -> None:
    rows = ({}, {"tip": None}, {"served": None}, {"tip": 7, "served": 8})
    records = [json.dumps({"op": "c", "after": {"id": 1, **row}}).encode() for row in rows]
    one = [by_python(record, row=Newer) for record in records]
    assert [isinstance(row, dict) and (row["tip"], row["served"]) for row in one] == [
        (5, 3), (None, 3), False, (7, 8),
    ]  # fmt: skip
    assert_same(records, one, by_spark(spark, records, replace(TOPIC, value=Newer)))


def test_both_readers_give_the_same_row_or_none_of_avro(spark: SparkSession) -> None:
    schemas, records = in_avro()
    read = reader_of(schemas)
    found = by_spark(spark, records, replace(TOPIC, format="avro"), reading.Versions(writers=schemas))
    assert_same(records, [by_python(record, read) for record in records], found)


def test_both_readers_give_the_same_row_or_none_of_damaged_avro(spark: SparkSession) -> None:
    schemas, whole = in_avro()
    chance = random.Random(7)
    records = [record[:5] + damaged(chance, record[5:]) for record in whole]
    read = reader_of(schemas)
    found = by_spark(spark, records, replace(TOPIC, format="avro"), reading.Versions(writers=schemas))
    assert_same(records, [by_python(record, read) for record in records], found, least=50)


def test_neither_reader_takes_a_recursive_or_invalid_avro_schema(spark: SparkSession) -> None:
    op, none = {"name": "op", "type": "string"}, {"type": "record", "name": "R"}
    schemas = {
        # Spark reads no recursive schema, and Debezium writes none.
        900: {**none, "fields": [op, {"name": "next", "type": ["null", "R"]}]},
        901: {**none, "fields": [{"name": "next", "type": "R"}]},
        902: none,
    }
    writers = {id_: json.dumps(schema) for id_, schema in schemas.items()}
    for text in writers.values():
        with pytest.raises(Misfit):
            reader(text)
    records = [pack(id_, b"\x02c" * 9000) for id_ in writers]
    found = by_spark(spark, records, replace(TOPIC, format="avro"), reading.Versions(writers=writers))
    assert found == ["it is not a readable Debezium envelope"] * 3


Rows = list[dict[str, Any] | str]


def assert_same(records: list[bytes], one: Rows, other: Rows, *, least: int | None = None) -> None:
    differences = [
        f"{_differing(*rows)}\n  {record!r}"
        for record, *rows in zip(records, one, other, strict=True)
        if not _same(*rows)
    ]
    assert not differences, f"{len(differences)} of {len(records)}:\n" + "\n".join(differences[:20])
    accepted = sum(isinstance(row, dict) for row in one)
    assert (len(records) / 5 if least is None else least) < accepted < len(records)


def _differing(one: dict[str, Any] | str, other: dict[str, Any] | str) -> str:
    if isinstance(one, str) or isinstance(other, str):
        return f"python: {one if isinstance(one, str) else 'a row'}; spark: {other if isinstance(other, str) else 'a row'}"
    return "; ".join(
        f"{n}: python {one[n]!r}, spark {other[n]!r}" for n in one if not _equal(one[n], other[n])
    )
