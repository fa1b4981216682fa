"""Values that would break a table for its readers: set aside, refused by name, or stored where they can be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction
from pyspark.sql import SparkSession

from gearshift import tables
from gearshift.definitions import Location, Table, Topic
from gearshift.errors import TableError
from gearshift.pipelines.records import reading
from gearshift.pipelines.records.debezium import WHY
from gearshift.schemas import encode, pack, schema_text

HERE = Location(__file__, 1)
LAST = 2**63 - 1  # microseconds: the year 294247


@dataclass
class Note:
    text: str
    at: datetime
    tags: list[str]


def test_a_record_that_no_table_could_hold_is_corrupt_and_says_which_field(spark: SparkSession) -> None:
    topic = Topic(name="notes", value=Note, key=None, partitions=1, format="avro", defined_at=HERE)
    good = encode(Note("ab", datetime(2026, 1, 1, tzinfo=UTC), ["cd"]))
    at = good[3:-5]
    assert (good[1:3], good[-3:-1]) == (b"ab", b"cd")
    values = [
        good,
        good.replace(b"ab", b"\xff\xfe"),
        good.replace(b"cd", b"\xc3\x28"),
        good.replace(at, b"\xfe" + b"\xff" * 8 + b"\x01"),  # zigzag of 2^63 - 1
        good.replace(b"ab", b"a\0"),
    ]
    records = [(bytearray(pack(1, value)), 0, offset) for offset, value in enumerate(values)]
    raw = spark.createDataFrame(records, "value binary, partition int, offset bigint")
    versions = reading.Versions(writers={1: schema_text(topic)}, asks=False)
    found = reading.decode(raw, topic, versions).select(reading.CORRUPT, WHY).collect()
    assert [tuple(row) for row in found] == [
        (False, None),
        (True, "field text: is not valid UTF-8"),
        (True, "field tags.[0]: is not valid UTF-8"),
        (True, "field at: is not between the years 1 and 9999"),
        (False, None),
    ]


@pytest.mark.parametrize(
    ("column", "what"),
    [
        ("cast(X'61ff' as string)", "column bad is not valid UTF-8: 0x61FF"),
        (
            f"timestamp_micros({LAST})",
            f"column bad is not between the years 1 and 9999: {LAST} microseconds since 1970",
        ),
        ("array(cast(X'ff' as string))", "column bad contains text that is not valid UTF-8"),
    ],
)
def test_a_transform_that_makes_one_is_refused_by_column_and_value(
    spark: SparkSession, tmp_path: Path, column: str, what: str
) -> None:
    frame = spark.range(3).selectExpr("id", f"if(id = 1, {column}, null) AS bad")
    for by in ((), ("bad",)):
        if by and column.startswith(("array", "timestamp")):
            continue
        table = Table(name="notes", partition_by=by, defined_at=HERE)
        with pytest.raises(TableError) as refused:
            tables.append(table, (tmp_path / "notes").as_uri(), frame, writer="w", batch_id=0)
        assert refused.value.what.startswith(f"table notes: {what}")


def test_a_partition_value_that_no_folder_can_be_named_after_is_stored(
    spark: SparkSession, tmp_path: Path
) -> None:
    texts = ["plain", "x" * 300, "nul\0inside", "/" * 100, "y" * 200, "ü" * 130, None, "012\0" + "34"]
    frame = spark.createDataFrame(list(enumerate(texts)), "id bigint, place string")
    uri = (tmp_path / "notes").as_uri()
    table = Table(name="notes", partition_by=("place",), defined_at=HERE)
    with pytest.raises(TableError, match="partition column place cannot be a folder's name"):
        tables.append(table, uri, frame, writer="w", batch_id=0)
    tables.append(table, uri, frame, writer="w", batch_id=0)

    keyed = (tmp_path / "keyed").as_uri()
    tables.upsert(Table(name="keyed", key=("id",), partition_by=("place",), defined_at=HERE), keyed, frame)

    def by_id(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return sorted((row["id"], row["place"]) for row in rows)

    for place in (uri, keyed):
        assert by_id(tables.rows(place)) == list(enumerate(texts))
        assert by_id([row.asDict() for row in tables.load(spark, place).collect()]) == list(enumerate(texts))
        assert by_id(DeltaTable(place).to_pyarrow_table().to_pylist()) == list(enumerate(texts))


def test_a_table_that_holds_one_already_says_where(tmp_path: Path) -> None:
    raw = pa.array([b"fine", b"\xff\xfe"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    at = pa.array([0, 2**62], pa.int64()).cast(pa.timestamp("us", "UTC"))
    uri = str(tmp_path / "notes")
    empty = pa.schema([("id", pa.int64()), ("text", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    write_deltalake(uri, empty.empty_table())
    pq.write_table(pa.table({"id": [1, 2], "text": text, "at": at}), f"{uri}/bad.parquet")
    delta = DeltaTable(uri)
    size = Path(uri, "bad.parquet").stat().st_size
    action = AddAction("bad.parquet", size, {}, 0, True, json.dumps({"numRecords": 2}))
    delta.create_write_transaction([action], "append", delta.schema(), [])

    warehouse = tmp_path.as_uri()
    assert tables.sql(warehouse, "SELECT count(*), max(id) FROM notes").rows == ((2, 2),)
    assert tables.sql(warehouse, "SELECT text FROM notes WHERE id = 1").rows == (("fine",),)
    with pytest.raises(TableError, match=r"row 1 of column text cannot be read: .*\(file bad\.parquet\)"):
        tables.sql(warehouse, "SELECT text FROM notes")
    # DuckDB answers with text where Python has no such year.
    assert tables.sql(warehouse, 'SELECT "at" FROM notes WHERE id = 2').rows == (
        ("148108-07-06 14:00:27.387904+00",),
    )
