"""What Confluent's own serializer writes with other people's schemas: read rightly, or refused with the reason."""

from __future__ import annotations

import decimal
import json
import uuid
from contextlib import closing
from dataclasses import dataclass, make_dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from gearshift.connection import Connection
from gearshift.definitions import Location, Topic
from gearshift.errors import DecodeError
from gearshift.pipelines.records import reading
from gearshift.pipelines.records.debezium import VALUE, WHY
from gearshift.schemas import DecimalOf, Decoder, Registry, TimeOf
from tests.meanings import comparable

HERE = Location(__file__, 1)
AT = datetime(2026, 3, 29, 1, 2, 3, 4000, tzinfo=UTC)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


class Refused(str):
    """The words of a refusal."""


class Tariff(Enum):
    DAY = "day"
    NIGHT = "night"


@dataclass
class Place:
    city: str


Price = Annotated[Decimal, DecimalOf(12, 2)]


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def named(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "name": "Named", **more}


Probe = tuple[Any, Any, Any, Any]
"""The writer's type of the field, what is written, the declared type, and the value or the words of the refusal."""
PROBES: dict[str, Probe] = {
    "enum as str": (named("enum", symbols=["day", "night"]), "night", str, "night"),
    "enum as Enum": (named("enum", symbols=["day", "night"]), "night", Tariff, "night"),
    "uuid": (logical("string", "uuid"), ID, str, str(ID)),
    "bytes decimal": (logical("bytes", "decimal", precision=12, scale=2), Decimal("12.34"), Price, Decimal("12.34")),
    "another scale": (logical("bytes", "decimal", precision=12, scale=4), Decimal("12.3400"), Price, Decimal("12.34")),
    "a scale too fine": (
        logical("bytes", "decimal", precision=12, scale=4), Decimal("12.3456"), Price, Refused("more than 2 digits after the point"),
    ),
    "fixed decimal": (
        named("fixed", size=8, logicalType="decimal", precision=12, scale=2), Decimal("-0.01"), Price, Decimal("-0.01"),
    ),
    "timestamp-millis": (logical("long", "timestamp-millis"), AT, datetime, AT),
    "timestamp-micros": (logical("long", "timestamp-micros"), AT, datetime, AT),
    "local-timestamp-millis": (
        logical("long", "local-timestamp-millis"), AT.replace(tzinfo=None),
        Annotated[datetime, TimeOf(zone="Europe/Berlin")], datetime(2026, 3, 29, 0, 2, 3, 4000, tzinfo=UTC),
    ),
    "local-timestamp-micros": (
        logical("long", "local-timestamp-micros"), AT.replace(tzinfo=None), Annotated[datetime, TimeOf(zone="UTC")], AT,
    ),
    "a local timestamp of a zone with a short name": (
        logical("long", "local-timestamp-micros"), AT.replace(tzinfo=None),
        Annotated[datetime, TimeOf(zone="EST")], datetime(2026, 3, 29, 6, 2, 3, 4000, tzinfo=UTC),
    ),
    "a local timestamp of no zone": (
        logical("long", "local-timestamp-micros"), AT.replace(tzinfo=None), datetime, Refused('gs.TimeOf(zone="UTC")'),
    ),
    "time-millis": (logical("int", "time-millis"), time(1, 2, 3), Annotated[int, TimeOf("ms")], 3_723_000),
    "time-micros": (logical("long", "time-micros"), time(1, 2, 3), Annotated[int, TimeOf("ms")], 3_723_000),
    "a time of no unit": (logical("int", "time-millis"), time(1, 2, 3), int, Refused('gs.TimeOf("ms")')),
    "date": (logical("int", "date"), date(2026, 3, 29), date, date(2026, 3, 29)),
    "a plain long as a time": ("long", 1_774_746_123_004, Annotated[datetime, TimeOf("ms")],
                               datetime(2026, 3, 29, 1, 2, 3, 4000, tzinfo=UTC)),
    "a plain long of no unit": ("long", 1_774_746_123_004, datetime, Refused("has no unit")),
    "int": ("int", 7, int, 7),
    "int as float": ("int", 7, float, 7.0),
    "float": ("float", 0.5, float, 0.5),
    "string as bytes": ("string", "ä", bytes, "ä".encode()),
    "bytes as str": ("bytes", "ä".encode(), str, "ä"),
    "fixed": (named("fixed", size=2), b"\x00\xff", bytes, b"\x00\xff"),
    "a union, null last": (["string", "null"], None, str | None, None),
    "a union with more than the type holds": (["null", "long", "string"], "x", int | None, Refused("cannot be read as int")),
    "another record name": (
        {"type": "record", "name": "org.example.Address", "fields": [{"name": "city", "type": "string"}]},
        {"city": "Köln"}, Place, {"city": "Köln"},
    ),
    "array": ({"type": "array", "items": logical("long", "timestamp-millis")}, [AT], list[datetime], [AT]),
    "map": ({"type": "map", "values": "int"}, {"a": 1}, dict[str, int], {"a": 1}),
    "a number as text": ("int", 5, str, Refused("is written as int, which cannot be read as str")),
    "text as a number": ("string", "5", int, Refused("is written as string, which cannot be read as int")),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBES)
def test_what_confluents_serializer_writes_is_read_rightly_or_refused_with_the_reason(
    name: str, connection: Connection, unique: str, spark: SparkSession
) -> None:
    written, datum, annotation, expected = PROBES[name]
    schema = {
        "type": "record",
        "name": "Theirs",
        "namespace": "com.example",
        "fields": [{"name": "field", "type": written}],
    }
    registered = SchemaRegistryClient({"url": connection.registry_url, **connection.registry})
    with closing(registered) as client, decimal.localcontext() as context:
        context.prec = 50
        serialize = AvroSerializer(client, json.dumps(schema))
        data = serialize({"field": datum}, SerializationContext(unique, MessageField.VALUE))
    assert data is not None
    value_type = make_dataclass("Ours", [("field", annotation)])
    topic = Topic(name=unique, value=value_type, key=None, partitions=1, format="avro", defined_at=HERE)
    with Registry(connection) as registry:
        writers = {id_: each.text for id_, each in registry.versions(topic.subject).items()}
        try:
            ours, why = comparable(Decoder(topic, registry)(data)), None
        except DecodeError as error:
            ours, why = None, str(error)
    raw = spark.createDataFrame([(bytearray(data), 0, 0)], "value binary, partition int, offset bigint")
    (row,) = reading.decode(raw, topic, reading.Versions(writers=writers)).collect()
    if isinstance(expected, Refused):
        assert why is not None and expected in why
        assert row[VALUE] is None and expected in row[WHY]
    else:
        assert why is None, why
        assert ours == {"field": comparable(expected)}
        theirs = row[VALUE].asDict(recursive=True)["field"]
        if isinstance(theirs, datetime):
            theirs = theirs.astimezone(UTC)
        elif isinstance(theirs, list):
            theirs = [each.astimezone(UTC) for each in theirs]
        elif isinstance(theirs, bytearray):
            theirs = bytes(theirs)
        assert comparable(theirs) == comparable(expected)
