"""Debezium's envelopes in Avro: the writer's schema in the words of the one that Connect's JSON brings along.

So every value is read by one set of rules, however it came.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from gearshift.errors import DecodeError
from gearshift.schemas import debezium_values as values
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.payloads import avro_datum
from gearshift.schemas.wire import HEAD_SIZE, head, unpack

if TYPE_CHECKING:
    from gearshift.schemas.registry import Registry

_TYPES = {
    "int": "int32",
    "long": "int64",
    "fixed": "bytes",
    "enum": "string",
    "record": "struct",
}
# What Avro's own logical types are where no converter of Connect's has put its name beside them.
_NAMES = {
    "decimal": "org.apache.kafka.connect.data.Decimal",
    "date": "org.apache.kafka.connect.data.Date",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A writer's schema in two parts: how its bytes are read, and what the values stand for."""

    plain: Any
    """The schema without logical types: it gives the numbers, texts and bytes that were written."""
    connect: dict[str, Any]
    """The same as a schema of Connect's, which names the logical types of the columns."""

    @classmethod
    def read(cls, text: str) -> Written:
        """Read a registered schema.

        >>> day = '{"type": "int", "connect.name": "io.debezium.time.Date", "logicalType": "date"}'
        >>> Written.read(day)
        Written(plain={'type': 'int', 'connect.name': 'io.debezium.time.Date'}, \
connect={'type': 'int32', 'name': 'io.debezium.time.Date'})
        """
        schema = json.loads(text)
        return cls(plain=_plain(schema), connect=_described(schema, {}, ""))


class AvroReader:
    """Reads keys and envelopes, each with the schema that its first five bytes name."""

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
            raise Misfit(f"schema {schema_id} is {'not registered' if schema is None else 'no Avro'}")
        try:
            return reader(schema.text)
        except ValueError as error:
            raise Misfit(f"schema {schema_id} cannot be used: {error}") from None


def reader(schema: str) -> Callable[[bytes], Any]:
    """A function that reads payloads of a writer's schema; it raises Misfit."""
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
    if "fields" in found:
        found["fields"] = [{**field, "type": _plain(field["type"])} for field in found["fields"]]
    return found


def _described(type_: Any, known: dict[str, dict[str, Any]], space: str) -> dict[str, Any]:
    """Connect's schema of a type; of a choice between several types it says nothing."""
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
                {**_described(field["type"], known, inside), "field": field["name"]}
                for field in found["fields"]
            ]
        known[full] = described
    described |= _logical(found)
    return described


_CONTAINERS = ("array", "map", "record", "enum", "fixed")


def _logical(type_: Mapping[str, Any]) -> dict[str, Any]:
    name = type_.get("connect.name") or _NAMES.get(str(type_.get("logicalType")).removeprefix("local-"))
    if name is None:
        return {}
    parameters = dict(type_.get("connect.parameters") or {})
    if "scale" in type_:
        parameters.setdefault("scale", str(type_["scale"]))
    return {"name": name, "parameters": parameters} if parameters else {"name": name}


def _full(name: str, space: str) -> str:
    return f"{space}.{name}" if space and "." not in name else name
