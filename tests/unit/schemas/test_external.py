"""Schemas of external topics: which can be read as a type, and which can be written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

import pytest

import gearshift as gs
from gearshift.definitions import Format
from gearshift.schemas.external import readable, writable


class Tariff(Enum):
    DAY = "day"
    NIGHT = "night"


@dataclass
class Place:
    street: str


@dataclass
class Reading:
    meter: str
    at: datetime
    tariff: Tariff
    home: Place
    work: Place | None = None


PLACE = {"type": "record", "name": "Address", "fields": [{"name": "street", "type": "string"}]}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


def theirs(**changed: Any) -> dict[str, Any]:
    types = {"meter": "string", "at": MICROS, "tariff": "string", "home": PLACE, "work": ["null", "Address"]}
    fields = [
        {"name": name, "type": type_} for name, type_ in {**types, **changed}.items() if type_ is not None
    ]
    return {
        "type": "record",
        "name": "Measured",
        "namespace": "grid.events",
        "doc": "theirs",
        "fields": fields,
    }


def topic(format: Format = "avro") -> gs.Topic:  # noqa: A002 - the word users know
    return gs.App("grid").topic("readings", value=Reading, format=format, external=True)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (theirs(), None),
        (theirs(extra="bytes", at={"type": "long", "logicalType": "timestamp-millis"}), None),
        (theirs(work=None), None),
        (theirs(meter=None), "field meter"),
        (theirs(meter="long"), "field meter"),
        (theirs(meter=["null", "string"]), "field meter may be null in records"),
        (theirs(home={"type": "array", "items": "string"}, work=None), "field home"),
    ],
)
def test_an_unreadable_field_is_named(schema: Any, reason: str | None) -> None:
    found = readable(topic(), "avro", json.dumps(schema))
    assert (found is None) if reason is None else found is not None and found.startswith(reason)
    assert readable(topic("json"), "avro", json.dumps(schema)) is not None


def test_a_type_is_written_as_the_newest_schema_that_describes_it() -> None:
    schemas = [
        theirs(),
        theirs(extra="string"),
        theirs(home={**PLACE, "name": "Home"}, work=["null", "Home"]),
    ]
    known: list[tuple[int, Format, str]] = [(n, "avro", json.dumps(each)) for n, each in enumerate(schemas)]
    assert writable(topic(), known) == 2
    assert writable(topic(), known[:2]) == 0
    assert writable(topic(), known[1:2]) is None
    assert writable(topic("json"), known) is None


def test_json_is_written_as_what_their_schema_allows() -> None:
    place = {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "meter": {"type": "string"},
            "at": {"type": "string"},
            "tariff": {"enum": ["day", "night", "holiday"]},
            "home": place,
        },
        "required": ["meter", "home"],
    }
    known: list[tuple[int, Format, str]] = [(7, "json", json.dumps(schema))]
    assert writable(topic("json"), known) == 7
    stricter = {**schema, "properties": {**schema["properties"], "tariff": {"const": "day"}}}  # type: ignore[dict-item]
    assert writable(topic("json"), [(8, "json", json.dumps(stricter))]) is None
