"""Debezium's Avro envelopes as one text per column; the types come from the writer's schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from gearshift.definitions import Topic
from gearshift.pipelines.records.debezium import SOURCE, envelope_type, key_type, texts_type
from gearshift.pipelines.records.debezium_values import DESCRIBED
from gearshift.schemas.debezium.avro import Written
from gearshift.schemas.debezium.events import EPOCH_FIELD

Fields = Mapping[str, Mapping[str, Any]]


def datum(payload: Column, writer: str) -> Column:
    """The decoded payload; a row of nulls if it does not match the writer's schema.

    It needs a separate projection: it is used once per column, and Spark would decode it each time.
    """
    return from_avro(payload, json.dumps(Written.read(writer).plain), {"mode": "PERMISSIVE"})


def envelope(topic: Topic, datum: Column, writer: str) -> Column:
    """The envelope in a datum; null if there is none."""
    fields = _fields(Written.read(writer).connect)
    row = _fields(fields.get("after") or {})
    columns = [field.name for field in texts_type(topic).fields]
    parts = [field for name, field in row.items() if name in columns]
    found = F.struct(
        *(
            F.when(datum[part].isNotNull(), _texts(datum[part], columns, row)).alias(part)
            if part in fields
            else F.lit(None).cast(texts_type(topic)).alias(part)
            for part in ("before", "after")
        ),
        *(_text(datum, name, fields).alias(name) for name in ("op", "ts_ms", EPOCH_FIELD)),
        _texts(datum["source"], list(SOURCE), _fields(fields["source"])).alias("source")
        if "source" in fields
        else F.lit(None).cast(envelope_type(topic)["source"].dataType).alias("source"),
        F.lit(None).cast(envelope_type(topic)["payload"].dataType).alias("payload"),
        F.from_json(F.lit(json.dumps({"fields": [{"field": "after", "fields": parts}]})), DESCRIBED).alias(
            "schema"
        ),
        F.array(*(F.lit(name) for name in row)).cast("array<string>").alias("names"),
        F.lit(None).cast("string").alias("_corrupt"),
    )
    # Every envelope has an op; an unreadable one has only nulls.
    readable = datum["op"].isNotNull() if "op" in fields else F.lit(True)
    return F.when(readable, found.cast(envelope_type(topic)))


def key(topic: Topic, datum: Column, writer: str) -> Column:
    """The key in a datum, as one text per column."""
    row = _texts(
        datum, [field.name for field in texts_type(topic).fields], _fields(Written.read(writer).connect)
    )
    none = F.lit(None).cast(texts_type(topic)).alias("payload")
    parts = [row[field.name].alias(field.name) for field in texts_type(topic).fields]
    return F.struct(*parts, none).cast(key_type(topic))


def _fields(described: Mapping[str, Any]) -> Fields:
    return {field["field"]: field for field in described.get("fields", ())}


def _texts(struct: Column, wanted: list[str], fields: Fields) -> Column:
    return F.struct(*(_text(struct, name, fields).alias(name) for name in wanted))


def _text(struct: Column, name: str, fields: Fields) -> Column:
    """A field as schemaless JSON has it."""
    if name not in fields:
        return F.lit(None).cast("string")
    match fields[name].get("type"):
        case "bytes":
            return F.translate(F.base64(struct[name]), "\r\n", "")  # Spark may insert line breaks
        case "struct" | "array" | "map":
            return F.to_json(struct[name])
        case (
            "float"
        ):  # or its text would have the digits of a 32-bit float, which is another number in 64 bits
            return struct[name].cast("double").cast("string")
        case _:
            return struct[name].cast("string")
