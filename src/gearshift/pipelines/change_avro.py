"""Debezium's envelopes in Avro, as text by column: what the writer's schema says of a type is known before any record."""

from __future__ import annotations

import json
from typing import Any, cast

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from gearshift.definitions import Topic
from gearshift.pipelines.change_values import DESCRIBED
from gearshift.pipelines.changes import SOURCE, envelope_type, key_type, texts_type

_PLAIN = ("string", "boolean", "int", "long", "float", "double", "enum")


def envelope(topic: Topic, payload: Column, writer: str) -> Column:
    """The envelope of an Avro payload; null where the payload is not of the writer's schema."""
    names: dict[str, Any] = {}
    fields = _fields(json.loads(writer), names)
    row = _fields(fields.get("after"), names)
    decoded = from_avro(payload, writer, {"mode": "PERMISSIVE"})
    source = _fields(fields.get("source"), names)
    columns = [field.name for field in texts_type(topic).fields]
    described = {
        "fields": [
            {
                "field": "after",
                "fields": [{"field": name, "name": _logical(type_)} for name, type_ in row.items()],
            }
        ]
    }
    found = F.struct(
        *(
            F.when(decoded[part].isNotNull(), _texts(decoded[part], columns, row, names)).alias(part)
            if part in fields
            else F.lit(None).cast(texts_type(topic)).alias(part)
            for part in ("before", "after")
        ),
        *(_text(decoded, name, fields, names).alias(name) for name in ("op", "ts_ms")),
        _texts(decoded["source"], list(SOURCE), source, names).alias("source")
        if source
        else F.lit(None).cast(envelope_type(topic)["source"].dataType).alias("source"),
        F.lit(None).cast(envelope_type(topic)["payload"].dataType).alias("payload"),
        F.from_json(F.lit(json.dumps(described)), DESCRIBED).alias("schema"),
        F.array(*(F.lit(name) for name in row)).alias("names"),
        F.lit(None).cast("string").alias("_corrupt"),
    )
    return F.when(decoded.isNotNull(), found.cast(envelope_type(topic)))


def key(topic: Topic, payload: Column, writer: str) -> Column:
    """The key of an Avro payload as text by column."""
    names: dict[str, Any] = {}
    fields = _fields(json.loads(writer), names)
    decoded = from_avro(payload, writer, {"mode": "PERMISSIVE"})
    row = _texts(decoded, [field.name for field in texts_type(topic).fields], fields, names)
    none = F.lit(None).cast(texts_type(topic)).alias("payload")
    parts = [row[field.name].alias(field.name) for field in texts_type(topic).fields]
    return F.when(decoded.isNotNull(), F.struct(*parts, none).cast(key_type(topic)))


def _texts(struct: Column, wanted: list[str], fields: dict[str, Any], names: dict[str, Any]) -> Column:
    return F.struct(*(_text(struct, name, fields, names).alias(name) for name in wanted))


def _text(struct: Column, name: str, fields: dict[str, Any], names: dict[str, Any]) -> Column:
    """A field as JSON without a schema would have it."""
    if name not in fields:
        return F.lit(None).cast("string")
    type_ = _resolved(fields[name], names)
    kind = _of(type_, "type") or type_
    if kind in _PLAIN or _of(type_, "logicalType") is not None:
        return struct[name].cast("string")
    return F.base64(struct[name]) if kind in ("bytes", "fixed") else F.to_json(struct[name])


def _logical(type_: Any) -> str | None:
    """The name that Connect gives a type where Avro itself has none for it."""
    chosen = _chosen(type_)
    return _of(chosen, "connect.name") if _of(chosen, "logicalType") is None else None


def _fields(type_: Any, names: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record by name; every record that comes by is remembered for those who only name it."""
    found = _resolved(type_, names)
    return {field["name"]: field["type"] for field in _of(found, "fields") or ()}


def _resolved(type_: Any, names: dict[str, Any], space: str = "") -> Any:
    chosen = _chosen(type_)
    if isinstance(chosen, str):
        return names.get(chosen, names.get(f"{space}.{chosen}", chosen))
    name = _of(chosen, "name")
    if name is not None:
        space = _of(chosen, "namespace") or space
        names[name] = names[f"{space}.{name}"] = chosen
        for field in _of(chosen, "fields") or ():
            _resolved(field["type"], names, space)
    return chosen


def _chosen(type_: Any) -> Any:
    """The type beside null, where a field may be null."""
    if isinstance(type_, list):
        return next((one for one in cast("list[Any]", type_) if one != "null"), "null")
    inner = _of(type_, "type")
    return _chosen(inner) if isinstance(inner, dict | list) else type_


def _of(type_: Any, name: str) -> Any:
    """What a type that is written as an object says under a name."""
    return cast("dict[str, Any]", type_).get(name) if isinstance(type_, dict) else None
