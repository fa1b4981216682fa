"""Schemas of strange writers: read, or refused with the reason before a record is."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import pytest

from gearshift.errors import DecodeError
from gearshift.schemas import DecimalOf, codec
from gearshift.schemas.debezium.avro import reader
from gearshift.schemas.debezium.events import ChangeDecoder
from gearshift.schemas.encoding import Misfit


@dataclass
class Reading:
    load: int | None = None
    price: Annotated[Decimal, DecimalOf(9, 2)] | None = None
    colour: str | None = None


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": each, "type": type_} for each, type_ in fields],
    }


def read(schema: Any, payload: bytes) -> Reading:
    return codec(Reading).reader_of(json.dumps(schema))(payload)


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def doubled(levels: int) -> dict[str, Any]:
    """Records without a value in any of their 2 to the power of `levels` fields."""
    found: dict[str, Any] = record(name="Nothing")
    for level in range(levels):
        found = record(("x", found), ("y", found["name"]), name=f"L{level}")
    return found


def nested(levels: int) -> Any:
    found: Any = "string"
    for _ in range(levels):
        found = {"type": "array", "items": found}
    return found


def test_a_logical_type_that_is_no_text_is_ignored() -> None:
    assert read(record(("load", {"type": "long", "logicalType": ["date"]})), b"\x06") == Reading(load=3)


def test_records_of_several_types_in_one_topic_are_read_if_they_fit() -> None:
    schema = [record(("load", "long"), name="A"), record(("colour", "string"), name="B"), "null"]
    assert read(schema, b"\x00\x06") == Reading(load=3)
    assert read(schema, b"\x02\x06red") == Reading(colour="red")
    for payload in (b"\x04", b"\x06", b"\x00\x06\x00", b"\x02\x06re", b""):
        with pytest.raises(Misfit):
            read(schema, payload)


def test_a_name_that_is_defined_where_nothing_is_read_is_known_later() -> None:
    colour = {"type": "enum", "name": "Colour", "symbols": ["red"]}
    schema = record(("load", ["long", record(("colour", colour), name="Inner")]), ("colour", "Colour"))
    assert read(schema, b"\x00\x06\x00") == Reading(load=3, colour="red")


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (record(("price", decimal(10**9, 10**9))), "more than the limit of 1000"),
        (record(("price", decimal(2_000_100, 2_000_100))), "more than the limit of 1000"),
        (record(("colour", {"type": "fixed", "name": "F", "size": 2**31})), "a fixed of an invalid size"),
        (record(("other", nested(900))), "nested too deeply"),
        (record(("load", "long"), ("x", record(("y", "int")))), "defines R twice"),
        ({**record(("load", "long")), "name": ["R"]}, "a type without a name"),
        ({"type": "record", "name": "R", "fields": [{"name": ["load"], "type": "long"}]}, "name is not text"),
    ],
)  # fmt: skip
def test_what_nobody_could_have_written_is_refused(schema: Any, reason: str) -> None:
    with pytest.raises(Misfit, match=reason):
        read(schema, b"\x00")


def test_a_schema_of_doubling_records_is_refused_at_once() -> None:
    began = time.process_time()
    with pytest.raises(Misfit, match="not readable"):
        read(record(("list", {"type": "array", "items": doubled(40)})), b"\x06")
    assert time.process_time() - began < 2


NODE = record(("op", "string"), ("next", ["null", "R"]))


@pytest.mark.parametrize(
    ("schema", "payload", "reason"),
    [
        (NODE, b"\x02c\x02" * 100_000, "a record in it contains itself"),
        (record(("op", "string"), ("next", "R")), b"\x02c" * 100_000, "a record in it contains itself"),
        (record(("op", "string"), ("text", "string")), b"\x02c\x02\xff", "UTF-8"),
        (record(("op", "string"), ("number", "int")), b"\x02c\xff\xff\xff\xff\x7f", "more than 32 bits"),
        (record(("op", "string"), ("flag", "boolean")), b"\x02c\x02", "neither 0 nor 1"),
    ],
)
def test_damaged_envelopes_are_refused_and_end_no_process(schema: Any, payload: bytes, reason: str) -> None:
    with pytest.raises(Misfit, match=reason):
        reader(json.dumps(schema))(payload)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (record(("op", {"type": "array", "items": "null"})), "take no bytes"),
        ({"type": "record", "name": "R"}, "without its fields"),
        (record(("op", None)), "not Avro"),
        (record(("op", {"type": {"type": {}}})), "no type"),
        (5, "not Avro"),
    ],
)
def test_a_schema_that_no_envelope_has_is_refused(schema: Any, reason: str) -> None:
    with pytest.raises(Misfit, match=reason):
        reader(json.dumps(schema))


def test_fields_of_what_is_no_record_are_ignored() -> None:
    schema = record(("op", {"type": "string", "fields": [5]}))
    assert reader(json.dumps(schema))(b"\x02c") == {"op": "c"}


def test_a_deeply_nested_value_in_a_text_column_is_refused() -> None:
    deep = b"[" * 400 + b"]" * 400
    with pytest.raises(DecodeError, match="nested too deeply"):
        ChangeDecoder(Reading).decode(None, b'{"op":"c","after":{"colour":' + deep + b"}}")
