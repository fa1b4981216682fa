"""Schema evolution by the rule that the table declares."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from gearshift import tables
from gearshift.errors import TableError
from tests.arrow_frames import ArrowFrame, declared


def struct(**types: Any) -> dict[str, Any]:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return {"type": "struct", "fields": fields}


def test_wider_types_widen_the_column_and_narrower_rows_are_cast(tmp_path: Path) -> None:
    uri = (tmp_path / "wide").as_uri()
    table = declared("wide", "part")
    old = {"n": "integer", "price": "decimal(6,2)", "part": "string"}
    new = {"n": "long", "price": "decimal(12,4)", "part": "string", "more": "string"}
    tables.append(table, uri, ArrowFrame(old, [(1, Decimal("1.50"), "a/b")]), writer="w", batch_id=0)
    tables.append(table, uri, ArrowFrame(new, [(2**40, Decimal("1.5001"), "c", "x")]), writer="w", batch_id=1)
    narrow = {"n": "integer", "price": "decimal(12,4)", "part": "string", "more": "string"}
    tables.append(
        table, uri, ArrowFrame(narrow, [(3, Decimal("2.0000"), "a/b", None)]), writer="w", batch_id=2
    )
    expected = [
        (1, Decimal("1.5000"), "a/b", None),
        (3, Decimal("2.0000"), "a/b", None),
        (2**40, Decimal("1.5001"), "c", "x"),
    ]
    assert sorted(tuple(row.values()) for row in tables.rows(uri)) == expected
    others = DeltaTable(uri).to_pyarrow_table().to_pylist()
    assert sorted((row["n"], row["price"], row["part"], row["more"]) for row in others) == expected
    assert [change.operation for change in tables.history(uri)].count("WIDEN") == 1


def test_a_field_inside_a_struct_is_added_at_any_depth(tmp_path: Path) -> None:
    uri = (tmp_path / "nested").as_uri()
    table = declared("nested")

    def kind(**inner: Any) -> dict[str, Any]:
        listed = {"type": "array", "elementType": struct(**inner), "containsNull": True}
        return {"id": "long", "place": struct(city="string", geo=struct(**inner)), "stops": listed}

    old = (1, {"city": "Bonn", "geo": {"lat": 50.7}}, [{"lat": 1.0}])
    new = (2, {"city": "Köln", "geo": {"lat": 50.9, "lon": 7.0}}, [{"lat": 1.0, "lon": 2.0}])
    tables.append(table, uri, ArrowFrame(kind(lat="double"), [old]), writer="w", batch_id=0)
    tables.append(table, uri, ArrowFrame(kind(lat="double", lon="double"), [new]), writer="w", batch_id=1)
    found = {row["id"]: row for row in tables.rows(uri)}
    assert found[1]["place"] == {"city": "Bonn", "geo": {"lat": 50.7, "lon": None}}
    assert found[1]["stops"] == [{"lat": 1.0, "lon": None}]
    assert found[2]["place"]["geo"]["lon"] == 7.0
    tables.compact(uri)
    assert {row["id"]: row for row in tables.rows(uri)} == found
    for wrong in (kind(lat="double"), kind(lon="double", lat="double"), kind(lat="string", lon="double")):
        said = r"column place is struct<.*, but struct<.* in the rows; use the fields of struct<"
        with pytest.raises(TableError, match=said):
            tables.append(table, uri, ArrowFrame(wrong, []), writer="w", batch_id=2)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"n": "integer", "m": "string"},
            "is strict, but the rows have column m as string; select only columns",
        ),
        ({"n": "long"}, "is strict, but the rows have column n as bigint"),
        ({"n": "string"}, "column n is int, but string in the rows"),
    ],
)
def test_a_strict_table_keeps_its_columns(tmp_path: Path, columns: dict[str, str], message: str) -> None:
    uri = (tmp_path / "strict").as_uri()
    table = declared("strict", on_schema_change="fail")
    tables.append(table, uri, ArrowFrame({"n": "integer"}, [(1,)]), writer="w", batch_id=0)
    with pytest.raises(TableError, match=message):
        tables.append(table, uri, ArrowFrame(columns, []), writer="w", batch_id=1)
    with pytest.raises(TableError, match=message):
        tables.overwrite(table, uri, ArrowFrame(columns, []))
    tables.append(table, uri, ArrowFrame({"n": "byte"}, []), writer="w", batch_id=1)
    assert tables.read_paths(uri).version == 1
