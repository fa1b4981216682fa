"""Tables as Spark writes them and as Spark, DuckDB and delta-rs read them."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from gearshift import tables
from gearshift.definitions import Location, Table
from gearshift.errors import TableError
from gearshift.storage.location import spark_path
from gearshift.tables.write import parquet_files as files

HERE = Location(__file__, 1)


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    folder = tmp_path / "ware house"  # a place whose name each reader must escape in its own way
    return folder.as_uri()


def declared(name: str, *partition_by: str) -> Table:
    return Table(name=name, partition_by=partition_by, defined_at=HERE)


def numbers(spark: SparkSession, start: int, count: int) -> DataFrame:
    return spark.range(start, start + count, numPartitions=2)


def spark_rows(spark: SparkSession, uri: str) -> list[dict[str, object]]:
    return [row.asDict(recursive=True) for row in tables.load(spark, uri).collect()]


def by_id(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: str(row["id"]))


ALL_TYPES = """id bigint, tiny tinyint, small smallint, whole int, flag boolean, ratio float, load double, name string,
    raw binary, day date, at timestamp, price decimal(12,2), exact decimal(38,18), tags array<string>,
    counts map<string,bigint>, place struct<city:string,geo:struct<lat:double,lon:double>>"""


def test_every_type_is_read_back_the_same_by_spark_duckdb_and_delta_rs(
    spark: SparkSession, warehouse: str
) -> None:
    uri = tables.table_uri(warehouse, "types")
    at = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)
    full = (
        *(1, 1, 2, 3, True, 0.5, 2.25, "é", bytearray(b"\x00\xff"), date(1969, 12, 31), at, Decimal("19.90")),
        *(
            Decimal("1.000000000000000001"),
            ["a", None],
            {"k": 1},
            {"city": "x", "geo": {"lat": 1.0, "lon": 2.0}},
        ),
    )
    empty = (2, *[None] * 15)
    frame = spark.createDataFrame([full, empty], ALL_TYPES)
    tables.append(declared("types"), uri, frame, writer="w", batch_id=0)

    loaded = tables.load(spark, uri)
    assert [(f.name, f.dataType) for f in loaded.schema] == [(f.name, f.dataType) for f in frame.schema]
    assert loaded.orderBy("id").collect() == frame.orderBy("id").collect()

    first = by_id(DeltaTable(uri).to_pyarrow_table().to_pylist())[0]
    assert first["at"] == at
    assert (first["price"], first["exact"]) == (Decimal("19.90"), Decimal("1.000000000000000001"))
    assert first["place"] == {"city": "x", "geo": {"lat": 1.0, "lon": 2.0}}

    answer = tables.sql(warehouse, "SELECT * FROM types ORDER BY id")
    types = dict(zip(answer.columns, answer.types, strict=True))
    assert types["at"] == "TIMESTAMP WITH TIME ZONE"
    assert (types["price"], types["exact"], types["day"]) == ("DECIMAL(12,2)", "DECIMAL(38,18)", "DATE")
    row = answer.dicts()[0]
    assert row["at"] == at
    assert row["raw"] == b"\x00\xff"
    assert row["counts"] == {"k": 1}
    assert set(answer.dicts()[1].values()) == {2, None}


def test_a_batch_is_written_once_however_often_it_is_asked_for(spark: SparkSession, warehouse: str) -> None:
    uri = tables.table_uri(warehouse, "once")
    table = declared("once")
    first = tables.append(table, uri, numbers(spark, 0, 10), writer="w", batch_id=0)
    again = tables.append(table, uri, numbers(spark, 0, 10), writer="w", batch_id=0)
    assert (first.written, first.rows, first.version) == (True, 10, 0)
    assert (again.written, again.rows, again.version) == (False, 0, 0)
    assert tables.append(table, uri, numbers(spark, 10, 5), writer="w", batch_id=1).written
    assert not tables.append(table, uri, numbers(spark, 0, 10), writer="w", batch_id=0).written
    assert tables.append(table, uri, numbers(spark, 100, 1), writer="other", batch_id=0).written
    assert sorted(row["id"] for row in tables.rows(uri)) == [*range(15), 100]
    assert tables.read_paths(uri).rows == 16


def test_a_batch_is_still_known_after_the_log_was_compacted(spark: SparkSession, warehouse: str) -> None:
    uri = tables.table_uri(warehouse, "compacted_log")
    table = declared("compacted_log")
    for batch_id in range(3):
        tables.append(table, uri, numbers(spark, batch_id, 1), writer="w", batch_id=batch_id)
    DeltaTable(uri).create_checkpoint()
    log = _local(uri) / "_delta_log"
    for version in range(2):
        (log / f"{version:020}.json").unlink()
    assert not tables.append(table, uri, numbers(spark, 2, 1), writer="w", batch_id=2).written
    assert tables.append(table, uri, numbers(spark, 3, 1), writer="w", batch_id=3).written
    assert tables.read_paths(uri).rows == 4


def test_an_empty_first_batch_makes_the_table_with_its_columns(spark: SparkSession, warehouse: str) -> None:
    for name, partition_by in (("plain", ()), ("parted", ("day",))):
        uri = tables.table_uri(warehouse, name)
        table = declared(name, *partition_by)
        nothing = spark.createDataFrame([], "id bigint, day date")
        commit = tables.append(table, uri, nothing, writer="w", batch_id=0)
        assert (commit.written, commit.rows, commit.files) == (True, 0, 0)
        assert tables.load(spark, uri).schema == nothing.schema
        assert tables.sql(warehouse, f"SELECT count(*) FROM {name}").rows == ((0,),)
        assert not tables.append(table, uri, nothing, writer="w", batch_id=0).written
        assert tables.append(table, uri, nothing, writer="w", batch_id=1).written
        one = spark.createDataFrame([(1, date(2026, 1, 1))], "id bigint, day date")
        tables.append(table, uri, one, writer="w", batch_id=2)
        assert tables.rows(uri) == [{"id": 1, "day": date(2026, 1, 1)}] == spark_rows(spark, uri)


ODD = [
    "a b",
    "a/b",
    "50%",
    "a%2Fb",
    "x=y",
    "é日本🚀",
    "{[*?]}",
    "#&+~",
    "'\"\\`",
    "..",
    ".",
    " ",
    "\t\n",
    "null",
    "1e5",
    None,
]


def test_partition_values_of_any_kind_are_the_same_for_every_reader(
    spark: SparkSession, warehouse: str
) -> None:
    uri = tables.table_uri(warehouse, "odd")
    kinds = [(date(2026, 1, 31), 7, True), (date(1, 1, 1), -7, False), (None, None, None)]
    rows = [(n, text, *kinds[n % 3]) for n, text in enumerate(ODD)]
    frame = spark.createDataFrame(rows, "id bigint, place string, day date, size int, flag boolean")
    table = declared("odd", "place", "day", "size", "flag")
    for batch_id in range(2):
        tables.append(
            table, uri, frame.withColumn("id", F.col("id") + 100 * batch_id), writer="w", batch_id=batch_id
        )

    expected = by_id([row.asDict() for row in frame.collect()])
    expected = by_id(expected + [{**row, "id": row["id"] + 100} for row in expected])
    assert by_id(spark_rows(spark, uri)) == expected
    assert by_id(tables.rows(uri)) == expected
    assert by_id(DeltaTable(uri).to_pyarrow_table().to_pylist()) == expected
    assert tables.load(spark, uri).schema == frame.schema
    assert tables.sql(warehouse, "SELECT count(*) FROM odd WHERE place = 'a/b'").rows == ((2,),)
    assert tables.load(spark, uri).where("place = 'a/b' and day is null").count() == 0
    assert tables.load(spark, uri).where("size = 7 and place = 'a b'").count() == 2


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    places=st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20),
        min_size=10,
        max_size=30,
        unique=True,
    )
)
def test_any_text_survives_as_a_partition(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, places: list[str]
) -> None:
    # A NUL is the one letter that no folder's name can have and that Spark does not escape: it refuses the write.
    uri = (tmp_path_factory.mktemp("texts") / "texts").as_uri()
    frame = spark.createDataFrame(list(enumerate(places)), "id bigint, place string").coalesce(1)
    tables.append(declared("texts", "place"), uri, frame, writer="w", batch_id=0)
    expected = [{"id": n, "place": place or None} for n, place in enumerate(places)]
    assert sorted(tables.rows(uri), key=lambda row: row["id"]) == expected
    assert sorted(spark_rows(spark, uri), key=lambda row: row["id"]) == expected


def test_spark_reads_only_the_partitions_a_filter_asks_for(spark: SparkSession, warehouse: str) -> None:
    uri = tables.table_uri(warehouse, "pruned")
    frame = numbers(spark, 0, 100).withColumn("part", F.col("id") % 10)
    for batch_id in range(2):
        tables.append(declared("pruned", "part"), uri, frame, writer="w", batch_id=batch_id)
    found = (
        tables.load(spark, uri).where("part = 3").select(F.input_file_name().alias("file"), "id").collect()
    )
    assert {row.file.split("part=")[1][0] for row in found} == {"3"}
    assert len(found) == 20
    plan = tables.load(spark, uri).where("part = 3")._jdf.queryExecution().toString()
    assert "PartitionFilters: [isnotnull(part" in plan


def test_a_crash_before_the_commit_leaves_nothing_to_see(spark: SparkSession, warehouse: str) -> None:
    uri = tables.table_uri(warehouse, "crashed")
    table = declared("crashed", "part")
    frame = numbers(spark, 0, 20).withColumn("part", F.col("id") % 2)
    orphans = files.write(frame, uri, partition_by=["part"], label="w-0")
    assert orphans.rows == 20
    assert not tables.exists(uri)

    tables.append(table, uri, frame, writer="w", batch_id=0)
    files.write(frame, uri, partition_by=["part"], label="w-1")
    assert len(tables.rows(uri)) == 20 == tables.load(spark, uri).count()

    removed = DeltaTable(uri).vacuum(
        retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True
    )
    assert len(removed) >= 2 * len(orphans.files)
    assert not list(_local(uri).glob(f"{orphans.folder}/**/*.parquet"))
    assert len(tables.rows(uri)) == 20 == tables.load(spark, uri).count()


def test_racing_writers_lose_nothing_and_repeat_nothing(spark: SparkSession, warehouse: str) -> None:
    uri = tables.table_uri(warehouse, "raced")
    table = declared("raced")

    def write(task: tuple[str, int]) -> tables.Commit:
        writer, batch_id = task
        start = (0 if writer == "a" else 1000) + batch_id * 10
        return tables.append(table, uri, numbers(spark, start, 10), writer=writer, batch_id=batch_id)

    with ThreadPoolExecutor(6) as threads:
        commits = list(threads.map(write, [("a", 0)] * 3 + [("b", 0)] * 3))
        commits += list(threads.map(write, [("a", 1), ("b", 1)] * 2))
    assert [commit.written for commit in commits].count(True) == 4
    counted = Counter(row["id"] for row in tables.rows(uri))
    assert counted == Counter([*range(20), *range(1000, 1020)])
    left = {path.parent.name for path in _local(uri).glob("gearshift_write=*/*.parquet")}
    assert len(left) == 4  # who lost took its files away


def test_a_reader_sees_whole_batches_only(spark: SparkSession, warehouse: str) -> None:
    uri = tables.table_uri(warehouse, "whole")
    table = declared("whole", "part")
    seen: list[tuple[int, ...]] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            if tables.exists(uri):
                answer = tables.sql(warehouse, "SELECT batch, count(*) FROM whole GROUP BY batch")
                seen.append(tuple(count for _, count in answer.rows))

    with ThreadPoolExecutor(1) as threads:
        watching = threads.submit(watch)
        try:
            for batch_id in range(6):
                frame = (
                    numbers(spark, 0, 300)
                    .withColumn("part", F.col("id") % 3)
                    .withColumn("batch", F.lit(batch_id))
                )
                tables.append(table, uri, frame, writer="w", batch_id=batch_id)
            for batch_id in range(6, 10):
                frame = (
                    numbers(spark, 0, 300)
                    .withColumn("part", F.col("id") % 3)
                    .withColumn("batch", F.lit(batch_id))
                )
                tables.overwrite(table, uri, frame)
        finally:
            done.set()
        watching.result(timeout=60)
    assert {count for counts in seen for count in counts} == {300}
    assert {len(counts) for counts in seen} <= set(range(1, 7))
    assert len(set(seen)) > 1
    assert tables.rows(uri)[0]["batch"] == 9
    assert tables.read_paths(uri).rows == 300


def test_overwrite_replaces_rows_and_columns_at_once(spark: SparkSession, warehouse: str) -> None:
    uri = tables.table_uri(warehouse, "replaced")
    table = declared("replaced")
    assert tables.overwrite(table, uri, numbers(spark, 0, 5)).version == 0
    commit = tables.overwrite(table, uri, spark.createDataFrame([("x", 1.5)], "id string, load double"))
    assert (commit.rows, commit.version) == (1, 1)
    assert tables.rows(uri) == [{"id": "x", "load": 1.5}] == spark_rows(spark, uri)
    assert tables.overwrite(table, uri, spark.createDataFrame([], "id string, load double")).rows == 0
    assert tables.rows(uri) == [] == spark_rows(spark, uri)
    tables.append(
        table, uri, spark.createDataFrame([("y", 2.5)], "id string, load double"), writer="w", batch_id=0
    )
    assert tables.rows(uri) == [{"id": "y", "load": 2.5}]


def test_a_table_can_be_overwritten_with_what_is_read_from_it(spark: SparkSession, warehouse: str) -> None:
    uri = tables.table_uri(warehouse, "itself")
    tables.overwrite(declared("itself"), uri, numbers(spark, 0, 5))
    tables.overwrite(declared("itself"), uri, tables.load(spark, uri).where("id > 2"))
    assert sorted(row["id"] for row in tables.rows(uri)) == [3, 4]


def test_only_touched_partitions_are_replaced(spark: SparkSession, warehouse: str) -> None:
    uri = tables.table_uri(warehouse, "touched")
    table = declared("touched", "day", "place")
    schema = "id bigint, day date, place string"
    one, two = date(2026, 1, 1), date(2026, 1, 2)
    old = [(1, one, "a/b"), (2, one, "c"), (3, two, "a/b"), (4, two, None), (5, None, "c")]
    tables.append(table, uri, spark.createDataFrame(old, schema), writer="w", batch_id=0)
    new = [(10, one, "a/b"), (40, two, None), (50, None, "new")]
    commit = tables.overwrite(table, uri, spark.createDataFrame(new, schema), only_touched=True)
    assert commit.rows == 3
    assert sorted(row["id"] for row in tables.rows(uri)) == [2, 3, 5, 10, 40, 50]
    wider = spark.createDataFrame([(11, one, "a/b", 1.5)], f"{schema}, load double")
    tables.overwrite(table, uri, wider, only_touched=True)
    assert sorted((row["id"], row["load"]) for row in tables.rows(uri) if row["day"] == one) == [
        (2, None),
        (11, 1.5),
    ]


def test_racing_overwrites_do_not_mix(spark: SparkSession, warehouse: str) -> None:
    for name, only_touched in (("whole_race", False), ("touched_race", True)):
        uri = tables.table_uri(warehouse, name)
        table = declared(name, "part")
        tables.overwrite(table, uri, spark.createDataFrame([], "id bigint, part string"))

        def replace(
            start: int, table: Table = table, uri: str = uri, only_touched: bool = only_touched
        ) -> tables.Commit:
            frame = numbers(spark, start, 10).withColumn("part", F.lit("one"))
            return tables.overwrite(table, uri, frame, only_touched=only_touched)

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(replace, [0, 100, 200, 300]))
        ids = sorted(row["id"] for row in tables.rows(uri))
        assert ids in [list(range(start, start + 10)) for start in (0, 100, 200, 300)]


def test_a_new_column_is_added_and_old_rows_have_null_in_it(spark: SparkSession, warehouse: str) -> None:
    uri = tables.table_uri(warehouse, "evolved")
    table = declared("evolved", "part")
    old = spark.createDataFrame([(1, "a")], "id bigint, part string")
    new = spark.createDataFrame([("b", Decimal("1.50"), 2)], "part string, price decimal(12,2), id bigint")
    tables.append(table, uri, old, writer="w", batch_id=0)
    tables.append(table, uri, new, writer="w", batch_id=1)
    expected = [{"id": 1, "part": "a", "price": None}, {"id": 2, "part": "b", "price": Decimal("1.50")}]
    assert by_id(tables.rows(uri)) == expected == by_id(spark_rows(spark, uri))
    assert tables.load(spark, uri).columns == ["id", "part", "price"]


def test_spark_reads_what_was_widened_grown_upserted_and_compacted(
    spark: SparkSession, warehouse: str
) -> None:
    uri = tables.table_uri(warehouse, "changed")
    table = Table(name="changed", partition_by=("place",), key=("id",), sequence_by=("at",), defined_at=HERE)
    old = "id int, at timestamp, place string, geo struct<lat:double>, stops array<struct<n:int>>"
    new = "id bigint, at timestamp, place string, geo struct<lat:double,lon:double>, stops array<struct<n:int,m:int>>"
    one, two = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    places = ["a/b", "é 日本", None, "it's 50%"]
    first = [(n, one, place, (1.5,), [(n,)]) for n, place in enumerate(places)]
    tables.upsert(table, uri, spark.createDataFrame(first, old), writer="w", batch_id=0)
    second = [
        (0, two, places[1], (1.5, 2.5), [(0, 1)]),
        (1, datetime(2025, 1, 1, tzinfo=UTC), "late", None, None),
    ]
    tables.upsert(
        table,
        uri,
        spark.createDataFrame([*second, (2**40, one, "b", None, None)], new),
        writer="w",
        batch_id=1,
    )
    expected = {
        0: (places[1], {"lat": 1.5, "lon": 2.5}, [{"n": 0, "m": 1}]),
        **{n: (places[n], {"lat": 1.5, "lon": None}, [{"n": n, "m": None}]) for n in (1, 2, 3)},
        2**40: ("b", None, None),
    }
    for _ in range(2):
        for rows in (spark_rows(spark, uri), tables.rows(uri)):
            assert {row["id"]: (row["place"], row["geo"], row["stops"]) for row in rows} == expected
        assert tables.load(spark, uri).where("place = 'é 日本'").count() == 2
        tables.append(table, uri, tables.load(spark, uri).where("false"), writer="v", batch_id=0)
        tables.compact(uri)
    narrow = spark.createDataFrame([(3, two, None, None, None)], new.replace("bigint", "int"))
    tables.upsert(table, uri, narrow, writer="w", batch_id=2)
    assert {row["id"]: row["place"] for row in spark_rows(spark, uri)}[3] is None


def test_rows_that_do_not_fit_the_table_are_refused_and_nothing_is_written(
    spark: SparkSession, warehouse: str
) -> None:
    uri = tables.table_uri(warehouse, "strict")
    table = declared("strict")
    tables.append(
        table, uri, spark.createDataFrame([(1, 1.5)], "id bigint, load double"), writer="w", batch_id=0
    )
    wrong = {
        "id bigint, load string": "column load is double, but string in the rows; cast it to double",
        "id bigint": r"column load \(double\) is missing in the rows; add it, for example as cast\(null as double\)",
        "id bigint, load double, none void": "column none is void, which tables do not support; give it a type",
        "id bigint, LOAD double": "column load is called LOAD in the rows; rename it to load",
    }
    for schema, message in wrong.items():
        frame = spark.createDataFrame([], schema)
        with pytest.raises(TableError, match=message):
            tables.append(table, uri, frame, writer="w", batch_id=1)
    with pytest.raises(TableError, match="is partitioned by nothing, but is declared with id"):
        tables.append(declared("strict", "id"), uri, tables.load(spark, uri), writer="w", batch_id=1)
    assert len(list(_local(uri).glob("gearshift_write=*"))) == 1
    assert tables.read_paths(uri).version == 0


def test_local_times_keep_their_type(spark: SparkSession, warehouse: str) -> None:
    uri = tables.table_uri(warehouse, "local_times")
    frame = spark.sql(
        "SELECT timestamp_ntz'2026-03-29 02:30:00' AS wall, timestamp'2026-03-29 02:30:00' AS at"
    )
    tables.append(declared("local_times"), uri, frame, writer="w", batch_id=0)
    assert tables.load(spark, uri).dtypes == frame.dtypes
    assert tables.load(spark, uri).collect() == frame.collect()
    assert tables.sql(warehouse, "SELECT * FROM local_times").types == (
        "TIMESTAMP",
        "TIMESTAMP WITH TIME ZONE",
    )


def test_filters_find_every_row_among_files_with_and_without_statistics(
    spark: SparkSession, warehouse: str
) -> None:
    uri = tables.table_uri(warehouse, "bounds")
    frame = spark.sql(
        """SELECT id, timestamp'2026-01-01 00:00:00' + make_interval(0,0,0,0,0,0,id * 0.000001) AS moment,
        date_add(date'2026-01-01', cast(id AS int)) AS day, if(id % 7 = 0, null, repeat(chr(97 + id), 1 + id)) AS name,
        if(id = 5, double('NaN'), id) AS load, cast(id AS decimal(38,18)) AS price FROM range(0, 20, 1, 4)"""
    )
    table = declared("bounds")
    tables.append(table, uri, frame.where("id < 10"), writer="w", batch_id=0)
    DeltaTable(uri).optimize.compact()  # delta-rs writes statistics into the log
    tables.append(table, uri, frame.where("id >= 10"), writer="w", batch_id=1)
    frame.createOrReplaceTempView("bounds")
    for condition in (
        "moment = timestamp'2026-01-01 00:00:00.000019'",
        "moment > timestamp'2026-01-01 00:00:00.000018'",
        "day = date'2026-01-20'",
        "name is null",
        "name = 'bb'",
        "name >= 'tttttttttt'",
        "load >= 19",
        "price = 19",
        "id = 0 or id = 19",
    ):
        expected = spark.sql(f"SELECT id FROM bounds WHERE {condition} ORDER BY id").collect()
        asked = (
            condition.replace("timestamp'", "timestamptz'")
            .replace("0018'", "0018+00'")
            .replace("0019'", "0019+00'")
        )
        answer = tables.sql(warehouse, f"SELECT id FROM bounds WHERE {asked} ORDER BY id")
        assert [row[0] for row in answer.rows] == [row.id for row in expected], condition
        assert expected


def test_files_of_other_writers_are_read_with_ours(spark: SparkSession, warehouse: str) -> None:
    uri = tables.table_uri(warehouse, "shared")
    table = declared("shared", "place")
    schema = "id bigint, place string"
    for batch_id, place in enumerate(["a b", "it's 50%", None]):
        frame = spark.createDataFrame([(batch_id, place), (batch_id + 10, place)], schema)
        tables.append(table, uri, frame, writer="w", batch_id=batch_id)
        tables.append(table, uri, frame.withColumn("id", F.col("id") + 20), writer="v", batch_id=batch_id)
    before = by_id(tables.rows(uri))
    write_deltalake(uri, DeltaTable(uri).to_pyarrow_table(), mode="append")
    expected = by_id(before + before)
    assert by_id(spark_rows(spark, uri)) == expected
    DeltaTable(uri).optimize.compact()
    assert by_id(spark_rows(spark, uri)) == expected == by_id(tables.rows(uri))


def test_a_table_that_is_not_there_says_so(spark: SparkSession, warehouse: str) -> None:
    uri = tables.table_uri(warehouse, "nowhere")
    assert not tables.exists(uri)
    assert tables.names(warehouse) == ()
    for read in (lambda: tables.load(spark, uri), lambda: tables.rows(uri), lambda: tables.history(uri)):
        with pytest.raises(
            TableError, match=r"table nowhere does not exist .* run the pipeline that writes it"
        ):
            read()
    tables.append(
        declared("here"), tables.table_uri(warehouse, "here"), numbers(spark, 0, 1), writer="w", batch_id=0
    )
    with pytest.raises(TableError, match=r"(?s)nowhere does not exist.*the tables in .* are here"):
        tables.sql(warehouse, "SELECT * FROM nowhere")


def test_a_query_joins_tables_and_reads_nothing_else(
    spark: SparkSession, warehouse: str, tmp_path: Path
) -> None:
    for name in ("one", "two-dashed"):
        tables.append(
            declared(name), tables.table_uri(warehouse, name), numbers(spark, 0, 3), writer="w", batch_id=0
        )
    assert tables.names(warehouse) == ("one", "two-dashed")
    answer = tables.sql(warehouse, 'SELECT sum(one.id) AS s FROM one JOIN "two-dashed" USING (id)')
    assert answer.dicts() == [{"s": 3}]
    secret = tmp_path / "secret.csv"
    secret.write_text("password\n", encoding="utf-8")
    for query in (
        f"SELECT * FROM '{secret}'",
        f"COPY one TO '{tmp_path}/out.csv'",
        "SET enable_external_access=true",
    ):
        with pytest.raises(TableError, match="the query failed"):
            tables.sql(warehouse, query)


def test_history_names_the_writer_and_its_batches(spark: SparkSession, warehouse: str) -> None:
    uri = tables.table_uri(warehouse, "told")
    began = datetime.now(UTC)
    for batch_id in range(2):
        frame = numbers(spark, 0, 3 + batch_id)
        tables.append(declared("told"), uri, frame, writer="app.pipeline", batch_id=batch_id)
    tables.overwrite(declared("told"), uri, numbers(spark, 0, 1))
    changes = tables.history(uri)
    assert [(c.version, c.writer, c.batch_id, c.rows) for c in changes[1:]] == [
        (1, "app.pipeline", 1, 4),
        (0, "app.pipeline", 0, 3),
    ]
    assert changes[0].rows == 1
    assert abs((changes[0].at - began).total_seconds()) < 60
    assert len(tables.history(uri, limit=1)) == 1


def _local(uri: str) -> Path:
    return Path(spark_path(uri).removeprefix("file:"))


def test_a_stream_writes_each_batch_once_across_restarts(
    spark: SparkSession, warehouse: str, tmp_path: Path
) -> None:
    uri = tables.table_uri(warehouse, "streamed")
    table = declared("streamed", "day")
    inbox = tmp_path / "inbox"
    for part in range(3):
        numbers(spark, part * 10, 10).coalesce(1).write.mode("append").json(str(inbox))

    def write_then_fail(batch: DataFrame, batch_id: int) -> None:
        tables.append(
            table, uri, batch.withColumn("day", F.lit("2026-01-01")), writer="app.stream", batch_id=batch_id
        )
        if failing:
            raise RuntimeError("killed after the commit, before the checkpoint")

    def run() -> None:
        query = (
            spark.readStream.schema("id bigint")
            .option("maxFilesPerTrigger", 1)
            .json(str(inbox))
            .writeStream.foreachBatch(write_then_fail)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()

    failing = True
    with pytest.raises(Exception, match="killed after the commit"):
        run()
    assert tables.read_paths(uri).rows == 10
    failing = False
    run()
    assert sorted(row["id"] for row in tables.rows(uri)) == list(range(30))
