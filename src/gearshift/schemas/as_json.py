"""The JSON Schema (draft 7) of a shape."""

from __future__ import annotations

from typing import Any

from gearshift.errors import SchemaError
from gearshift.schemas.encoding import JSON, Misfit, encoder
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
    required = [field.name for field in shape.fields if not field.has_default]
    return {
        "title": shape.name,
        "type": "object",
        "properties": {field.name: _field(shape, field) for field in shape.fields},
        **({"required": required} if required else {}),
        # Closed, so that a field with a default can be added: had the records so far been free to carry
        # anything, one of them could hold that name with another type, and registries refuse the addition.
        "additionalProperties": False,
    }


def _field(owner: RecordOf, field: Field) -> dict[str, Any]:
    described = _type(field.shape)
    if not field.has_default:
        return described
    try:
        return {**described, "default": encoder(field.shape, JSON)(field.default)}
    except Misfit as misfit:
        raise SchemaError(
            f"the default of {owner.name}.{field.name} does not fit its type: {misfit.reason}",
            hint="change the default or the annotation",
        ) from None


def _type(shape: Shape) -> dict[str, Any]:
    if isinstance(shape, Scalar):
        return dict(_SCALARS[shape])
    if isinstance(shape, DecimalOf | EnumOf):
        # Decimals as text keep every digit; an Enum's words are not listed, so that it may gain a member.
        return {"type": "string"}
    if isinstance(shape, ListOf):
        return {"type": "array", "items": _type(shape.item)}
    if isinstance(shape, MapOf):
        return {"type": "object", "additionalProperties": _type(shape.value)}
    if isinstance(shape, OptionalOf):
        return {"oneOf": [{"type": "null"}, _type(shape.item)]}
    return _record(shape)
