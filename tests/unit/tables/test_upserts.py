"""Upserts by key, in any order and with repeated batches."""

from __future__ import annotations

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift import tables
from gearshift.errors import TableError
from tests.arrow_frames import ArrowFrame, declared

ORDERS = declared("orders", key=("order_id",), sequence_by=("at",), deleted="gone")
COLUMNS = {"order_id": "long", "at": "long", "state": "string", "gone": "boolean"}


def orders(*rows: tuple[int, int | None, str, bool | None]) -> ArrowFrame:
    return ArrowFrame(COLUMNS, rows)


def held(uri: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in tables.rows(uri))


def test_rows_replace_those_of_their_key_and_deletions_remove_them(tmp_path: Path) -> None:
    uri = (tmp_path / "orders").as_uri()
    first = orders((1, 1, "new", False), (2, 1, "new", None), (3, 1, "new", False))
    commit = tables.upsert(ORDERS, uri, first, writer="w", batch_id=0)
    assert (commit.rows, commit.version) == (3, 0)
    second = orders((1, 2, "paid", False), (2, 2, "", True), (4, 2, "new", False))
    commit = tables.upsert(ORDERS, uri, second, writer="w", batch_id=1)
    assert (commit.rows, commit.written) == (2, True)
    assert held(uri) == [(1, 2, "paid"), (3, 1, "new"), (4, 2, "new")]
    assert not tables.upsert(ORDERS, uri, second, writer="w", batch_id=1).written
    assert not tables.upsert(ORDERS, uri, first, writer="w", batch_id=0).written
    assert held(uri) == [(1, 2, "paid"), (3, 1, "new"), (4, 2, "new")]
    assert tables.history(uri)[0].operation == "UPSERT"
    assert not list((tmp_path / "orders").glob("*staged*"))


def test_a_late_older_row_overwrites_nothing_and_revives_nothing(tmp_path: Path) -> None:
    uri = (tmp_path / "orders").as_uri()
    tables.upsert(ORDERS, uri, orders((1, 5, "paid", False), (2, 5, "", True)), writer="w", batch_id=0)
    late = orders((1, 3, "new", False), (2, 3, "new", False), (1, None, "odd", False), (3, 1, "new", False))
    assert tables.upsert(ORDERS, uri, late, writer="w", batch_id=1).rows == 1
    assert held(uri) == [(1, 5, "paid"), (3, 1, "new")]
    tables.upsert(ORDERS, uri, orders((1, 4, "", True), (2, 6, "again", False)), writer="w", batch_id=2)
    assert held(uri) == [(1, 5, "paid"), (2, 6, "again"), (3, 1, "new")]


def test_any_order_of_the_same_batches_gives_the_same_rows(tmp_path: Path) -> None:
    batches = [
        [(1, 1, "a", False), (2, 1, "a", False)],
        [(1, 2, "b", False), (2, 3, "", True), (3, 2, "b", False)],
        [(2, 2, "c", False), (3, 4, "c", False), (3, 3, "", True)],
        [(1, 5, "", True), (4, 1, "d", False)],
    ]
    for number, order in enumerate(list(itertools.permutations(range(4)))[::4]):
        uri = (tmp_path / str(number)).as_uri()
        for batch_id, index in enumerate([*order, order[0]]):  # and one of them twice, from another writer
            tables.upsert(ORDERS, uri, orders(*batches[index]), writer="w", batch_id=batch_id)
        assert held(uri) == [(3, 4, "c"), (4, 1, "d")], order


def test_files_without_a_key_of_the_batch_stay_as_they_are(tmp_path: Path) -> None:
    uri = (tmp_path / "days").as_uri()
    table = declared("days", "day", key=("day", "id"))
    columns = {"id": "long", "day": "date", "n": "integer"}
    days = [date(2026, 1, number) for number in range(1, 5)]
    tables.upsert(table, uri, ArrowFrame(columns, [(1, day, 0) for day in days]), writer="w", batch_id=0)
    before = {file.path for file in tables.read_paths(uri).files}
    tables.upsert(table, uri, ArrowFrame(columns, [(1, days[0], 7), (2, days[1], 7)]), writer="w", batch_id=1)
    after = {file.path for file in tables.read_paths(uri).files}
    assert len(before - after) == 1  # only the file of the first day has a key of the batch
    assert held(uri) == sorted(
        [(1, days[0], 7), (1, days[1], 0), (2, days[1], 7), (1, days[2], 0), (1, days[3], 0)]
    )


