"""A value type and the plans to read its writers' payloads, as JSON for the decoder inside Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gearshift.schemas.avro.resolution import Plan, resolve
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
    describe,
)

if TYPE_CHECKING:
    from gearshift.definitions import Topic


def value_specification(topic: Topic) -> dict[str, Any]:
    """The shape of a topic's values.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Reading:
    ...     load_kw: float
    >>> _shape(describe(Reading))
    {'kind': 'record', 'fields': [{'name': 'load_kw', 'aliases': [], 'shape': {'kind': 'double'}}]}
    """
    return _shape(describe(topic.value))


def writer_plans(topic: Topic, writers: Mapping[int, str]) -> dict[str, Plan]:
    """The plan to read the payloads of each schema id, or the reason why they cannot be read."""
    return {str(id_): _plan(topic, id_, schema) for id_, schema in writers.items()}


def _plan(topic: Topic, id_: int, schema: str) -> Plan:
    if topic.format == "json":
        return {"read": "json"}
    try:
        return resolve(schema, describe(topic.value))
    except Misfit as misfit:
        return {"refuse": f"schema {id_} cannot be read as {topic.value.__name__}: {misfit}"}


def _shape(shape: Shape) -> dict[str, Any]:
    if isinstance(shape, Scalar):
        return {"kind": shape.value}
    if isinstance(shape, DecimalOf):
        return {"kind": "decimal", "precision": shape.precision, "scale": shape.scale}
    if isinstance(shape, EnumOf):
        return {"kind": "enum", "name": shape.type.__name__, "members": list(shape.members)}
    if isinstance(shape, ListOf):
        return {"kind": "list", "item": _shape(shape.item)}
    if isinstance(shape, MapOf):
        return {"kind": "map", "item": _shape(shape.value)}
    if isinstance(shape, OptionalOf):
        return {"kind": "optional", "item": _shape(shape.item)}
    return _record(shape)


def _record(shape: RecordOf) -> dict[str, Any]:
    return {"kind": "record", "fields": [_field(field) for field in shape.fields]}


def _field(field: Field) -> dict[str, Any]:
    described = {"name": field.name, "aliases": list(field.aliases), "shape": _shape(field.shape)}
    if field.has_default:
        described["default"] = encoder(field.shape, JSON)(field.default)
    return described
