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
from gearshift.schemas.debezium.events import Change, ChangeDecoder, Op
from tests.change_values import Everything, envelopes
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


def test_before_is_decoded_only_with_replica_identity_full() -> None:
    plain = recorded("postgresql-plain.json", ChangeDecoder(Order))
    assert [change.before for change in plain if change] == [None] * 8
    full = recorded("postgresql-plain.json", ChangeDecoder(Order, replica_identity_full=True))
    assert full[6].before.note is None
    assert full[6].after == full[7].before
    assert full[7].before.note == "n"


def test_mysql_without_schema_needs_the_unit_of_its_numbers() -> None:
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


def test_a_delete_without_its_row_is_refused_also_if_it_has_a_new_row() -> None:
    for after in (None, {"id": 7}):
        value = {"before": None, "after": after, "source": {"connector": "mysql"}, "op": "d"}
        with pytest.raises(DecodeError, match="does not say which row was deleted"):
            ChangeDecoder(Item).decode(encoded({"id": 7}), encoded(value))


@dataclass
class Item:
    id: int
    price: Decimal | None = None
    at: datetime | None = None
    day: date | None = None
    note: str | None = None


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
def test_times_and_dates_are_the_same_in_every_encoding(naive: datetime) -> None:
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
        (b'"' + b"x" * (17 << 20) + b'"', "more than the limit"),
        (b"7", r"field op: is not a Debezium envelope.*ExtractNewRecordState"),
        (b'{"id":1}', r"field op: is not a Debezium envelope.*ExtractNewRecordState"),
        (b'{"op":"x"}', "field op: is not a Debezium operation"),
        (b'{"op":["c"]}', "field op: is not a Debezium operation"),
        (b'{"op":"c","after":null}', "field after: is missing"),
        (b'{"op":"c","after":{}}', r"field after\.id: is missing"),
        (b'{"op":"c","after":{"id":"one"}}', r"field after\.id: is str, not an integer"),
        (b'{"op":"c","after":{"id":1e9999999999999999999}}', r"after\.id: is Unreadable, not an integer"),
        (b'{"op":"c","after":{"id":1,"price":1e9999999999999999999}}', r"after\.price: is Unreadable"),
        (b'{"op":"c","after":{"id":1,"price":"1e9999"}}', r"after\.price: has too many digits"),
        (b'{"op":"c","after":{"id":1,"at":"9999-12-31T23:59:59-14:00"}}', r"after\.at: is not a time"),
        (b'{"op":"c","after":{"id":1},"gearshift_epoch":"x"}', "gearshift_epoch: is not a valid epoch"),
        (b'{"op":"c","after":[1]}', "field after: is list, not an object"),
        (b'{"op":"c","after":{"id":1,"price":"AfQ="}}', r"after\.price: .*decimal.handling.mode=string"),
        (b'{"op":"c","after":{"id":1,"day":99999999999}}', r"after\.day: is neither a date"),
        (b'{"op":"c","after":{"id":1},"source":{"ts_ms":"now"}}', r"field source\.ts_ms: is not a number"),
        (
            b'{"op":"u","after":{"id":1,"note":"__debezium_unavailable_value"}}',
            r"after\.note: was not sent, .*REPLICA IDENTITY FULL",
        ),
        (b'{"schema":{"type":"struct"},"payload":{"op":"c"}}', "an invalid Connect schema"),
        (b'{"schema":7,"payload":null}', "is not a Debezium envelope"),
    ],
)
def test_an_invalid_change_is_an_error_that_names_the_field(value: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        ChangeDecoder(Item).decode(None, value)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(
        ["op", "after", "before", "source", "ts_ms", "schema", "payload", "type", "fields", "field", "name", "id"]
    ), inner),
    max_leaves=20,
))  # fmt: skip
def test_any_json_raises_at_most_a_decode_error(value: Any) -> None:
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


@given(envelopes() | st.binary(max_size=60))
def test_any_record_is_a_change_or_a_dead_letter(record: bytes) -> None:
    try:
        ChangeDecoder(Everything).decode(None, record)
    except DecodeError as error:
        assert len(str(error)) < 2000


@pytest.mark.parametrize("scale", [2147483647, -2147483648, 10**30, "2147483647", 39, True, None, "x"])
def test_a_scale_beyond_that_of_any_column_is_an_error(scale: Any) -> None:
    fields = [
        {"field": "id", "type": "int64"},
        {"field": "price", "type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
    ]
    value = wrapped(fields, {"id": 1, "price": {"scale": scale, "value": "AQ=="}})
    with pytest.raises(DecodeError, match=r"after\.price: is not a decimal with a scale of 0 to 38"):
        ChangeDecoder(Item).decode(None, value)


def test_with_an_epoch_the_offset_is_the_position_of_a_change() -> None:
    value = encoded({"op": "c", "after": {"id": 1}, "source": {"lsn": 9}, "gearshift_epoch": "1000"})
    found = [ChangeDecoder(Item, ordered=ordered).decode(None, value, 7) for ordered in (True, False)]
    assert [change and change.position for change in found] == [1007, 9]


def test_mysqls_unsigned_numbers_are_read_from_our_own_connectors_only() -> None:
    row = {"id": base64.b64encode((2**62).to_bytes(9, "big")).decode(), "price": "AP//////////"}
    ours = {"op": "c", "after": row, "gearshift_epoch": "1000"}
    change = ChangeDecoder(Item).decode(None, encoded(ours))
    assert change is not None
    assert change.after == Item(2**62, Decimal(2**64 - 1))
    del ours["gearshift_epoch"]
    with pytest.raises(DecodeError, match=r"after\.id: is str, not an integer"):
        ChangeDecoder(Item).decode(None, encoded(ours))


def test_the_first_row_of_a_snapshot_that_is_taken_again_says_so() -> None:
    decoder = ChangeDecoder(Item)

    def restarts(offset: int, **envelope: object) -> bool:
        change = decoder.decode(None, encoded({"op": "r", "after": {"id": 1}, **envelope}), offset)
        assert change is not None
        return change.restarts

    for first in ("first", "first_in_data_collection"):
        ours = {"source": {"snapshot": first}, "gearshift_epoch": "1000"}
        assert restarts(7, **ours)
        assert not restarts(0, **ours)  # nothing came before it
        assert not restarts(
            7, source={"snapshot": first}
        )  # of a connector that may also snapshot some rows alone
    assert not restarts(7, source={"snapshot": "true"}, gearshift_epoch="1000")


@pytest.mark.parametrize("number", ["-1E-9999999999999999999", "1e00005", "1e400", "NaN", "-Infinity"])
def test_numbers_that_a_double_does_not_hold_are_misfits(number: str) -> None:
    @dataclass
    class Measured:
        ratio: float

    with pytest.raises(DecodeError):
        ChangeDecoder(Measured).decode(None, f'{{"op":"c","after":{{"ratio":{number}}}}}'.encode())


def test_a_number_in_a_text_column_is_its_text() -> None:
    @dataclass
    class Noted:
        note: str

    for number in ("1.50", "1E2", "-1E-9999999999999999999"):
        change = ChangeDecoder(Noted).decode(None, f'{{"op":"c","after":{{"note":{number}}}}}'.encode())
        assert change is not None and change.after == Noted(number)
