"""Comparison of Avro schemas, checked against an independent reader."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from typing import Any

import fastavro
import hypothesis.strategies as st
import pytest
from fastavro.utils import generate_one
from hypothesis import given, settings

from gearshift.schemas.avro.differences import unreadable

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]


def _records(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, min_size=1, max_size=3)


TYPES = st.recursive(
    st.sampled_from(PRIMITIVES)
    | st.sampled_from(["A", "B"]).map(lambda symbol: ("enum", symbol))
    | st.integers(1, 2).map(lambda size: ("fixed", size)),
    lambda inner: (
        inner.map(lambda each: ("array", each))
        | inner.map(lambda each: ("map", each))
        | inner.map(lambda each: ("optional", each))
        | _records(inner).map(lambda each: ("record", each))
    ),
    max_leaves=4,
)


def schema(shape: Any, name: str = "n") -> Any:
    """The Avro schema of a shape, with the same names at the same positions."""
    if isinstance(shape, str):
        return shape
    kind, inner = shape
    if kind == "enum":
        return {"type": "enum", "name": f"{name}_e", "symbols": ["X", inner]}
    if kind == "fixed":
        return {"type": "fixed", "name": f"{name}_f", "size": inner}
    if kind == "array":
        return {"type": "array", "items": schema(inner, f"{name}_i")}
    if kind == "map":
        return {"type": "map", "values": schema(inner, f"{name}_v")}
    if kind == "optional":
        # A union in a union is not allowed, nor null twice.
        return (
            schema(inner, name)
            if inner == "null" or inner[0] == "optional"
            else ["null", schema(inner, name)]
        )
    fields = [{"name": key, "type": schema(each, f"{name}_{key}")} for key, each in inner.items()]
    return {"type": "record", "name": f"{name}_r", "fields": fields}


@settings(max_examples=300)
@given(reader=TYPES, writer=TYPES)
def test_what_is_readable_is_read(reader: Any, writer: Any) -> None:
    """If the comparison finds no problem, fastavro reads every record."""
    wanted, written = schema(reader), schema(writer)
    if unreadable(wanted, written, strict=False):
        return
    parsed, theirs = fastavro.parse_schema(wanted), fastavro.parse_schema(written)
    for _ in range(3):
        out = BytesIO()
        fastavro.schemaless_writer(out, theirs, generate_one(theirs))
        out.seek(0)
        with suppress(UnicodeDecodeError):  # bytes may be read as text, but are not always valid
            fastavro.schemaless_reader(out, theirs, parsed)


@given(shape=TYPES)
def test_every_schema_reads_itself(shape: Any) -> None:
    assert unreadable(schema(shape), schema(shape)) == []


def record(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


@pytest.mark.parametrize(
    ("reader", "writer", "reason"),
    [
        (
            record({"name": "new", "type": "string", "aliases": ["old"]}),
            record({"name": "old", "type": "string"}),
            None,
        ),
        (record(name="b.R"), record(namespace="a"), None),
        (record(name="S", aliases=["a.R"]), record(namespace="a"), None),
        (record(name="S"), record(), "the record is written as R, not S"),
        (
            {"type": "enum", "name": "E", "symbols": ["A"]},
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            "the value may be B in records",
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            None,
        ),
        (["null", "string"], ["string", "null", "int"], "the value is written as int, not string"),
        (["double", "string"], ["int", "long"], None),
        ("int", ["int", "null"], "the value may be null in records"),
        (
            record({"name": "x", "type": {"type": "fixed", "name": "F", "size": 4}}),
            record({"name": "x", "type": {"type": "fixed", "name": "F", "size": 8}}),
            "field x is written as fixed(8), not fixed(4)",
        ),
        (
            record({"name": "next", "type": ["null", "R"]}, {"name": "v", "type": "long"}),
            record({"name": "next", "type": ["null", "R"]}, {"name": "v", "type": "int"}),
            None,
        ),
    ],
)
def test_a_problem_names_the_field_and_the_reason(reader: Any, writer: Any, reason: str | None) -> None:
    assert [str(each) for each in unreadable(reader, writer)] == ([] if reason is None else [reason])
