"""Avro payloads of any schema as readable JSON, and back to the same bytes."""

from __future__ import annotations

import io
import json
import math
from dataclasses import make_dataclass
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.schemas import avro_schema, encode
from gearshift.schemas.avro.from_json import writer
from gearshift.schemas.avro.to_json import reader
from gearshift.schemas.encoding import Misfit
from tests.unit.schemas.test_codec import READING, Reading, typed_values

UNION = {
    "type": "record",
    "name": "shop.Event",
    "fields": [
        {
            "name": "what",
            "type": [
                "null",
                "string",
                "long",
                {"type": "record", "name": "Sale", "fields": [{"name": "amount", "type": "double"}]},
            ],
        }
    ],
}


def record(type_: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "x", "type": type_, **more}]}


def misfit(schema: Any, datum: Any) -> str:
    with pytest.raises(Misfit) as raised:
        writer(schema)(datum)
    return str(raised.value)


def by_fastavro(schema: Any, datum: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), datum)
    return out.getvalue()


@given(data=st.data())
@settings(max_examples=100)
def test_what_is_shown_of_any_declared_type_is_encoded_to_the_same_bytes(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(typed_values(), min_size=1, max_size=5))
    value_type = make_dataclass("Drawn", [(f"field_{n}", hint) for n, (hint, _) in enumerate(chosen)])
    payload = encode(value_type(*(data.draw(values) for _, values in chosen)))
    schema = avro_schema(value_type)
    shown = reader(schema)(payload)
    # What is shown is JSON as a terminal and a pipe carry it.
    assert writer(schema)(json.loads(json.dumps(shown, allow_nan=False))) == payload


def test_a_value_is_shown_as_people_write_it() -> None:
    shown = reader(avro_schema(Reading))(encode(READING))
    assert (shown["price"], shown["total"], shown["raw"]) == ("1.25", "-3.000000000000000000", "AP8=")
    assert (shown["read_at"], shown["day"], shown["tariff"]) == (
        "2026-01-31T12:00:00Z",
        "2026-01-31",
        "night",
    )
    assert (shown["place"], shown["seen_at"]) == ({"street": "Main", "number": None}, None)


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (None, None),
        ("a", {"string": "a"}),
        (7, {"long": 7}),
        (("shop.Sale", {"amount": 2.5}), {"shop.Sale": {"amount": 2.5}}),
    ],
)
def test_the_type_of_a_unions_value_is_shown_and_taken(stored: Any, shown: Any) -> None:
    payload = by_fastavro(UNION, {"what": stored})
    assert reader(UNION)(payload) == {"what": shown}
    assert writer(UNION)({"what": shown}) == payload


def test_a_unions_value_without_its_type_is_taken_if_it_fits() -> None:
    assert writer(UNION)({"what": "a"}) == by_fastavro(UNION, {"what": "a"})
    assert writer(UNION)({"what": 7}) == by_fastavro(UNION, {"what": 7})
    assert "fits none of null, string, long, shop.Sale" in misfit(UNION, {"what": True})


def test_a_union_of_null_alone_takes_nothing_else() -> None:
    assert "is str, not null" in misfit(["null"], "x")


@pytest.mark.parametrize(
    ("type_", "stored", "shown"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, 1500, "1970-01-01T00:00:01.500Z"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 1, "1970-01-01T00:00:00.000000001Z"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, 0, "1970-01-01T00:00:00"),
        ({"type": "int", "logicalType": "time-millis"}, 43_200_001, "12:00:00.001"),
        ({"type": "long", "logicalType": "timestamp-micros"}, 2**62, 2**62),  # after the year 9999
        ("double", math.inf, "Infinity"),
        ("float", 0.5, 0.5),
    ],
)
def test_types_that_no_app_declares_are_shown_and_taken(type_: Any, stored: Any, shown: Any) -> None:
    schema = record(type_)
    bare = record(type_ if isinstance(type_, str) else type_["type"])
    payload = by_fastavro(bare, {"x": stored})
    assert reader(schema)(payload) == {"x": shown}
    assert writer(schema)({"x": shown}) == payload


def test_a_record_that_contains_itself_is_shown_and_taken() -> None:
    tree = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "n", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
    }
    value = {"n": 1, "next": {"n": 2, "next": None}}
    payload = by_fastavro(tree, value)
    assert reader(tree)(payload) == value
    assert writer(tree)(value) == payload
    deep: Any = None
    for n in range(5000):
        deep = {"n": n, "next": deep}
    assert "nested too deeply" in misfit(tree, deep)


def test_a_missing_field_gets_its_default() -> None:
    schema = record({"type": "bytes"}, default="\u00ff")
    assert reader(schema)(writer(schema)({})) == {"x": "/w=="}
    assert misfit(record("int"), {}) == "field x: is missing"


@pytest.mark.parametrize(
    ("type_", "datum", "said"),
    [
        ("int", "2", "field x: is str, not"),
        ("int", True, "field x: is bool, not"),
        ("int", 2**31, "field x: does not fit in 32 bits"),
        ("long", 2**63, "field x: "),
        ("float", 1e300, "field x: is too large for a 32-bit float"),
        ("boolean", 1, "field x: is int, not a boolean"),
        ("bytes", "a b", "field x: is not base64"),
        ({"type": "fixed", "name": "F", "size": 2}, "AAAA", "field x: has 3 bytes, not 2"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "C", "field x: 'C' is not one of A, B"),
        ({"type": "array", "items": "int"}, [1, "a"], "field x.[1]: is str, not"),
        ({"type": "map", "values": "int"}, {"k": None}, "field x.['k']: is NoneType, not"),
        ({"type": "int", "logicalType": "date"}, "2026-02-30", "field x: is not a date that exists"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            "2026-01-31T12:00:00",
            "is not a time with a zone",
        ),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            "2026-01-31T12:00:00.0001Z",
            "more precise than",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            12.5,
            "write decimals as text",
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "1234.5", "field x: "),
        ("string", "\ud800", "field x: is not valid Unicode text"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_with_its_field(type_: Any, datum: Any, said: str) -> None:
    assert said in misfit(record(type_), {"x": datum})


def test_an_unknown_field_is_an_error_with_the_one_that_was_meant() -> None:
    assert misfit(record("int"), {"x": 1, "xx": 2}) == "field xx: R has no such field; did you mean x?"


@given(payload=st.binary(max_size=40), data=st.data())
@settings(max_examples=200)
def test_any_bytes_are_shown_or_refused(payload: bytes, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(typed_values(), min_size=1, max_size=4))
    value_type = make_dataclass("Drawn", [(f"field_{n}", hint) for n, (hint, _) in enumerate(chosen)])
    try:
        shown = reader(avro_schema(value_type))(payload)
    except Misfit:
        return
    json.dumps(shown, allow_nan=False)


def test_a_damaged_count_of_items_without_bytes_does_not_fill_the_memory() -> None:
    schema = record({"type": "array", "items": "null"})
    with pytest.raises(Misfit, match="more items than it can hold"):
        reader(schema)(b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f")
