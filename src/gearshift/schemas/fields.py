"""The fields of a registered schema, in a word each, for people."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from gearshift.schemas.avro.from_json import writer
from gearshift.schemas.avro.to_json import reader
from gearshift.schemas.encoding import Misfit


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a schema."""

    name: str
    """Empty for a schema that is no record."""
    type: str
    required: bool = True
    default: Any = None
    """The value of a field that is left out; None also if there is none."""
    note: str = ""
    """Whether it may be left out, in words."""


def fields(format_: str, schema: Any) -> list[Field]:
    """The fields of an Avro or JSON schema.

    >>> fields("avro", {"type": "record", "name": "R", "fields": [{"name": "load_kw", "type": "double", "default": 0}]})
    [Field(name='load_kw', type='double', required=False, default=0, note='default 0')]
    >>> fields("json", {"properties": {"load_kw": {"type": "number"}}, "required": ["load_kw"]})
    [Field(name='load_kw', type='number', required=True, default=None, note='')]
    """
    if not isinstance(schema, dict):
        return [Field(name="", type=json.dumps(schema))]
    parts = cast("dict[str, Any]", schema)
    if format_ == "avro":
        return _of_record(parts)
    required = cast("list[str]", parts.get("required", []))
    properties = cast("dict[str, Any]", parts.get("properties", {}))
    return [
        Field(
            name=name,
            type=_json_type(part),
            required=name in required,
            default=cast("dict[str, Any]", part).get("default") if isinstance(part, dict) else None,
            note="" if name in required else "optional",
        )
        for name, part in properties.items()
        if not (isinstance(part, dict) and cast("dict[str, Any]", part).get("deprecated"))
    ]


def readable_default(format_: str, schema: Any, field: Field) -> Any:
    """The default of a field in the form in which values are read and written; schemas have bytes as characters.

    >>> price = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    >>> record = {"type": "record", "name": "R", "fields": [{"name": "price", "type": price, "default": "\u0019"}]}
    >>> readable_default("avro", record, fields("avro", record)[0])
    '0.25'
    """
    if format_ != "avro" or field.required or field.default is None:
        return field.default
    one = [each for each in schema["fields"] if each["name"] == field.name]
    try:
        only = {**schema, "fields": one}
        return reader(only)(writer(only)({}))[field.name]
    except (Misfit, KeyError, TypeError, ValueError, IndexError):  # a type that another field defines
        return field.default


def _of_record(schema: dict[str, Any]) -> list[Field]:
    if "fields" not in schema:
        return [Field(name="", type=_avro_type(schema))]
    return [
        Field(
            name=each["name"],
            type=_avro_type(each["type"]),
            required="default" not in each,
            default=each.get("default"),
            note=f"default {json.dumps(each['default'])}" if "default" in each else "",
        )
        for each in cast("list[dict[str, Any]]", schema["fields"])
    ]


def _avro_type(type_: Any) -> str:
    """An Avro type in a word.

    >>> _avro_type(["null", {"type": "long", "logicalType": "timestamp-micros"}])
    'timestamp-micros or null'
    """
    if isinstance(type_, list):
        branches = cast("list[Any]", type_)
        words = [_avro_type(each) for each in branches if each != "null"]
        return " or ".join([*words, "null"] if "null" in branches else words)
    if not isinstance(type_, dict):
        return str(type_)
    parts = cast("dict[str, Any]", type_)
    if parts.get("logicalType") == "decimal":
        return f"decimal({parts.get('precision')}, {parts.get('scale', 0)})"
    if "logicalType" in parts:
        return str(parts["logicalType"])
    kind: Any = parts["type"]
    if kind == "array":
        return f"list of {_avro_type(parts['items'])}"
    if kind == "map":
        return f"map of {_avro_type(parts['values'])}"
    if symbols := parts.get("symbols") or parts.get("gearshift.members"):
        return " | ".join(symbols)
    return str(parts.get("name", kind)) if isinstance(kind, str) else _avro_type(kind)


def _json_type(part: Any) -> str:
    """A JSON type in a word.

    >>> _json_type({"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]})
    'date or null'
    """
    if not isinstance(part, dict):
        return "any"
    parts = cast("dict[str, Any]", part)
    if "$ref" in parts:
        return str(parts["$ref"]).rpartition("/")[2]
    if "enum" in parts:
        return " | ".join(map(str, parts["enum"]))
    if branches := parts.get("oneOf") or parts.get("anyOf"):
        return " or ".join(sorted(map(_json_type, branches), key=lambda name: name == "null"))
    kind: Any = parts.get("format") or parts.get("title") or parts.get("type", "any")
    if kind == "array":
        return f"list of {_json_type(parts.get('items'))}"
    return " or ".join(cast("list[str]", kind)) if isinstance(kind, list) else str(kind)
