"""Debezium's changes in Avro: PostgreSQL's as a converter of Connect's wrote them, MySQL's by the schema it has for them."""

from __future__ import annotations

import base64
import json
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka.schema_registry import Schema as Registered
from confluent_kafka.schema_registry import SchemaRegistryClient

from gearshift.connection import Connection
from gearshift.schemas.registry_client import Schema
from gearshift.schemas.wire import pack, unpack
from gearshift.topics import Producer
from tests.support import registry_client

RECORDED = Path(__file__).parent / "data" / "debezium" / "postgresql-avro.json"
Record = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Records, and the schemas that their first five bytes name, as a registry has them."""

    records: list[Record]
    keys: dict[int, str]
    values: dict[int, str]

    def schema(self, schema_id: int) -> Schema | None:
        """As a registry answers."""
        text = (self.keys | self.values).get(schema_id)
        return None if text is None else Schema(schema_id, text, "avro")


@dataclass(frozen=True)
class Order:
    """A row of the table in the recordings."""

    id: int
    customer: str
    amount: Decimal
    ratio: float | None
    paid: bool
    placed_at: datetime
    updated_at: datetime | None
    day: date | None
    raw: bytes | None
    tags: list[str] | None
    note: str | None
    free: Decimal | None
    tip: int = 5


def postgresql() -> Changes:
    """Debezium 3.6.1 with its usual settings, and Apicurio's Avro converter in Confluent's wire format.

    Two rows of a snapshot, an insert, an update and a delete; then REPLICA IDENTITY FULL and two columns more, an
    update, a delete and a truncate.
    """
    found = json.loads(RECORDED.read_text())
    records = [_bytes(one) for one in found["records"]]
    schemas = {int(id_): json.dumps(schema) for id_, schema in found["schemas"].items()}
    ids = {int.from_bytes(key[1:5], "big") for key, _ in records if key is not None}
    return Changes(
        records=records,
        keys={id_: text for id_, text in schemas.items() if id_ in ids},
        values={id_: text for id_, text in schemas.items() if id_ not in ids},
    )


def _bytes(one: dict[str, str | None]) -> Record:
    key, value = (None if text is None else base64.b64decode(text) for text in (one["key"], one["value"]))
    return key, value


@dataclass(frozen=True)
class Item:
    """A row of the MySQL table."""

    id: int
    name: str
    price: Decimal
    active: bool
    seen: datetime | None
    changed: datetime
    day: date | None
    picture: bytes | None
    size: str
    total: Decimal | None


ITEM = Item(
    id=7,
    name="tea",
    price=Decimal("-2.50"),
    active=True,
    seen=datetime(2026, 3, 1, 10, 0, 0, 123000, tzinfo=UTC),
    changed=datetime(2026, 3, 1, 10, 0, 0, tzinfo=UTC),
    day=date(2026, 3, 1),
    picture=bytes(range(256)),
    size="small",
    total=Decimal(12345678901234567890),
)


def _connect(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "connect.version": 1, "connect.name": name, **more}


def _decimal(precision: int, scale: int) -> dict[str, Any]:
    return _connect(
        "bytes",
        "org.apache.kafka.connect.data.Decimal",
        scale=scale,
        precision=precision,
        **{"connect.parameters": {"scale": str(scale)}, "logicalType": "decimal"},
    )


def _maybe(type_: Any) -> Any:
    return ["null", type_]


_ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": {"type": "string", "connect.default": ""}, "default": ""},
        {"name": "price", "type": _decimal(10, 2)},
        # MySQL's boolean is tinyint(1).
        {"name": "active", "type": {"type": "int", "connect.type": "int16"}},
        {"name": "seen", "type": _maybe(_connect("long", "io.debezium.time.Timestamp")), "default": None},
        {"name": "changed", "type": _connect("string", "io.debezium.time.ZonedTimestamp")},
        {"name": "day", "type": _maybe(_connect("int", "io.debezium.time.Date")), "default": None},
        {"name": "picture", "type": _maybe("bytes"), "default": None},
        {
            "name": "size",
            "type": _connect(
                "string", "io.debezium.data.Enum", **{"connect.parameters": {"allowed": "small,large"}}
            ),
        },
        # What Confluent's converter says of a decimal whose precision Connect does not know; Spark has up to 38.
        {"name": "total", "type": _maybe(_decimal(64, 0)), "default": None},
    ],
    "connect.name": "shop.food.items.Value",
}
_SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.mysql",
    "fields": [
        {"name": "version", "type": "string"},
        {"name": "connector", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {
            "name": "snapshot",
            "type": [_connect("string", "io.debezium.data.Enum", **{"connect.default": "false"}), "null"],
            "default": "false",
        },
        {"name": "db", "type": "string"},
        {"name": "table", "type": _maybe("string"), "default": None},
        {"name": "server_id", "type": "long"},
        {"name": "gtid", "type": _maybe("string"), "default": None},
        {"name": "file", "type": "string"},
        {"name": "pos", "type": "long"},
        {"name": "row", "type": "int"},
    ],
    "connect.name": "io.debezium.connector.mysql.Source",
}
ENVELOPE: dict[str, Any] = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.food.items",
    "fields": [
        {"name": "before", "type": _maybe(_ROW), "default": None},
        {"name": "after", "type": _maybe("Value"), "default": None},
        {"name": "source", "type": _SOURCE},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": _maybe("long"), "default": None},
    ],
    "connect.version": 1,
    "connect.name": "shop.food.items.Envelope",
}
KEY = {
    "type": "record",
    "name": "Key",
    "namespace": "shop.food.items",
    "fields": [{"name": "id", "type": "long"}],
}
KEY_ID, ENVELOPE_ID, FLAT_ID = 11, 12, 13
_TEA = {
    "id": 7,
    "name": "tea",
    "price": ITEM.price,
    "active": 1,
    "seen": 1_772_359_200_123,
    "changed": "2026-03-01T10:00:00Z",
    "day": 20_513,
    "picture": ITEM.picture,
    "size": "small",
    "total": ITEM.total,
}


def mysql() -> Changes:
    """An insert, an update in the next file of the log, a delete with its tombstone; then what is no change.

    A row without an envelope, as ExtractNewRecordState leaves it; half a record; one without a schema's id.
    """
    changes = [
        ("c", None, _TEA, "binlog.000003", 154),
        ("u", _TEA, _TEA | {"name": "green tea", "seen": None, "total": None}, "binlog.000004", 4),
        ("d", _TEA, None, "binlog.000004", 400),
    ]
    key = pack(KEY_ID, _avro(KEY, {"id": 7}))
    values = [pack(ENVELOPE_ID, _avro(ENVELOPE, _change(*change))) for change in changes]
    flat = pack(FLAT_ID, _avro(_ROW, _TEA))
    return Changes(
        records=[
            *((key, value) for value in values),
            (key, None),
            (key, flat),
            (key, values[0][:40]),
            (key, b"{}"),
        ],
        keys={KEY_ID: json.dumps(KEY)},
        values={ENVELOPE_ID: json.dumps(ENVELOPE), FLAT_ID: json.dumps(_ROW)},
    )


def _change(op: str, before: Any, after: Any, file: str, pos: int) -> dict[str, Any]:
    source = {"version": "3.6.1.Final", "connector": "mysql", "name": "shop", "ts_ms": 1_772_000_000_000}
    source |= {"snapshot": "false", "db": "food", "server_id": 1, "file": file, "pos": pos, "row": 0}
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1_772_000_000_009}


def _avro(schema: dict[str, Any], datum: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), datum)
    return out.getvalue()


class Sender:
    """Sends changes to a topic, and registers the schema of each before its first record, as a converter does."""

    def __init__(self, changes: Changes, connection: Connection, topic: str) -> None:
        self._changes, self._connection, self._topic = changes, connection, topic
        self._ids: dict[int, int] = {}

    def send(self, which: slice) -> None:
        """Send some of the records."""
        with Producer(self._connection) as producer:
            for key, value in self._changes.records[which]:
                framed = self._framed(value, "value")
                producer.send_bytes(self._topic, framed, key=self._framed(key, "key"))

    def _framed(self, data: bytes | None, part: str) -> bytes | None:
        if data is None:
            return None
        known, payload = unpack(data)
        if known not in self._ids:
            schema = self._changes.schema(known)
            assert schema is not None
            with closing(SchemaRegistryClient(registry_client(self._connection))) as registry:
                subject = f"{self._topic}-{part}"
                self._ids[known] = registry.register_schema(subject, Registered(schema.text, "AVRO"))
        return pack(self._ids[known], payload)
