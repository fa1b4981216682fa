"""Whether everything that one JSON Schema allows is valid by another, in every draft."""

from __future__ import annotations

import json
from typing import Any

import hypothesis.strategies as st
import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings

from gearshift.schemas.json.differences import json_unreadable
from gearshift.schemas.json.documents import Document

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def problems(reader: Any, writer: Any) -> list[str]:
    return [str(each) for each in json_unreadable(Document(reader), Document(writer))]


NUMBERS = st.integers(-3, 3)
SMALL = st.integers(0, 3)
NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | NUMBERS
    | st.sampled_from([0.5, 1.5])
    | st.sampled_from(["", "a", "bb", "abc"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": types | st.lists(types, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "minimum": NUMBERS,
        "maximum": NUMBERS,
        "exclusiveMinimum": NUMBERS,
        "multipleOf": st.integers(1, 3),
        "minLength": SMALL,
        "maxLength": SMALL,
        "pattern": st.sampled_from(["a", "^b"]),
        "items": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "minItems": SMALL,
        "maxItems": SMALL,
        "contains": inner,
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=2),
        "additionalProperties": inner,
        "minProperties": SMALL,
        "maxProperties": SMALL,
        "propertyNames": st.sampled_from([{"maxLength": 1}, {"pattern": "a"}, {"enum": ["a", "b"]}]),
        "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=1),
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=3),
        "not": inner,
        "if": inner,
        "then": inner,
    }
    chosen = st.fixed_dictionaries({}, optional=keywords)  # type: ignore[arg-type]
    few = st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True)
    return st.builds(lambda schema, keys: {key: schema[key] for key in keys if key in schema}, chosen, few)


SCHEMAS = st.recursive(
    st.booleans()
    | st.sampled_from([{}, {"type": "string"}, {"type": "integer"}, {"type": "object", "required": ["a"]}]),
    _schemas,
    max_leaves=5,
)


def valid(value: Any, schema: Any) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(value)


@settings(max_examples=200, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(reader=SCHEMAS, writer=SCHEMAS, value=VALUES)
def test_what_a_writer_may_write_is_valid_for_a_reader_without_problems(
    reader: Any, writer: Any, value: Any
) -> None:
    """If the comparison finds no problem, an independent validator accepts every value."""
    assume(valid(value, writer))
    if not valid(value, reader):
        assert problems(reader, writer), value


@given(schema=SCHEMAS)
def test_every_schema_can_follow_itself(schema: Any) -> None:
    assert problems(schema, schema) == []
    assert problems(json.loads(json.dumps(schema)), schema) == []
    assert problems({}, schema) == []


@given(schema=SCHEMAS, other=SCHEMAS)
def test_widening_is_always_compatible(schema: Any, other: Any) -> None:
    assert problems({"anyOf": [schema, other]}, schema) == []
    assert problems(schema, {"allOf": [schema, other]}) == []


STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


@pytest.mark.parametrize(
    ("reader", "writer", "reason"),
    [
        (closed(a=STRING, b=STRING), closed(a=STRING), None),
        (
            closed(a=STRING),
            closed(a=STRING, b=STRING),
            "field b is written, but the reader does not allow it",
        ),
        (
            {"properties": {"a": STRING}},
            {"properties": {}},
            "field a may have any type in records, not only string",
        ),
        (closed(a={"oneOf": [{"type": "null"}, STRING]}), closed(a=STRING), None),
        (
            closed(a={"oneOf": [{"type": "null"}, STRING]}),
            closed(a={"anyOf": [{"type": "null"}, STRING]}),
            None,
        ),
        (
            {"oneOf": [{"type": "number", "maximum": 9}, INTEGER]},
            {"anyOf": [{"type": "number", "maximum": 9}, INTEGER]},
            "the value is written with anyOf, but the reader requires oneOf",
        ),
        (closed(a=STRING), closed(a={"type": ["null", "string"]}), "field a may be null in records"),
        (closed(a=NUMBER), closed(a=INTEGER), None),
        (closed(a=INTEGER), closed(a=NUMBER), "field a is written as number, not integer"),
        (closed(a={"enum": ["x", "y"]}), closed(a={"enum": ["x"]}), None),
        (closed(a={"enum": ["x"]}), closed(a={"enum": ["x", "y"]}), "field a may be y in records"),
        ({"type": "array"}, {"type": "array", "items": STRING}, None),
        (
            {"type": "array", "items": STRING},
            {"type": "array"},
            "field [] is written as anything, not string",
        ),
        (
            {"type": "array", "items": [STRING, INTEGER]},
            {"type": "array", "items": [STRING, STRING]},
            "field [1] is written as string, not integer",
        ),
        (
            {"$schema": DRAFT_2020, "prefixItems": [STRING], "items": False},
            {"$schema": DRAFT_2020, "prefixItems": [STRING], "items": False, "maxItems": 1},
            None,
        ),
        (closed(a=True), closed(a=STRING), None),
        (closed(a=False), closed(a=STRING), "field a is written, but the reader does not allow it"),
        (
            {"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True},
            {"$schema": DRAFT_4, "minimum": 1},
            "the value is written with minimum 1, but the reader requires minimum 1",
        ),
        ({"exclusiveMinimum": 1}, {"type": "integer", "minimum": 2}, None),
        (
            {"$ref": "#/$defs/x", "$defs": {"x": INTEGER}},
            {"$ref": "#/$defs/x", "$defs": {"x": STRING}},
            "the value is written as string, not integer",
        ),
        (
            {"type": "string", "format": "date"},
            {"type": "string", "format": "date-time"},
            "the value is written as date-time, not date",
        ),
        (STRING, {"type": "string", "format": "date"}, None),
    ],
)
def test_a_problem_names_the_field_and_the_reason(reader: Any, writer: Any, reason: str | None) -> None:
    assert problems(reader, writer) == ([] if reason is None else [reason])


def test_recursive_schemas_are_compared() -> None:
    def tree(value: Any) -> dict[str, Any]:
        node = {
            "type": "object",
            "properties": {"value": value, "children": {"items": {"$ref": "#/$defs/node"}}},
        }
        return {"$schema": DRAFT_2020, "$ref": "#/$defs/node", "$defs": {"node": node}}

    assert problems(tree(NUMBER), tree(INTEGER)) == []
    assert problems(tree(INTEGER), tree(NUMBER))[0] == "field value is written as number, not integer"
    around = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert problems(around, around) == []


def test_alternatives_that_multiply_end_in_a_verdict() -> None:
    def nested(depth: int, last: Any) -> Any:
        if not depth:
            return last
        inner = [{"properties": {f"p{n}": nested(depth - 1, last)}, "minProperties": n} for n in range(6)]
        return {"anyOf": inner, "oneOf": inner, "type": "object"}

    assert problems(nested(4, INTEGER), nested(4, NUMBER))
