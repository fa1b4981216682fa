"""Resolves Avro writers' schemas against a declared type.

The result is a *plan* in plain JSON: how to read which bytes into which field, and which to skip. Deliveries compile a
plan to Python (`reading.py`), pipelines run it inside Spark (`spark/jvm/Avro.java`). Fields match by name and alias,
types by Avro's rules of promotion, and logical types by the unit and scale of the *writer*. Names of records do not
matter.
"""

from __future__ import annotations

import json
from typing import Any

from gearshift.schemas.avro.writer import EMPTY_ITEMS, UNITS, Plan, Type, Writer, inner
from gearshift.schemas.encoding import Misfit
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
    TimeOf,
)

_INTEGERS = ("int", "long")
_MOST_PLACES = 1000  # digits after the point of a written decimal; Java's and Python's largest scales differ


def resolve(writer_schema: str, shape: RecordOf) -> Plan:
    """The plan to read payloads of a writer's schema as values of this shape; Misfit if that is impossible.

    >>> from dataclasses import dataclass
    >>> from gearshift.schemas.shapes import describe
    >>> @dataclass
    ... class Reading:
    ...     load_kw: float
    >>> resolve('{"type": "record", "name": "R", "fields": [{"name": "load_kw", "type": "int"}]}', describe(Reading))
    {'read': 'record', 'fields': [[0, {'read': 'double', 'of': 'int'}]], 'defaults': [], 'skips': {}}
    """
    try:
        schema = json.loads(writer_schema)
    except (ValueError, RecursionError):
        raise Misfit("the writer's schema is not JSON") from None
    try:
        writer = Writer(schema)
        plan = _Resolution(writer).plan(writer.root, shape, None)
    except RecursionError:
        raise Misfit("the writer's schema is nested too deeply") from None
    return {**plan, "skips": writer.skips}


class _Resolution:
    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def plan(self, part: tuple[Any, str], shape: Shape, time: TimeOf | None) -> Plan:
        found = self.writer.type_of(part)
        if isinstance(found, list):
            return self._union(found, shape, time)
        if isinstance(shape, OptionalOf):
            return {"read": "null"} if found.kind == "null" else self.plan(part, shape.item, time)
        if found.kind == "null":
            raise Misfit("is null")
        if isinstance(shape, RecordOf):
            return self._record(found, shape)
        if isinstance(shape, ListOf | MapOf):
            return self._collection(found, shape, time)
        if isinstance(shape, DecimalOf):
            return _decimal(found, shape)
        if isinstance(shape, EnumOf):
            return {"read": "member", "of": _words(found), "members": list(shape.members)}
        return _scalar(found, shape, time)

    def _union(self, branches: list[tuple[Any, str]], shape: Shape, time: TimeOf | None) -> Plan:
        plans: list[Plan] = []
        readable = False
        for branch in branches:
            try:
                plans.append(self.plan(branch, shape, time))
                readable = True
            except Misfit as misfit:
                plans.append({"read": "refuse", "reason": str(misfit)})
        if not readable:
            reasons = [plan["reason"] for plan in plans if plan["reason"] != "is null"]
            raise Misfit(reasons[0] if reasons else "is always null")
        return {"read": "union", "branches": plans}

    def _record(self, found: Type, shape: RecordOf) -> Plan:
        if found.kind != "record":
            raise _is_not(found, "a record")
        written = self.writer.fields(found)
        names = [name for name, _ in written]
        sources: dict[str, int] = {}
        defaults: list[int] = []
        for number, field in enumerate(shape.fields):
            source = next((name for name in (field.name, *field.aliases) if name in names), None)
            if source is not None:
                sources[source] = number
            elif field.has_default:
                defaults.append(number)
            else:
                raise Misfit("is missing in the writer's schema and has no default", (field.name,))
        fields: list[list[Any]] = []
        for name, part in written:
            if name in sources:
                fields.append([sources[name], self._field(part, shape.fields[sources[name]])])
            else:
                fields.append([-1, self.writer.skip(part)])
        return {"read": "record", "fields": fields, "defaults": defaults}

    def _field(self, part: tuple[Any, str], field: Field) -> Plan:
        try:
            return self.plan(part, field.shape, field.time)
        except Misfit as misfit:
            raise misfit.inside(field.name) from None

    def _collection(self, found: Type, shape: ListOf | MapOf, time: TimeOf | None) -> Plan:
        kind, word = ("array", "a list") if isinstance(shape, ListOf) else ("map", "a map")
        if found.kind != kind:
            raise _is_not(found, word)
        items = inner(found)
        item = shape.item if isinstance(shape, ListOf) else shape.value
        try:
            plan = self.plan(items, item, time)
        except Misfit as misfit:
            raise misfit.inside("[]") from None
        if not self.writer.takes_bytes(items) and kind == "array":
            raise Misfit(EMPTY_ITEMS)
        return {"read": kind, "items": plan}


