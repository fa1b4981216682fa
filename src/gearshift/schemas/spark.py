"""The Spark schema of a shape, as JSON for `StructType.fromJson`."""

from __future__ import annotations

from typing import Any

from gearshift.schemas.shapes import DecimalOf, EnumOf, ListOf, MapOf, OptionalOf, RecordOf, Scalar, Shape

_SCALARS = {Scalar.BYTES: "binary"}


def spark_struct(shape: RecordOf) -> dict[str, Any]:
    """The struct of a record.

    >>> from dataclasses import dataclass
    >>> from gearshift.schemas.shapes import describe
    >>> @dataclass
    ... class Reading:
    ...     load_kw: float | None
    >>> spark_struct(describe(Reading))["fields"]
    [{'name': 'load_kw', 'type': 'double', 'nullable': True, 'metadata': {}}]
    """
    return {
        "type": "struct",
        "fields": [
            {
                "name": field.name,
                "type": _type(field.shape),
                "nullable": _nullable(field.shape),
                "metadata": {},
            }
            for field in shape.fields
        ],
    }


def _nullable(shape: Shape) -> bool:
    return isinstance(shape, OptionalOf)


def _type(shape: Shape) -> Any:
    if isinstance(shape, Scalar):
        return _SCALARS.get(shape, shape.value)
    if isinstance(shape, DecimalOf):
        return f"decimal({shape.precision},{shape.scale})"
    if isinstance(shape, EnumOf):
        return "string"
    if isinstance(shape, ListOf):
        return {"type": "array", "elementType": _type(shape.item), "containsNull": _nullable(shape.item)}
    if isinstance(shape, MapOf):
        return {
            "type": "map",
            "keyType": "string",
            "valueType": _type(shape.value),
            "valueContainsNull": _nullable(shape.value),
        }
    if isinstance(shape, OptionalOf):
        return _type(shape.item)
    return spark_struct(shape)