def test_a_row_moves_to_another_partition_with_its_key(tmp_path: Path) -> None:
    uri = (tmp_path / "places").as_uri()
    table = declared("places", "place", key=("id",))
    columns = {"id": "long", "place": "string"}
    odd = ["a/b c", "it's 50%", "", None, "é=[x]", "日本"]
    tables.upsert(table, uri, ArrowFrame(columns, enumerate(odd)), writer="w", batch_id=0)
    tables.upsert(table, uri, ArrowFrame(columns, enumerate(odd[1:] + odd[:1])), writer="w", batch_id=1)
    expected = {number: place or None for number, place in enumerate(odd[1:] + odd[:1])}
    assert {row["id"]: row["place"] for row in tables.rows(uri)} == expected
    tables.compact(uri)
    assert {row["id"]: row["place"] for row in tables.rows(uri)} == expected
    assert {row["id"]: row["place"] for row in DeltaTable(uri).to_pyarrow_table().to_pylist()} == expected


def test_every_type_survives_a_merge(tmp_path: Path) -> None:
    uri = (tmp_path / "types").as_uri()
    columns: dict[str, Any] = {
        "id": "decimal(20,0)",
        "tiny": "byte",
        "flag": "boolean",
        "load": "double",
        "raw": "binary",
        "day": "date",
        "at": "timestamp",
        "wall": "timestamp_ntz",
        "price": "decimal(38,18)",
        "tags": {"type": "array", "elementType": "string", "containsNull": True},
        "counts": {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True},
        "place": {
            "type": "struct",
            "fields": [{"name": "lat", "type": "double", "nullable": True, "metadata": {}}],
        },
    }
    full = (
        Decimal(10**18), -1, True, 0.1, b"\0x", date(1, 1, 1), datetime(2026, 3, 29, 1, 30, 0, 7, UTC),
        datetime(2026, 3, 29, 2, 30, tzinfo=UTC).replace(tzinfo=None), Decimal("1.000000000000000001"), ["a", None], [("k", 1)], {"lat": 1.5},
    )  # fmt: skip
    empty = (Decimal(1), *[None] * 11)
    table = declared("types", key=("id",))
    tables.upsert(table, uri, ArrowFrame(columns, [full, empty]), writer="w", batch_id=0)
    before = DeltaTable(uri).to_pyarrow_table().sort_by("id")
    tables.upsert(table, uri, ArrowFrame(columns, [empty]), writer="w", batch_id=1)  # rewrites the file
    assert DeltaTable(uri).to_pyarrow_table().sort_by("id").equals(before)
    tables.compact(uri)
    assert DeltaTable(uri).to_pyarrow_table().sort_by("id").equals(before)


def test_columns_evolve_under_an_upsert(tmp_path: Path) -> None:
    uri = (tmp_path / "evolving").as_uri()
    table = declared("evolving", key=("id",), sequence_by=("at",), deleted="gone")
    old = {"id": "integer", "at": "integer", "gone": "boolean"}
    tables.upsert(table, uri, ArrowFrame(old, [(1, 1, False), (2, 1, True)]), writer="w", batch_id=0)
    new = {"id": "long", "at": "integer", "gone": "boolean", "name": "string"}
    rows = [(2**40, 1, False, "far"), (1, 2, False, "near"), (2, 1, False, "late"), (3, 5, True, "")]
    tables.upsert(table, uri, ArrowFrame(new, rows), writer="w", batch_id=1)
    assert held(uri) == [(1, 2, "near"), (2**40, 1, "far")]
    narrow = {"id": "integer", "at": "integer", "gone": "boolean", "name": "string"}
    tables.upsert(table, uri, ArrowFrame(narrow, [(3, 4, False, "late")]), writer="w", batch_id=2)
    assert held(uri) == [(1, 2, "near"), (2**40, 1, "far")]


