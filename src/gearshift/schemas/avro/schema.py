"""The Avro schema of a shape."""

from __future__ import annotations

from typing import Any

from gearshift.errors import SchemaError
from gearshift.schemas.avro.differences import MEMBERS
from gearshift.schemas.encoding import AVRO_PLAIN, Misfit, encoder
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

_PRIMITIVES = {
    Scalar.STRING: "string",
    Scalar.LONG: "long",
    Scalar.DOUBLE: "double",
    Scalar.BOOLEAN: "boolean",
    Scalar.BYTES: "bytes",
    Scalar.TIMESTAMP: "long",
    Scalar.DATE: "int",
}
_LOGICAL = {Scalar.TIMESTAMP: "timestamp-micros", Scalar.DATE: "date"}


def avro_schema(shape: RecordOf, *, logical: bool = True) -> dict[str, Any]:
    """The schema as a dict; without logical types it describes the same bytes as plain numbers.

    >>> from dataclasses import dataclass
    >>> from gearshift.schemas.shapes import describe
    >>> @dataclass
    ... class Reading:
    ...     load_kw: float = 0.0
    >>> avro_schema(describe(Reading))
    {'type': 'record', 'name': 'Reading', 'fields': [{'name': 'load_kw', 'type': 'double', 'default': 0.0}]}
    """
    return _Walk(logical).record(shape)


class _Walk:
    def __init__(self, logical: bool) -> None:
        self.logical = logical
        self.defined: set[str] = set()

    def record(self, shape: RecordOf) -> Any:
        if shape.name in self.defined:
            return shape.name
        self.defined.add(shape.name)
        return {
            "type": "record",
            "name": shape.name,
            "fields": [self.field(shape, field) for field in shape.fields],
        }

    def field(self, owner: RecordOf, field: Field) -> dict[str, Any]:
        described: dict[str, Any] = {"name": field.name}
        if isinstance(field.shape, OptionalOf) and field.has_default and field.default is not None:
            # Avro requires the default's branch to be the first.
            described["type"] = [self.type(field.shape.item), "null"]
        else:
            described["type"] = self.type(field.shape)
        if field.has_default:
            described["default"] = _default(owner, field)
        if field.aliases:
            described["aliases"] = list(field.aliases)
        return described

    def type(self, shape: Shape) -> Any:
        if isinstance(shape, Scalar):
            if self.logical and shape in _LOGICAL:
                return {"type": _PRIMITIVES[shape], "logicalType": _LOGICAL[shape]}
            return _PRIMITIVES[shape]
        if isinstance(shape, DecimalOf):
            if not self.logical:
                return "bytes"
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": shape.precision,
                "scale": shape.scale,
            }
        if isinstance(shape, EnumOf):
            # Not Avro's enum: a new member would break every reader that does not know it.
            return {"type": "string", MEMBERS: list(shape.members)} if self.logical else "string"
        if isinstance(shape, ListOf):
            return {"type": "array", "items": self.type(shape.item)}
        if isinstance(shape, MapOf):
            return {"type": "map", "values": self.type(shape.value)}
        if isinstance(shape, OptionalOf):
            return ["null", self.type(shape.item)]
        return self.record(shape)


def _default(owner: RecordOf, field: Field) -> Any:
    try:
        return _as_json(encoder(field.shape, AVRO_PLAIN)(field.default))
    except Misfit as misfit:
        raise SchemaError(
            f"the default of {owner.name}.{field.name} does not match its type: {misfit.reason}",
            hint="change the default or the annotation",
        ) from None


def _as_json(datum: Any) -> Any:
    """Convert bytes in a default to the characters with the same code points, as Avro requires."""
    if isinstance(datum, bytes):
        return datum.decode("latin-1")
    if isinstance(datum, list):
        return [_as_json(item) for item in datum]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(datum, dict):
        return {key: _as_json(item) for key, item in datum.items()}  # pyright: ignore[reportUnknownVariableType]
    return datum
