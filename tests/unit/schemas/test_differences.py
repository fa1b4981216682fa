"""Changes between two versions of a schema, and the readers that they break."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

import pytest

from gearshift.schemas import DecimalOf, avro_schema, json_schema
from gearshift.schemas.avro.differences import changes
from gearshift.schemas.json.differences import json_changes


def load(annotations: dict[str, Any], defaults: dict[str, Any] | None = None) -> type[Any]:
    """A dataclass Load with these fields."""
    made = type("Load", (), {"__annotations__": annotations, **(defaults or {}), "__module__": __name__})
    return dataclass(made)


@dataclass
class Place:
    street: str


@dataclass
class LargerPlace:
    street: str
    number: int


LargerPlace.__name__ = "Place"

CASES: list[tuple[type[Any], type[Any], str, bool, bool]] = [
    (
        load({"load_kw": float}),
        load({"load_kw": str}),
        "field load_kw changed from double to string; keep double, or add a new field with a default",
        True,
        True,
    ),
    (
        load({"a": int}),
        load({"a": int, "b": str}),
        "field b was added without a default; give it a default",
        True,
        False,
    ),
    (
        load({"a": int, "b": str}),
        load({"a": int}),
        "field b, which has no default, was removed; keep it",
        False,
        True,
    ),
    (load({"a": int}), load({"a": float}), "field a changed from long to double", False, True),
    (load({"a": int}), load({"a": int | None}), "field a may now be null; keep it long", False, True),
    (
        load({"a": int | None}),
        load({"a": int}),
        "field a may no longer be null; keep it long | None",
        True,
        False,
    ),
    (load({"a": int}), load({"a": datetime}), "field a changed from long to timestamp-micros", True, True),
    (
        load({"a": Annotated[Decimal, DecimalOf(12, 2)]}),
        load({"a": Annotated[Decimal, DecimalOf(12, 4)]}),
        "field a changed from decimal(12, 2) to decimal(12, 4)",
        True,
        True,
    ),
    (load({"a": Place}), load({"a": LargerPlace}), "field a.number was added without a default", True, False),
    (load({"a": list[int]}), load({"a": list[str]}), "field a[] changed from long to string", True, True),
    (
        load({"a": dict[str, int]}),
        load({"a": dict[str, str]}),
        "field a{} changed from long to string",
        True,
        True,
    ),
    (load({"a": list[int]}), load({"a": int}), "field a changed from array to long", True, True),
    (load({"a": int}), Place, "the record is now called Place; keep the class name Load", True, True),
]


@pytest.mark.parametrize(("old", "new", "words", "backward", "forward"), CASES)
def test_a_change_names_its_field_and_its_remedy(
    old: type[Any], new: type[Any], words: str, backward: bool, forward: bool
) -> None:
    first = changes(avro_schema(old), avro_schema(new))[0]
    assert str(first).startswith(words)
    assert (first.breaks("BACKWARD"), first.breaks("FORWARD_TRANSITIVE")) == (backward, forward)
    assert first.breaks("FULL") == (backward or forward)
    assert not first.breaks("NONE")


def test_a_field_with_a_default_can_be_added_and_removed() -> None:
    small, large = load({"a": int}), load({"a": int, "b": str}, {"b": ""})
    assert changes(avro_schema(small), avro_schema(large)) == []
    assert changes(avro_schema(large), avro_schema(small)) == []


@pytest.mark.parametrize(
    ("old", "new", "words", "backward"),
    [
        (load({"a": float}), load({"a": str}), "field a changed from number to string; keep number", True),
        (load({"a": int}), load({"a": float}), "field a changed from integer to number", False),
        (
            load({"a": int}),
            load({"a": int, "b": str}),
            "field b was added without a default; give it a default",
            True,
        ),
        (load({"a": int}), load({"a": int, "b": str}, {"b": ""}), "field b was added", False),
        (
            load({"a": int, "b": str}),
            load({"a": int}),
            "field b was removed, but old records still have it",
            True,
        ),
        (load({"a": int | None}), load({"a": int}), "field a may no longer be null", True),
        (load({"a": list[int]}), load({"a": list[str]}), "field a[] changed from integer to string", True),
        (
            load({"a": dict[str, int]}),
            load({"a": dict[str, str]}),
            "field a{} changed from integer to string",
            True,
        ),
        (load({"a": Place}), load({"a": LargerPlace}), "field a.number was added without a default", True),
    ],
)
def test_json_schemas_are_compared_as_well(
    old: type[Any], new: type[Any], words: str, backward: bool
) -> None:
    first = json_changes(json_schema(old), json_schema(new))[0]
    assert str(first).startswith(words)
    assert first.breaks("BACKWARD") is backward


def test_the_same_schema_has_no_differences() -> None:
    for value_type in (Place, load({"a": Place | None, "b": list[Place]})):
        assert changes(avro_schema(value_type), avro_schema(value_type)) == []
        assert json_changes(json_schema(value_type), json_schema(value_type)) == []


def test_a_change_that_breaks_old_readers_twice_breaks_no_new_ones() -> None:
    old = {"type": "number", "allOf": [{"maximum": 100}, {"multipleOf": 6}]}
    new = {"type": "number", "anyOf": [{"maximum": 100}, {"multipleOf": 6}, {"minimum": 20}]}
    found = json_changes(old, new)
    assert found
    assert not any(change.breaks("BACKWARD") for change in found)
    assert all(change.breaks("FORWARD") for change in found)
