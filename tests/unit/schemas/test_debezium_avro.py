"""Debezium's changes in Avro as deliveries get them: recorded from PostgreSQL, and generated for MySQL."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, cast

import pytest

from gearshift.definitions import Location, Topic
from gearshift.delivery.decoding import decoding
from gearshift.errors import DecodeError
from gearshift.record import Change
from gearshift.schemas import Registry
from gearshift.schemas.debezium.avro import Written, reader
from gearshift.schemas.encoding import Misfit
from tests import changes_in_avro
from tests.changes_in_avro import ITEM, Changes, Item, Order

ANN = Order(
    id=1,
    customer="Ann",
    amount=Decimal("12.50"),
    ratio=0.1,
    paid=True,
    placed_at=datetime(2026, 3, 1, 10, 0, 0, 123456, tzinfo=UTC),
    updated_at=datetime(2026, 3, 1, 8, 0, 0, 500000, tzinfo=UTC),
    day=date(2026, 3, 1),
    raw=b"\x00\xff",
    tags=["a", "b"],
    note="xxx",
    free=Decimal("1.2345"),
)


class Message:
    """The part of librdkafka's message that decoding uses."""

    def __init__(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        self._key, self._value, self._offset = key, value, offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> None:
        return None

    def offset(self) -> int:
        return self._offset


def delivered(
    changes: Changes, row: type[Any], *, before: bool = False
) -> list[Change[Any] | DecodeError | None]:
    """The value that a delivery's handler gets for each record, or the reason of its dead letter."""
    topic = Topic(
        name="x", value=row, format="avro", envelope="debezium", before=before, defined_at=Location("x.py", 1)
    )
    read = decoding(topic, cast("Registry", changes)).message
    found: list[Change[Any] | DecodeError | None] = []
    for offset, record in enumerate(changes.records):
        try:
            found.append(read(Message(*record, offset)))
        except DecodeError as error:
            found.append(error)
    return found


def test_recorded_postgresql_changes_are_the_rows_that_were_there() -> None:
    found = delivered(changes_in_avro.postgresql(), Order)
    changes = [cast("Change[Order]", one) for one in found if one is not None]
    assert [change.op.value for change in changes] == ["r", "r", "c", "u", "d", "u", "d", "t"]
    assert [place for place, one in enumerate(found) if one is None] == [5, 8]
    assert [change.after for change in changes[:3]] == [
        ANN,
        replace(ANN, id=2, customer="Bo", free=None),
        replace(ANN, id=3, customer="Cy", free=Decimal(-12)),
    ]
    assert changes[3].after == replace(ANN, amount=Decimal("-99.99"))
    assert (changes[4].key, changes[4].before) == ({"id": 2}, None)
    assert changes[5].after == replace(ANN, amount=Decimal("-99.99"), note="n", tip=7)
    positions = [cast("int", change.position) for change in changes]
    assert positions == sorted(positions)
    whole = [one for one in delivered(changes_in_avro.postgresql(), Order, before=True) if one is not None]
    assert cast("Change[Order]", whole[6]).before == changes[5].after


def test_mysql_changes_are_the_rows_that_were_there_and_other_records_are_errors() -> None:
    created, updated, deleted, tombstone, *bad = delivered(changes_in_avro.mysql(), Item)
    assert isinstance(created, Change) and isinstance(updated, Change) and isinstance(deleted, Change)
    assert (created.before, created.after) == (None, ITEM)
    assert (updated.before, updated.after) == (ITEM, replace(ITEM, name="green tea", seen=None, total=None))
    assert (deleted.before, deleted.after, deleted.key) == (ITEM, None, {"id": 7})
    # All changes of a transaction have the same position in MySQL's log: only offsets give their order.
    assert [change.position for change in (created, updated, deleted)] == [0, 1, 2]
    assert created.source_time == datetime(2026, 2, 25, 6, 13, 20, tzinfo=UTC)
    assert tombstone is None
    flat, half, unframed = (str(error) for error in bad)
    assert "it has no op" in flat and "ExtractNewRecordState" in flat
    assert "not readable as Avro" in half
    assert "fewer than the 5 before a payload" in unframed


def test_a_schema_that_the_registry_does_not_know_is_named() -> None:
    changes = replace(changes_in_avro.mysql(), values={})
    assert "schema 12 is not registered" in str(delivered(changes, Item)[0])


@pytest.mark.parametrize(
    ("type_", "payload", "value"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\x02", datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, b"\x02", datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        ({"type": "int", "logicalType": "date"}, b"\x02", date(1970, 1, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, b"\x02\xff", Decimal("-0.1")),
        (["null", "int", "string"], b"\x02\x0e", 7),
    ],
)  # fmt: skip
def test_logical_types_without_a_connect_name_use_avros(type_: Any, payload: bytes, value: Any) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "it", "type": type_}]}
    assert reader(json.dumps(schema))(payload) == {"it": value}


def test_references_to_named_records_are_read() -> None:
    inner = {"type": "record", "name": "a.Inner", "fields": [{"name": "n", "type": "int"}]}
    fields = [{"name": "one", "type": inner}, {"name": "other", "type": ["null", "a.Inner"]}]
    schema = json.dumps({"type": "record", "name": "Outer", "fields": fields})
    assert reader(schema)(b"\x02\x02\x04") == {"one": {"n": 1}, "other": {"n": 2}}
    described = {field["field"]: field for field in Written.read(schema).connect["fields"]}
    assert described["one"]["fields"] == described["other"]["fields"]
    with pytest.raises(Misfit, match="1 bytes are left"):
        reader(schema)(b"\x02\x02\x04\x00")


def test_a_schema_whose_record_contains_itself_cannot_be_used() -> None:
    fields = [{"name": "op", "type": "string"}, {"name": "next", "type": ["null", "Outer"]}]
    with pytest.raises(Misfit, match="cannot be used: a record in it contains itself"):
        reader(json.dumps({"type": "record", "name": "Outer", "fields": fields}))
