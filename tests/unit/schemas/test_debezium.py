"""Debezium's records, some recorded from a real run, as typed changes."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.errors import DecodeError
from gearshift.schemas.debezium import Change, ChangeDecoder, Op
from tests.changes_in_avro import Order

RECORDED = Path(__file__).parents[2] / "data" / "debezium"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def recorded(name: str, decoder: ChangeDecoder[Any]) -> list[Any]:
    found = json.loads((RECORDED / name).read_text())
    as_bytes = [{part: text and text.encode() for part, text in one.items()} for one in found]
    return [decoder.decode(one["key"], one["value"]) for one in as_bytes]


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_recorded_postgresql_without_schema() -> None:
    changes = recorded("postgresql-plain.json", ChangeDecoder(Order))
    assert [change and change.op.value for change in changes] == [
        "r", "r", "c", "u", "d", None, "u", "d", None, "t",
    ]  # fmt: skip
    assert changes[0].after == ANN
    assert changes[3].after == Order(**{**vars(ANN), "amount": Decimal("99.99")})
    assert changes[4].key == {"id": 2}
    assert changes[0].source_time == EPOCH + timedelta(microseconds=1794792683028301)
    assert changes[9] == Change(
        op=Op.TRUNCATE, source_time=EPOCH + timedelta(microseconds=1794792723651226), position=28467560
    )


def test_recorded_postgresql_with_connects_schema() -> None:
    created, updated, deleted, tombstone = recorded(
        "postgresql-schema.json", ChangeDecoder(Order, replica_identity_full=True)
    )
    assert tombstone is None
    assert created.after == Order(**{**vars(ANN), "raw": b"\\x00ff"})
    assert updated.before == created.after
    assert (updated.after.amount, updated.after.free) == (Decimal("-99.99"), Decimal(-12))
    assert (deleted.op, deleted.before, deleted.key) == (Op.DELETE, updated.after, {"id": 1})


def test_an_old_row_that_debezium_made_up_is_not_shown_and_a_full_one_is_on_request() -> None:
    plain = recorded("postgresql-plain.json", ChangeDecoder(Order))
    assert [change.before for change in plain if change] == [None] * 8
    full = recorded("postgresql-plain.json", ChangeDecoder(Order, replica_identity_full=True))
    assert full[6].before.note is None
    assert full[6].after == full[7].before
    assert full[7].before.note == "n"


def test_mysql_without_schema_says_the_unit_of_its_numbers() -> None:
    @dataclass
    class Payment:
        id: int
        active: bool
        price: Decimal
        at: datetime
        day: date

    value = {
        "before": {"id": 7, "active": 1, "price": "1.10", "at": 1772359200123, "day": 20513},
        "after": None,
        "source": {"connector": "mysql", "db": "shop", "table": "payments", "ts_ms": 1772359200000},
        "op": "d",
        "ts_ms": 1772359200456,
        "transaction": None,
    }
    change = ChangeDecoder(Payment, timestamps="ms").decode(encoded({"id": 7}), encoded(value))
    assert change is not None
    at = datetime(2026, 3, 1, 10, 0, 0, 123000, tzinfo=UTC)
    assert change.before == Payment(7, True, Decimal("1.10"), at, date(2026, 3, 1))
    with pytest.raises(
        DecodeError, match=r"field before\.at: is a number, which may be milli- or microseconds"
    ):
        ChangeDecoder(Payment).decode(None, encoded(value))


@dataclass
class Item:
    id: int
    price: Decimal | None = None
    at: datetime | None = None
    day: date | None = None


def wrapped(fields: list[dict[str, Any]], row: dict[str, Any]) -> bytes:
    table = {"type": "struct", "optional": True, "fields": fields}
    schema = {
        "type": "struct",
        "name": "shop.public.items.Envelope",
        "fields": [{**table, "field": "after"}, {"type": "string", "field": "op"}],
    }
    return encoded({"schema": schema, "payload": {"after": row, "op": "c"}})


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**15), max_value=10**15))
def test_a_precise_decimal_keeps_every_digit(price: Decimal) -> None:
    unscaled = int(price.scaleb(4))
    octets = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    text = base64.b64encode(octets).decode()
    decimal = {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "4"},
    }
    free = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "fields": []}
    for described, datum in ((decimal, text), (free, {"scale": 4, "value": text})):
        fields = [{"type": "int64", "field": "id"}, {**described, "field": "price"}]
        change = ChangeDecoder(Item).decode(None, wrapped(fields, {"id": 1, "price": datum}))
        assert change is not None and change.after is not None
        assert change.after.price == price
    plain = encoded({"op": "c", "after": {"id": 1, "price": str(price)}})
    found = ChangeDecoder(Item).decode(None, plain)
    assert found is not None and found.after is not None and found.after.price == price


@given(st.datetimes(min_value=datetime(1800, 1, 1), max_value=datetime(2200, 1, 1)))  # noqa: DTZ001
def test_instants_and_days_are_the_same_in_every_spelling(naive: datetime) -> None:
    at = naive.replace(tzinfo=UTC)
    micros = (at - EPOCH) // timedelta(microseconds=1)
    in_millis = EPOCH + timedelta(milliseconds=micros // 1000)
    days = (at.date() - EPOCH.date()).days
    spellings = [
        ("io.debezium.time.MicroTimestamp", "int64", micros, at),
        ("io.debezium.time.NanoTimestamp", "int64", micros * 1000, at),
        ("io.debezium.time.Timestamp", "int64", micros // 1000, in_millis),
        ("io.debezium.time.ZonedTimestamp", "string", at.isoformat(), at),
    ]
    for name, kind, datum, expected in spellings:
        fields = [
            {"type": "int64", "field": "id"},
            {"type": kind, "name": name, "field": "at"},
            {"type": "int32", "name": "io.debezium.time.Date", "field": "day"},
        ]
        change = ChangeDecoder(Item).decode(None, wrapped(fields, {"id": 1, "at": datum, "day": days}))
        assert change is not None
        assert change.after == Item(1, None, expected, at.date())
    plain = {"id": 1, "at": naive.isoformat() + "Z", "day": f"{at.date().isoformat()}Z"}
    change = ChangeDecoder(Item).decode(None, encoded({"op": "r", "after": plain}))
    assert change is not None and change.after == Item(1, None, at, at.date())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"{", "not readable as JSON"),
        (b"\xff", "not readable as JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'"' + b"x" * (17 << 20) + b'"', "are read at most"),
        (b"7", r"field op: is not Debezium's envelope.*ExtractNewRecordState"),
        (b'{"id":1}', r"field op: is not Debezium's envelope.*ExtractNewRecordState"),
        (b'{"op":"x"}', "field op: is no operation"),
        (b'{"op":["c"]}', "field op: is no operation"),
        (b'{"op":"c","after":null}', "field after: is missing"),
        (b'{"op":"c","after":{}}', r"field after\.id: is missing"),
        (b'{"op":"c","after":{"id":"1"}}', r"field after\.id: is str, not an integer"),
        (b'{"op":"c","after":[1]}', "field after: is list, not an object"),
        (b'{"op":"c","after":{"id":1,"price":"AfQ="}}', r"after\.price: .*decimal.handling.mode=string"),
        (b'{"op":"c","after":{"id":1,"day":99999999999}}', r"after\.day: is not a date"),
        (b'{"op":"c","after":{"id":1},"source":{"ts_ms":"now"}}', r"field source\.ts_ms: is no number"),
        (
            b'{"op":"u","after":{"id":1,"note":"__debezium_unavailable_value"}}',
            r"after\.note: was not sent: .*REPLICA IDENTITY FULL",
        ),
        (b'{"schema":{"type":"struct"},"payload":{"op":"c"}}', "a schema that is none of Connect's"),
        (b'{"schema":7,"payload":null}', "is not Debezium's envelope"),
    ],
)
def test_what_is_no_change_is_one_error_that_names_the_field(value: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        ChangeDecoder(Item).decode(None, value)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(
        ["op", "after", "before", "source", "ts_ms", "schema", "payload", "type", "fields", "field", "name", "id"]
    ), inner),
    max_leaves=20,
))  # fmt: skip
def test_no_json_raises_anything_but_a_decode_error(value: Any) -> None:
    for wrapping in (
        value,
        {"schema": value, "payload": value},
        {"op": "c", "after": value, "source": value},
    ):
        try:
            ChangeDecoder(Item).decode(encoded(value), encoded(wrapping))
        except DecodeError:
            continue


def test_a_tombstone_is_none_and_a_log_message_has_no_rows() -> None:
    assert ChangeDecoder(Item).decode(b'{"id":1}', None) is None
    message = {"op": "m", "ts_ms": 1000, "message": {"prefix": "p", "content": "AA=="}}
    assert ChangeDecoder(Item).decode(b'{"prefix":"p"}', encoded(message)) == Change(
        op=Op.MESSAGE, key={"prefix": "p"}, source_time=EPOCH + timedelta(seconds=1)
    )
