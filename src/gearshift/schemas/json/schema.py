"""The JSON Schema (draft 7) of a shape."""

from __future__ import annotations

from typing import Any, cast

from gearshift.errors import SchemaError
from gearshift.schemas.encoding import JSON, Misfit, encoder
from gearshift.schemas.json.differences import ALIASES, DECIMAL
from gearshift.schemas.shapes import (
    DecimalOf,
    EnumOf,
    Field,
    ListOf,
    MapOf,
    OptionalOf,
    RecordOf,
    Scalar,
    Shape,
)

_SCALARS: dict[Scalar, dict[str, Any]] = {
    Scalar.STRING: {"type": "string"},
    Scalar.LONG: {"type": "integer"},
    Scalar.DOUBLE: {"type": "number"},
    Scalar.BOOLEAN: {"type": "boolean"},
    Scalar.BYTES: {"type": "string", "contentEncoding": "base64"},
    Scalar.TIMESTAMP: {"type": "string", "format": "date-time"},
    Scalar.DATE: {"type": "string", "format": "date"},
}


def json_schema(shape: RecordOf) -> dict[str, Any]:
    """The schema as a dict.

    >>> from dataclasses import dataclass
    >>> from gearshift.schemas.shapes import describe
    >>> @dataclass
    ... class Reading:
    ...     meter_id: str
    >>> json_schema(describe(Reading))["properties"]
    {'meter_id': {'type': 'string'}}
    """
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_record(shape)}


def _record(shape: RecordOf) -> dict[str, Any]:
    # A renamed field is not required: older records have it under a former name.
    required = [field.name for field in shape.fields if not field.has_default and not field.aliases]
    former = {name: _former(_type(field.shape)) for field in shape.fields for name in field.aliases}
    return {
        "title": shape.name,
        "type": "object",
        "properties": {field.name: _field(shape, field) for field in shape.fields} | former,
        **({"required": required} if required else {}),
        # Closed, so that a field with a default can be added: in an open object, old records could have another
        # type under the new name, so registries reject the addition.
        "additionalProperties": False,
    }


def _field(owner: RecordOf, field: Field) -> dict[str, Any]:
    described = _type(field.shape) | ({ALIASES: list(field.aliases)} if field.aliases else {})
    if not field.has_default:
        return described
    try:
        return {**described, "default": encoder(field.shape, JSON)(field.default)}
    except Misfit as misfit:
        raise SchemaError(
            f"the default of {owner.name}.{field.name} does not match its type: {misfit.reason}",
            hint="change the default or the annotation",
        ) from None


def _type(shape: Shape) -> dict[str, Any]:
    if isinstance(shape, Scalar):
        return dict(_SCALARS[shape])
    if isinstance(shape, DecimalOf):
        return {"type": "string", DECIMAL: [shape.precision, shape.scale]}  # text keeps every digit
    if isinstance(shape, EnumOf):
        return {"type": "string", "enum": list(shape.members)}
    if isinstance(shape, ListOf):
        return {"type": "array", "items": _type(shape.item)}
    if isinstance(shape, MapOf):
        return {"type": "object", "additionalProperties": _type(shape.value)}
    if isinstance(shape, OptionalOf):
        return {"oneOf": [{"type": "null"}, _type(shape.item)]}
    return _record(shape)


def keeping(new: Any, old: Any) -> Any:
    """The schema with its removed fields as deprecated ones, because older records have them.

    Otherwise a closed object would forbid them, and no field could ever be removed.
    """
    if not isinstance(new, dict) or not isinstance(old, dict):
        return cast("Any", new)
    now, before = cast("dict[str, Any]", new), cast("dict[str, Any]", old)
    kept = {
        key: keeping(now[key], before.get(key)) for key in ("items", "additionalProperties") if key in now
    }
    if "oneOf" in now:
        kept["oneOf"] = [keeping(branch, _last(before)) for branch in now["oneOf"]]
    if "properties" in now and isinstance(before.get("properties"), dict):
        properties, past = now["properties"], before["properties"]
        removed = {name: _former(part) for name, part in past.items() if name not in properties}
        kept["properties"] = {
            name: keeping(part, past.get(name)) for name, part in properties.items()
        } | removed
    return {**now, **kept}


def without_former(schema: Any) -> Any:
    """The schema without the fields that only older records have."""
    if isinstance(schema, list):
        return [without_former(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    parts = cast("dict[str, Any]", schema).items()
    return {
        key: without_former(part)
        for key, part in parts
        if not (isinstance(part, dict) and cast("dict[str, Any]", part).get("deprecated") is True)
    }


def _last(schema: dict[str, Any]) -> Any:
    """The schema inside an optional one, or the schema itself."""
    return schema["oneOf"][-1] if schema.get("oneOf") else schema


def _former(part: Any) -> Any:
    return {**cast("dict[str, Any]", part), "deprecated": True} if isinstance(part, dict) else part
