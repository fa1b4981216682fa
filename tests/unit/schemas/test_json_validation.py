"""A JSON value is checked by its registered schema before it is sent, as the specification says."""

from __future__ import annotations

import json
from dataclasses import make_dataclass
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.schemas import encode, json_schema
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.json.validation import validate
from tests.unit.schemas.test_codec import typed_values

KEYWORDS: list[dict[str, Any]] = [
    {"type": "integer"},
    {"type": ["number", "null"]},
    {"minimum": 1},
    {"exclusiveMaximum": 3},
    {"multipleOf": 0.5},
    {"minLength": 2, "maxLength": 3},
    {"pattern": "^a"},
    {"enum": [1, "a", [True], {"a": 1}]},
    {"const": 1},
    {"const": True},
    {"items": {"type": "integer"}},
    {"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": False},
    {"minItems": 1, "uniqueItems": True},
    {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {"properties": {"a": {}}, "additionalProperties": False},
    {"additionalProperties": {"type": "string"}},
    {"patternProperties": {"^a": {"type": "integer"}}},
    {"maxProperties": 1},
    {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    {"oneOf": [{"type": "number"}, {"type": "integer"}]},
    {"allOf": [{"type": "integer"}, {"minimum": 2}]},
    {"not": {"type": "integer"}},
    {"$ref": "#/definitions/Small"},
    {},
]
SMALL = {"Small": {"type": "integer", "maximum": 5}}
texts = st.sampled_from(["", "a", "ab", "b", "abc", "abcd"])
leaves = st.none() | st.booleans() | st.integers(-3, 7) | st.sampled_from([0.5, 1.0, 2.5, -1.25]) | texts
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


def misfit(datum: Any, schema: Any) -> str | None:
    try:
        validate(datum, schema)
    except Misfit as found:
        return str(found)
    return None


@given(keywords=st.sampled_from(KEYWORDS), value=values, inside=st.booleans())
@settings(max_examples=600)
def test_it_agrees_with_the_reference_implementation(
    keywords: dict[str, Any], value: Any, inside: bool
) -> None:
    schema: dict[str, Any] = {"definitions": SMALL, "type": "object", "properties": {"x": keywords}}
    value, schema = ({"x": value}, schema) if inside else (value, {"definitions": SMALL, **keywords})
    if "$ref" in schema:  # in draft 7 nothing next to it counts
        schema = {"definitions": SMALL, "allOf": [keywords]}
    assert (misfit(value, schema) is None) == jsonschema.Draft7Validator(schema).is_valid(value)


@given(data=st.data())
@settings(max_examples=80)
def test_what_a_producer_sends_of_any_declared_type_is_valid(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(typed_values(), min_size=1, max_size=5))
    value_type = make_dataclass("Drawn", [(f"field_{n}", hint) for n, (hint, _) in enumerate(chosen)])
    written = encode(value_type(*(data.draw(values) for _, values in chosen)), "json")
    validate(json.loads(written), json.loads(json.dumps(json_schema(value_type))))


@pytest.mark.parametrize(
    ("keywords", "value", "said"),
    [
        ({"type": "number"}, "2", "field x: is str, not a number"),
        ({"format": "date-time"}, "2026-01-31 noon", "field x: is not an RFC 3339 time with a zone"),
        ({"format": "date"}, "2026-02-30", "field x: is not a date"),
        ({"contentEncoding": "base64"}, "a b", "field x: is not base64"),
        ({"items": {"type": "integer"}}, [1, "a"], "field x.[1]: is str, not an integer"),
        ({"enum": ["day", "night"]}, "noon", "field x: 'noon' is not one of day, night"),
    ],
)
def test_an_error_names_the_field(keywords: dict[str, Any], value: Any, said: str) -> None:
    found = misfit({"x": value}, {"type": "object", "properties": {"x": keywords}})
    assert found is not None and said in found


def test_a_missing_and_an_unknown_field_are_named() -> None:
    schema = {
        "type": "object",
        "properties": {"load": {}},
        "required": ["load"],
        "additionalProperties": False,
    }
    assert misfit({}, schema) == "field load: is missing"
    assert (
        misfit({"load": 1, "laod": 1}, schema)
        == "field laod: the schema has no such field; did you mean load?"
    )


def test_of_an_optional_object_the_field_inside_is_named() -> None:
    inner = {"type": "object", "properties": {"street": {"type": "string"}}}
    schema = {"type": "object", "properties": {"place": {"oneOf": [{"type": "null"}, inner]}}}
    assert misfit({"place": {"street": 1}}, schema) == "field place.street: is int, not a string"


def test_a_schema_with_an_unknown_keyword_validates_nothing() -> None:
    """Rather than to send what the keyword forbids."""
    assert misfit(1, {"if": {"minimum": 2}}) == "the schema has if, which cannot be checked here"
