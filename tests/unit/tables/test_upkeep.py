"""Compaction and vacuum with concurrent writers and readers, replaced partitions, and time travel."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from gearshift import tables
from gearshift.errors import TableError
from gearshift.tables.write.deletions import forget
from tests.arrow_frames import ArrowFrame, declared

COLUMNS = {"id": "long", "day": "date"}
DAYS = [date(2026, 2, number) for number in (27, 28)] + [None]


def batch(batch_id: int, size: int = 3) -> ArrowFrame:
    return ArrowFrame(COLUMNS, [(batch_id * size + n, DAYS[n % 3]) for n in range(size)])


def held(uri: str) -> list[int]:
    return sorted(row["id"] for row in tables.rows(uri))


def age(place: Path, by: timedelta) -> None:
    """Make files and folders look older."""
    then = time.time() - by.total_seconds()
    for path in [place, *place.rglob("*")]:
        os.utime(path, (then, then))


def test_five_hundred_batches_become_a_few_files_with_concurrent_writers_and_readers(tmp_path: Path) -> None:
    warehouse = tmp_path.as_uri()
    uri = tables.table_uri(warehouse, "streamed")
    table = declared("streamed", "day")
    seen: list[int] = []
    over = threading.Event()

    def stream() -> None:
        for batch_id in range(500):
            tables.append(table, uri, batch(batch_id), writer="w", batch_id=batch_id)

    def watch() -> None:
        while not over.wait(0.5):
            seen.append(int(tables.sql(warehouse, "SELECT count(*) FROM streamed").rows[0][0]))

    tables.append(table, uri, ArrowFrame(COLUMNS, []), writer="first", batch_id=0)
    with ThreadPoolExecutor(2) as threads:
        watching, streaming = threads.submit(watch), threads.submit(stream)
        try:
            while not over.wait(1) and not streaming.done():
                tables.compact(uri)
            streaming.result()
        finally:
            over.set()
        watching.result()
    tables.compact(uri)
    assert len(tables.read_paths(uri).files) <= 20
    assert held(uri) == list(range(1500))
    assert seen == sorted(seen)  # no row was ever missing
    assert all(count % 3 == 0 for count in seen)
    assert len(set(seen)) > 3
    assert not tables.append(table, uri, batch(499), writer="w", batch_id=499).written
    again = tables.compact(uri)
    assert (again.taken, again.made) == (0, 0)


def test_a_compaction_leaves_large_files_and_respects_the_size(tmp_path: Path) -> None:
    uri = (tmp_path / "sized").as_uri()
    table = declared("sized")
    for batch_id in range(6):
        frame = ArrowFrame({"id": "long"}, [(batch_id * 1000 + n,) for n in range(1000)])
        tables.append(table, uri, frame, writer="w", batch_id=batch_id)
    size = tables.read_paths(uri).files[0].size
    assert tables.compact(uri, file_size=size).taken == 0
    done = tables.compact(uri, file_size=size * 7 // 2)
    assert (done.taken, done.made) == (6, 2)
    assert held(uri) == list(range(6000))
    assert tables.history(uri)[0].operation == "COMPACT"


def test_a_vacuum_removes_what_no_version_needs_and_nothing_younger(tmp_path: Path) -> None:
    uri = (tmp_path / "vacuumed").as_uri()
    table = declared("vacuumed", "day")
    for batch_id in range(4):
        tables.append(table, uri, batch(batch_id), writer="w", batch_id=batch_id)
    tables.compact(uri, now=datetime.now(UTC) - timedelta(hours=3))
    root = tmp_path / "vacuumed"
    for name in ("left-by-a-kill", "being-written"):
        batch(9).parquet(f"file:{root}/gearshift_write={name}")
    age(root / "gearshift_write=left-by-a-kill", timedelta(hours=3))
    assert not tables.vacuum(uri, timedelta(hours=4)).paths
    would = tables.vacuum(uri, timedelta(hours=2), dry_run=True)
    assert len(would.paths) == 12 + 1
    for folder in root.glob("gearshift_write=*-*"):
        if folder.name.count("-") == 2 and "compact" not in folder.name:
            age(folder, timedelta(hours=3))
    assert sorted(tables.vacuum(uri, timedelta(hours=2)).paths) == sorted(would.paths)
    assert held(uri) == list(range(12))
    assert {path.name for path in root.glob("gearshift_write=*/*.parquet")} == {"part-0.parquet"}
    assert (root / "gearshift_write=being-written").exists()
    with pytest.raises(TableError, match=r"files of a table no longer exist: .*that version was vacuumed"):
        tables.sql(tmp_path.as_uri(), "SELECT count(id), max(day) FROM vacuumed@v3")
    with pytest.raises(
        TableError, match="cannot vacuum files of table vacuumed that are younger than an hour"
    ):
        tables.vacuum(uri, timedelta(minutes=59))


def test_deletions_are_remembered_until_a_vacuum_forgets_them(tmp_path: Path) -> None:
    uri = (tmp_path / "kept").as_uri()
    table = declared("kept", key=("id",), sequence_by=("at",), deleted="gone")
    columns = {"id": "long", "at": "long", "gone": "boolean"}
    for batch_id in range(3):
        tables.upsert(table, uri, ArrowFrame(columns, [(batch_id, 5, True)]), writer="w", batch_id=batch_id)
    tables.vacuum(uri, timedelta(hours=1))
    tables.upsert(table, uri, ArrowFrame(columns, [(1, 4, False)]), writer="w", batch_id=3)
    assert held(uri) == []
    assert len(tables.read_paths(f"{uri}/_gearshift_deleted").files) == 1  # the vacuum compacted them
    assert tables.names(tmp_path.as_uri()) == ("kept",)
    forget(f"{uri}/_gearshift_deleted", datetime.now(UTC) + timedelta(minutes=1), None)
    tables.upsert(table, uri, ArrowFrame(columns, [(1, 4, False)]), writer="w", batch_id=4)
    assert held(uri) == [1]


def test_re_running_an_interval_replaces_exactly_its_partitions(tmp_path: Path) -> None:
    uri = (tmp_path / "months").as_uri()
    table = declared("months", "month", "place")
    columns = {"n": "long", "month": "string", "place": "string"}
    january = [(1, "2026-01", "a"), (2, "2026-01", "b")]
    february = [(3, "2026-02", "a"), (4, "2026-02", None)]
    for rows in (january, february):
        month = [{"month": rows[0][1]}]
        tables.replace_partitions(table, uri, ArrowFrame(columns, rows), partitions=month)
    corrected = ArrowFrame(columns, [(5, "2026-01", "b")])
    done = tables.replace_partitions(
        table, uri, corrected, partitions=[{"month": "2026-01"}], writer="bills", batch_id=1
    )
    assert (done.rows, done.written) == (1, True)
    assert sorted(row["n"] for row in tables.rows(uri)) == [3, 4, 5]
    again = tables.replace_partitions(
        table, uri, ArrowFrame(columns, []), partitions=[{"month": "2026-01"}], writer="bills", batch_id=1
    )
    assert not again.written
    tables.replace_partitions(table, uri, ArrowFrame(columns, []), partitions=[{"month": "2026-01"}])
    assert sorted(row["n"] for row in tables.rows(uri)) == [3, 4]
    tables.replace_partitions(table, uri, ArrowFrame(columns, [(6, "2026-02", None)]))
    assert sorted(row["n"] for row in tables.rows(uri)) == [3, 6]
    version = tables.read_paths(uri).version
    with pytest.raises(
        TableError, match="rows for month=2026-01, place=b are not in the partitions to replace"
    ):
        tables.replace_partitions(table, uri, corrected, partitions=[{"month": "2026-02"}])
    with pytest.raises(TableError, match="is not partitioned by day; use month, place"):
        tables.replace_partitions(table, uri, corrected, partitions=[{"day": "2026-02"}])
    with pytest.raises(TableError, match="has no partitions to replace"):
        tables.replace_partitions(declared("months"), uri, corrected)
    assert tables.read_paths(uri).version == version


def test_a_query_reads_an_older_version_or_point_in_time(tmp_path: Path) -> None:
    warehouse = tmp_path.as_uri()
    uri = tables.table_uri(warehouse, "travelled")
    for batch_id in range(3):
        tables.append(declared("travelled", "day"), uri, batch(batch_id), writer="w", batch_id=batch_id)
    query = (
        "SELECT (SELECT count(*) FROM travelled@v0), (SELECT count(*) FROM travelled@v1), count(*), 'travelled@v1' "
        "FROM travelled"
    )
    assert tables.sql(warehouse, query).rows == ((3, 6, 9, "travelled@v1"),)
    first = tables.history(uri)[-1].at
    assert tables.sql(warehouse, "SELECT count(*) FROM travelled", as_of=datetime.now(UTC)).rows == ((9,),)
    assert tables.sql(warehouse, "SELECT count(*) FROM travelled", as_of=first).rows[0][0] in (3, 6)
    with pytest.raises(TableError, match=r"table travelled has no version at 2020-01-01.*use a time since"):
        tables.sql(warehouse, "FROM travelled", as_of=datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(TableError, match="has no version 9; use a version from 0 to 2"):
        tables.sql(warehouse, "FROM travelled@v9")


def test_a_table_is_found_by_name_or_similar_names_are_suggested(tmp_path: Path) -> None:
    warehouse = tmp_path.as_uri()
    with pytest.raises(
        TableError, match=r"table orders does not exist in file://.*the warehouse has no tables yet"
    ):
        tables.find(warehouse, "orders")
    uri = tables.table_uri(warehouse, "orders")
    tables.append(declared("orders", "day"), uri, batch(0), writer="w", batch_id=0)
    assert tables.find(warehouse, "orders") == uri
    with pytest.raises(TableError, match=r"table order does not exist in .*; did you mean orders\?"):
        tables.find(warehouse, "order")


def test_only_commits_that_change_rows_or_columns_are_changes(tmp_path: Path) -> None:
    uri = (tmp_path / "followed").as_uri()
    table = declared("followed")
    for batch_id in range(2):
        tables.append(table, uri, batch(batch_id), writer="w", batch_id=batch_id)
    assert tables.changed_since(uri, 0)
    read = tables.newest_version(uri)
    tables.append(table, uri, ArrowFrame(COLUMNS, []), writer="w", batch_id=2)
    assert tables.compact(uri).taken == 2
    tables.vacuum(uri, timedelta(hours=1))
    assert tables.newest_version(uri) > read
    assert not tables.changed_since(uri, read)
    tables.append(table, uri, ArrowFrame({**COLUMNS, "note": "string"}, []), writer="w", batch_id=3)
    assert tables.changed_since(uri, read)
    read = tables.newest_version(uri)
    (tmp_path / "followed" / "_delta_log" / f"{read:020}.json").rename(tmp_path / "cleaned")
    assert tables.changed_since(uri, read + 1)  # another table at the same URI


def test_a_vacuum_keeps_the_versions_that_queries_read(tmp_path: Path) -> None:
    uri = (tmp_path / "vacuumed").as_uri()
    table = declared("vacuumed")
    for batch_id in range(3):
        tables.append(table, uri, batch(batch_id), writer="w", batch_id=batch_id)
    tables.compact(uri, now=datetime.now(UTC) - timedelta(hours=3))
    assert len(tables.vacuum(uri, timedelta(hours=1), keep=[1, 99]).paths) == 1
    answer = tables.sql(tmp_path.as_uri(), "SELECT count(id) FROM vacuumed@v1").rows
    assert [tuple(row) for row in answer] == [(6,)]
    tables.vacuum(uri, timedelta(hours=1))
    assert len(list((tmp_path / "vacuumed").glob("gearshift_write=*/*.parquet"))) == 1