def _is_not(found: Type, wanted: str) -> Misfit:
    return Misfit(f"is written as {found}, which cannot be read as {wanted}")


def _words(found: Type) -> Plan:
    """The plan to read a text."""
    if found.kind == "enum":
        return {"read": "enum", "symbols": [str(symbol) for symbol in found.written["symbols"]]}
    if found.kind == "fixed" and found.logical == "uuid":
        return {"read": "uuid"}
    # Avro also reads bytes as text, but not those of a decimal.
    if found.kind == "string" or (found.kind == "bytes" and found.logical is None):
        return {"read": "string"}
    raise _is_not(found, "str")


def _octets(found: Type) -> Plan:
    if found.kind in ("bytes", "string"):
        return {"read": "bytes"}
    if found.kind == "fixed":
        return {"read": "fixed", "size": found.size}
    raise _is_not(found, "bytes")


def _decimal(found: Type, shape: DecimalOf) -> Plan:
    if found.logical != "decimal":
        raise _is_not(found, f"Decimal({shape.precision}, {shape.scale})")
    places = int(found.written.get("scale", 0))
    if places > _MOST_PLACES:
        raise Misfit(
            f"is written with {places} digits after the point, more than the limit of {_MOST_PLACES}"
        )
    return {
        "read": "decimal",
        "of": _octets(found),
        "written_scale": places,
        "precision": shape.precision,
        "scale": shape.scale,
    }


def _scalar(found: Type, shape: Scalar, time: TimeOf | None) -> Plan:
    match shape:
        case Scalar.STRING:
            return _words(found)
        case Scalar.BYTES:
            return _octets(found)
        case Scalar.BOOLEAN if found.kind == "boolean":
            return {"read": "boolean"}
        case Scalar.LONG if found.kind in _INTEGERS and found.logical is None:
            return {"read": found.kind}
        case Scalar.LONG if found.kind in _INTEGERS and found.logical != "date":
            return _count(found, time or TimeOf())
        case Scalar.DOUBLE if found.kind in ("float", "double") or (
            found.kind in _INTEGERS and found.logical is None
        ):
            return {"read": "double", "of": found.kind}
        case Scalar.DATE if found.logical == "date":
            return {"read": "date"}
        case Scalar.TIMESTAMP if found.kind in _INTEGERS:
            return _timestamp(found, time or TimeOf())
        case _:
            raise _is_not(found, _PYTHON[shape])


_PYTHON = {
    Scalar.STRING: "str",
    Scalar.LONG: "int",
    Scalar.DOUBLE: "float",
    Scalar.BOOLEAN: "bool",
    Scalar.BYTES: "bytes",
    Scalar.TIMESTAMP: "datetime",
    Scalar.DATE: "date",
}


def _count(found: Type, time: TimeOf) -> Plan:
    """The plan to read a time as a number in the declared unit."""
    if time.unit is None:
        raise Misfit(
            f"is written as {found}, which other versions may write in another unit; "
            'declare it as Annotated[int, gs.TimeOf("ms")]'
        )
    written = UNITS[str(found.logical).rpartition("-")[2]]
    return {"read": "count", "of": found.kind, "unit": written, "in": time.unit}


def _timestamp(found: Type, time: TimeOf) -> Plan:
    kind, _, unit = (found.logical or "").rpartition("-")
    if found.logical is None and time.unit is not None:
        return {"read": "timestamp", "of": found.kind, "unit": time.unit, "zone": None}
    if found.logical is None:
        raise Misfit(
            f"is a plain {found.kind}, which has no unit; "
            'declare it as int, or as Annotated[datetime, gs.TimeOf("ms")]'
        )
    if kind == "timestamp":
        return {"read": "timestamp", "of": found.kind, "unit": UNITS[unit], "zone": None}
    if kind == "local-timestamp" and time.zone is not None:
        return {"read": "timestamp", "of": found.kind, "unit": UNITS[unit], "zone": time.zone}
    if kind == "local-timestamp":
        raise Misfit(
            "is a local timestamp, which has no time zone; "
            'declare it as Annotated[datetime, gs.TimeOf(zone="UTC")]'
        )
    raise _is_not(found, "datetime")
