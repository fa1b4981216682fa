"""Reads Debezium's envelopes in Avro, by converting the writer's schema to Connect's JSON form.

So Avro and JSON envelopes are read by the same rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from gearshift.errors import DecodeError
from gearshift.schemas.avro.writer import Plan, Writer
from gearshift.schemas.debezium import values
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.payloads import avro_datum
from gearshift.schemas.wire import HEAD_SIZE, head, unpack

if TYPE_CHECKING:
    from gearshift.schemas.registry_client import Registry

_TYPES = {
    "int": "int32",
    "long": "int64",
    "fixed": "bytes",
    "enum": "string",
    "record": "struct",
}
# Connect's names for Avro's logical types, where its converter has not added them.
_NAMES = {
    "decimal": "org.apache.kafka.connect.data.Decimal",
    "date": "org.apache.kafka.connect.data.Date",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A writer's schema in two parts: how its bytes are read, and what the values mean."""

    plain: Any
    """The schema without logical types, which reads plain numbers, texts and bytes."""
    connect: dict[str, Any]
    """The same as a Connect schema, which names the logical types of the columns."""
    plan: Plan = field(repr=False)
    """How to check that bytes are exactly one value of it, which neither fastavro nor Spark does."""

    @classmethod
    def read(cls, text: str) -> Written:
        """Parse a registered schema; Misfit if its records cannot be read.

        >>> day = '{"type": "int", "connect.name": "io.debezium.time.Date", "logicalType": "date"}'
        >>> Written.read(day)
        Written(plain={'type': 'int', 'connect.name': 'io.debezium.time.Date'}, \
connect={'type': 'int32', 'name': 'io.debezium.time.Date'})
        """
        try:
            schema = json.loads(text)
            writer = Writer(schema, checks_texts=True)
            plan = writer.whole()
            described = _described(schema, {}, "")
            if writer.recursive:  # Spark reads none, and no table has one
                raise ValueError("a record in it contains itself")
            return cls(plain=_plain(schema), connect=described, plan=plan)
        except (ValueError, RecursionError) as error:
            raise Misfit(f"cannot be used: {str(error) or 'it is nested too deeply'}") from None


class AvroReader:
    """Reads keys and envelopes, each with the schema whose id is in its first five bytes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._readers: dict[bytes, Callable[[bytes], Any]] = {}

    def __call__(self, data: bytes) -> Any:
        """The datum with its logical types applied; raises Misfit."""
        known = self._readers.get(data[:HEAD_SIZE])
        if known is not None:
            return known(data[HEAD_SIZE:])
        try:
            schema_id, payload = unpack(data)
        except DecodeError as error:
            raise Misfit(error.what) from None
        reader = self._readers[head(schema_id)] = self._reader(schema_id)
        return reader(payload)

    def _reader(self, schema_id: int) -> Callable[[bytes], Any]:
        schema = self._registry.schema(schema_id)
        if schema is None or schema.format != "avro":
            raise Misfit(f"schema {schema_id} is {'not registered' if schema is None else 'not Avro'}")
        try:
            return reader(schema.text)
        except Misfit as misfit:
            raise Misfit(f"schema {schema_id}: {misfit}") from None


def reader(schema: str) -> Callable[[bytes], Any]:
    """A function that decodes payloads of a writer's schema; it raises Misfit."""
    written = Written.read(schema)
    datum_of = avro_datum(written.plain)
    return lambda payload: values.apply(written.connect, datum_of(payload))


def _plain(type_: Any) -> Any:
    if isinstance(type_, list):
        return [_plain(one) for one in cast("list[Any]", type_)]
    if not isinstance(type_, dict):
        return type_
    found = {name: what for name, what in cast("dict[str, Any]", type_).items() if name != "logicalType"}
    for part in ("type", "items", "values"):
        if part in found:
            found[part] = _plain(found[part])
    if found.get("type") in ("record", "error"):
        found["fields"] = [{**each, "type": _plain(each["type"])} for each in found["fields"]]
    return found


def _described(type_: Any, known: dict[str, dict[str, Any]], space: str) -> dict[str, Any]:
    """The Connect schema of a type; empty for a union of several types."""
    if isinstance(type_, list):
        chosen = [one for one in cast("list[Any]", type_) if one != "null"]
        return _described(chosen[0], known, space) if len(chosen) == 1 else {}
    if isinstance(type_, str):
        return known.get(_full(type_, space)) or {"type": _TYPES.get(type_, type_)}
    found = cast("dict[str, Any]", type_)
    kind = found["type"]
    if not isinstance(kind, str) or kind not in _CONTAINERS:
        return {**_described(kind, known, space), **_logical(found)}
    if kind == "array":
        described: dict[str, Any] = {"type": kind, "items": _described(found["items"], known, space)}
    elif kind == "map":
        described = {"type": kind, "values": _described(found["values"], known, space)}
    else:
        full = _full(found["name"], found.get("namespace", space))
        inside = full.rpartition(".")[0]
        described = {"type": _TYPES[kind]}
        if kind == "record":
            described["fields"] = [
                {**_described(each["type"], known, inside), "field": each["name"]} for each in found["fields"]
            ]
        known[full] = described
    described |= _logical(found)
    return described


_CONTAINERS = ("array", "map", "record", "enum", "fixed")


def _logical(type_: Mapping[str, Any]) -> dict[str, Any]:
    name = type_.get("connect.name") or _NAMES.get(str(type_.get("logicalType")).removeprefix("local-"))
    if name is None:
        return {}
    given = type_.get("connect.parameters")
    parameters = dict(cast("dict[str, Any]", given)) if isinstance(given, dict) else {}
    if "scale" in type_:
        parameters.setdefault("scale", str(type_["scale"]))
    return {"name": name, "parameters": parameters} if parameters else {"name": name}


def _full(name: str, space: str) -> str:
    return f"{space}.{name}" if space and "." not in name else name