def test_racing_upserts_compactions_and_overwrites_keep_one_row_per_key(tmp_path: Path) -> None:
    uri = (tmp_path / "raced").as_uri()
    table = declared("raced", key=("id",), sequence_by=("at",))
    columns = {"id": "long", "at": "long"}
    chance = random.Random(7)
    changes = [[(chance.randrange(30), chance.randrange(1000)) for _ in range(20)] for _ in range(24)]
    tables.upsert(table, uri, ArrowFrame(columns, changes[0]), writer="first", batch_id=0)

    def write(number: int) -> None:
        if number % 6 == 0:
            tables.compact(uri)
        tables.upsert(table, uri, ArrowFrame(columns, changes[number]), writer=f"w{number}", batch_id=0)

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(write, range(1, 24)))
    latest: dict[int, int] = {}
    for id_, at in itertools.chain.from_iterable(changes):
        latest[id_] = max(at, latest.get(id_, -1))
    assert held(uri) == sorted(latest.items())


@pytest.mark.parametrize(
    ("rules", "rows", "message"),
    [
        ({"key": ()}, [], "has no key; declare it with key="),
        ({"key": ("nr",)}, [], "has key='nr', which the rows do not have; use one of the columns order_id, at, state, gone"),
        ({"key": ("order_id",), "sequence_by": ("t",)}, [], "has sequence_by='t', which the rows do not have"),
        ({"key": ("order_id",), "deleted": "state"}, [], "column state marks deletions, but is string"),
        ({"key": ("order_id",)}, [(1, 1, "a", False), (1, 2, "b", False)], "2 different rows with order_id=1, and no order"),
        ({"key": ("order_id",)}, [(None, 1, "a", False)], "1 rows of the batch have no value in the key column order_id"),
    ],
)  # fmt: skip
def test_a_batch_that_cannot_be_merged_is_an_error(
    tmp_path: Path, rules: dict[str, Any], rows: list[Any], message: str
) -> None:
    uri = (tmp_path / "refused").as_uri()
    with pytest.raises(TableError, match=message):
        tables.upsert(declared("refused", **rules), uri, ArrowFrame(COLUMNS, rows), writer="w", batch_id=0)
    assert not tables.exists(uri)
    assert not list(tmp_path.glob("refused/*"))


def test_a_dropped_table_is_not_created_again(tmp_path: Path) -> None:
    uri = (tmp_path / "orders").as_uri()
    with pytest.raises(
        TableError,
        match=r"table orders no longer exists at file://.*; restore its folder, or write the table again: gearshift reset",
    ):
        tables.upsert(ORDERS, uri, orders((1, 1, "new", False)), writer="w", batch_id=7)
    with pytest.raises(TableError, match="table orders no longer exists"):
        tables.append(declared("orders"), uri, orders((1, 1, "new", False)), writer="w", batch_id=7)
    assert not tables.exists(uri)


@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.booleans()), max_size=12))
)
@settings(max_examples=25)
def test_of_rows_in_order_the_last_of_a_key_stays_in_a_table_without_order_by(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[int, int, bool]]]
) -> None:
    table = declared("latest", key=("id",), deleted="gone")
    uri = (tmp_path_factory.mktemp("upserts") / "latest").as_uri()
    expected: dict[int, int] = {}
    for number, rows in enumerate([[(9, 9, False)], *batches]):
        frame = ArrowFrame({"id": "long", "n": "long", "gone": "boolean"}, rows)
        tables.upsert(table, uri, frame, writer="w", batch_id=number, in_order=True)
        for id_, n, gone in rows:
            expected[id_] = n
            if gone:
                del expected[id_]
    assert held(uri) == sorted({9: 9, **expected}.items())
