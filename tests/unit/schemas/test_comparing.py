"""Versions of a schema are compared field by field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gearshift.schemas.comparing import all_changes

LOAD = {"name": "load_kw", "type": "double"}


def avro(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


def whats(old: str, new: str, old_format: str = "avro", new_format: str = "avro") -> list[str]:
    return [change.what for change in all_changes(old_format, old, new_format, new)]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (avro(LOAD), avro(LOAD), []),
        (avro(LOAD), avro(LOAD, {"name": "n", "type": "long", "default": 0}), ["field n was added"]),
        (avro(LOAD), avro(LOAD, {"name": "n", "type": "long"}), ["field n was added without a default"]),
        (avro({**LOAD, "default": 0}), avro(), ["field load_kw was removed"]),
        (
            avro({**LOAD, "default": 0}),
            avro({**LOAD, "default": 1}),
            ["field load_kw has another default: 1 instead of 0"],
        ),
        (avro(LOAD), avro({**LOAD, "type": "string"}), ["field load_kw changed from double to string"]),
    ],
)
def test_every_change_is_named_once(old: str, new: str, found: list[str]) -> None:
    assert whats(old, new) == found


def test_another_format_is_one_change() -> None:
    assert whats(avro(LOAD), '{"type": "object"}', "avro", "json") == ["the format changed from avro to json"]


def test_the_fields_of_json_schemas_are_compared_too() -> None:
    old = json.dumps(
        {"type": "object", "properties": {"a": {"type": "number"}}, "additionalProperties": False}
    )
    new = json.dumps(
        {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "additionalProperties": False,
        }
    )
    assert whats(old, new, "json", "json") == ["field b was added"]
