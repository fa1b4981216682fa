"""Debezium's values as it sends them, and worse: for readers that must agree on what they mean."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

from hypothesis import strategies as st

import gearshift as gs

UNSENT = "__debezium_unavailable_value"


class Status(Enum):
    NEW = "new"
    DONE = "done"


@dataclass(frozen=True)
class Everything:
    """A row with a column of each type."""

    id: int
    number: int | None
    ratio: float | None
    flag: bool | None
    name: str | None
    amount: Annotated[Decimal, gs.DecimalOf(12, 2)] | None
    exact: Decimal | None
    raw: bytes | None
    at: datetime | None
    day: date | None
    status: Status | None
    tags: list[str] | None
    counts: list[int] | None


Typed = tuple[dict[str, Any], Any]
"""Connect's schema of a value, and the value in JSON."""


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _unscaled(number: int) -> str:
    return _encoded(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True))


def _named(type_: str, name: str, **parameters: str) -> dict[str, Any]:
    described: dict[str, Any] = {"type": type_, "name": name, "optional": True}
    return described | ({"parameters": parameters} if parameters else {})


def _of(type_: str, values: st.SearchStrategy[Any], name: str | None = None) -> st.SearchStrategy[Typed]:
    schema = {"type": type_, "optional": True} if name is None else _named(type_, name)
    return values.map(lambda value: (schema, value))


_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-10_000, 10_000))
_MICROS = st.one_of(_INT64, st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
_INSTANTS = st.datetimes().filter(lambda instant: 1 < instant.toordinal() < date.max.toordinal())


@st.composite
def _decimals(draw: st.DrawFn) -> Typed:
    number, scale = (
        draw(st.integers(-(10**40), 10**40) | st.integers(-(10**6), 10**6)),
        draw(st.integers(0, 40)),
    )
    way = draw(st.sampled_from(("precise", "string", "double", "variable")))
    if way == "precise":
        name = "org.apache.kafka.connect.data.Decimal"
        return _named("bytes", name, scale=str(scale)), _unscaled(number)
    if way == "variable":
        return _named("struct", "io.debezium.data.VariableScaleDecimal"), {
            "scale": draw(st.sampled_from((scale, -1, 2**31 - 1, -(2**31)))),
            "value": _unscaled(number),
        }
    exact = Decimal(number).scaleb(-scale)
    return ({"type": "string", "optional": True}, f"{exact:f}") if way == "string" else (
        {"type": "double", "optional": True}, float(exact),
    )  # fmt: skip


def _iso(instant: datetime, form: str) -> str:
    return {
        "utc": instant.isoformat() + "Z",
        "zone": instant.isoformat() + "+05:30",
        "none": instant.isoformat(),
        "space": instant.isoformat(" "),
        "nanos": instant.isoformat(timespec="microseconds") + "789Z",
        "day": instant.date().isoformat(),
    }[form]


_ISO = st.builds(_iso, _INSTANTS, st.sampled_from(("utc", "zone", "none", "space", "nanos", "day")))
_DAYS = st.dates().map(lambda day: day.isoformat())
_TIMES = "io.debezium.time."

COLUMNS: dict[str, st.SearchStrategy[Typed]] = {
    "number": st.one_of(
        _of("int16", st.integers(-(2**15), 2**15 - 1)),
        _of("int32", _INT32),
        _of("int64", _INT64),
        _of("int32", st.integers(1901, 2155), "io.debezium.time.Year"),
        _of("int64", st.integers(0, 86_400_000_000), "io.debezium.time.MicroTime"),
        _of("int64", st.integers(0, 86_400_000_000_000), "io.debezium.time.NanoTime"),
        _of("int32", st.integers(0, 86_400_000), "io.debezium.time.Time"),
        # MySQL's bigint unsigned, with bigint.unsigned.handling.mode=precise
        st.integers(0, 2**64 - 1).map(
            lambda number: (
                _named("bytes", "org.apache.kafka.connect.data.Decimal", scale="0"),
                _unscaled(number),
            )
        ),
    ),
    "ratio": st.one_of(
        _of("double", st.floats(allow_nan=False, allow_infinity=False)),
        _of("float", st.floats(width=32, allow_nan=False, allow_infinity=False)),
        _of("double", st.sampled_from(("NaN", "Infinity", "-Infinity"))),
        _of("int32", _INT32),
    ),
    "flag": st.one_of(_of("boolean", st.booleans()), _of("int16", st.integers(0, 3))),
    "name": st.one_of(
        _of("string", _TEXT),
        _of("string", st.uuids().map(str), "io.debezium.data.Uuid"),
        _of("string", st.sampled_from(("a", "b")), "io.debezium.data.Enum"),
        _of("string", st.sampled_from(("", "a", "a,b")), "io.debezium.data.EnumSet"),
        _of("string", st.dictionaries(_TEXT, _INT32, max_size=2).map(json.dumps), "io.debezium.data.Json"),
        _of("string", st.just("12:34:56.123456Z"), "io.debezium.time.ZonedTime"),
        _of("string", st.just("P1DT2H"), "io.debezium.time.Interval"),
    ),
    "amount": _decimals(),
    "exact": _decimals(),
    "raw": st.one_of(
        _of("bytes", st.binary(max_size=8).map(_encoded)),
        _of("bytes", st.binary(max_size=2).map(_encoded), "io.debezium.data.Bits"),
    ),
    "at": st.one_of(
        _of("int64", _MICROS, _TIMES + "MicroTimestamp"),
        _of("int64", _MICROS.map(lambda micros: micros // 1000), _TIMES + "Timestamp"),
        _of("int64", _INT64, _TIMES + "NanoTimestamp"),
        _of("int64", _MICROS.map(lambda micros: micros // 1000), "org.apache.kafka.connect.data.Timestamp"),
        _of("string", _ISO, _TIMES + "ZonedTimestamp"),
        _of("string", _ISO, _TIMES + "IsoTimestamp"),
    ),
    "day": st.one_of(
        _of("int32", st.integers(-800_000, 3_000_000) | _INT32, _TIMES + "Date"),
        _of("int32", st.integers(-719_162, 2_932_896), "org.apache.kafka.connect.data.Date"),
        _of("string", st.builds("{}{}".format, _DAYS, st.sampled_from(("", "Z"))), _TIMES + "IsoDate"),
    ),
    "status": _of("string", st.sampled_from(("new", "done", "lost", "NEW", "")), "io.debezium.data.Enum"),
    "tags": st.lists(_TEXT | st.none(), max_size=3).map(
        lambda tags: (
            {"type": "array", "items": {"type": "string", "optional": True}, "optional": True},
            tags,
        )
    ),
    "counts": st.lists(_INT64 | st.none(), max_size=3).map(
        lambda counts: (
            {"type": "array", "items": {"type": "int64", "optional": True}, "optional": True},
            counts,
        )
    ),
}
_POISON = st.one_of(
    st.sampled_from(
        (
            None,
            True,
            "",
            " ",
            "x",
            "7",
            "-1.50",
            "+1",
            " 1 ",
            "1_0",
            "0x10",
            "1e5",
            "1E+2",
            "1e9999999999999999999",
            "٣",
            "NaN",
            "Infinity",
            "true",
            "epoch",
            "now",
            "2026",
            "2026-02-30",
            "2026-2-3",
            "2026-W10-1",
            "20260301",
            "+12026-01-01",
            "2026-03-01T25:00:00Z",
            "2026-03-01T10:00:00 Europe/Berlin",
            "2026-03-01T10",
            "2026-03-01T24:00:00Z",
            "0000-00-00",
            "0001-01-01T00:00:00+14:00",
            "9999-12-31T23:59:59-14:00",
            "AQ==",
            "AQ",
            "A Q = =",
            "-_8=",
            UNSENT,
            _encoded(UNSENT.encode()),
            [UNSENT],
            [ord(letter) for letter in UNSENT],
            {UNSENT: UNSENT},
            [],
            {},
            [1, "a"],
            {"scale": 1},
            {"scale": "x", "value": "AQ=="},
            {"scale": 2147483647, "value": "AQ=="},
            1.5,
            -0.0,
            10**400,
            -(2**63) - 1,
        )
    ),
    _INT64,
)
RAW = st.sampled_from(
    (
        "1e9999999999999999999",
        "-1E-9999999999999999999",
        "1e00005",
        "1e400",
        "-1e400",
        "1E-400",
        "1e9999",
        "1.0",
        "0.1e1",
        "12e0",
        "1E2",
        "-0",
        "1.10",
        "0.1000000000000000055511151231257827",
        "1.7976931348623158e308",
        "123456789012345678901234567890.5",
        "NaN",
        "-Infinity",
        "01",
        "1.",
        "[1E2,1.50,-0]",
        '{"b":1E2,"a":[2.50],"b":3.10}',
        '"\\ud800"',
        '["\\ud83d\\ude00"]',
        '{"\\u001f\x7f\\n":1}',
    )
)
"""JSON that Python does not write, most of it numbers."""


@st.composite
def envelopes(draw: st.DrawFn) -> bytes:
    """A record's value: an envelope with or without Connect's schema, of which a column or two may be poison."""
    wrapped = draw(st.booleans())
    row: dict[str, Any] = {"id": 7}
    described: list[dict[str, Any]] = [{"field": "id", "type": "int64"}]
    poison = draw(st.sets(st.sampled_from(sorted(COLUMNS)), max_size=1))
    for name, values in COLUMNS.items():
        schema, value = draw(values)
        if name in poison:
            value = draw(_POISON | RAW.map(lambda text: {"RAW": text}))
        elif draw(st.integers(0, 3)):
            value = None
        row[name] = value
        described.append({**schema, "field": name})
    source = {"connector": draw(st.sampled_from(("postgresql", "mariadb"))), "ts_ms": 1_772_000_000_000}
    envelope = {"before": None, "after": row, "source": source, "op": "c", "ts_ms": 1_772_000_000_000}
    fields = [{"type": "struct", "fields": described, "field": "after"}]
    whole: Any = (
        {"schema": {"type": "struct", "fields": fields}, "payload": envelope} if wrapped else envelope
    )
    text = json.dumps(whole)
    for name in row:
        value = row[name]
        if isinstance(value, dict) and "RAW" in value:
            text = text.replace(json.dumps(value), str(cast_text(value)))
    return text.encode()


def cast_text(value: dict[str, Any]) -> str:
    """The text of a number that is to stand in JSON as it is."""
    return str(value["RAW"])


def _avro(type_: Any, name: str | None = None, **more: Any) -> Any:
    return ["null", {"type": type_, **({"connect.name": name} if name else {}), **more}]


_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_VARIABLE = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "connect.name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
}


def _octets(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def _scaled(scale: int, precision: int = 20) -> Any:
    more = {"connect.parameters": {"scale": str(scale)}, "logicalType": "decimal"}
    return _avro("bytes", _DECIMAL, **more, precision=precision, scale=scale)


_UNSCALED = (st.integers(-(10**14), 10**14) | st.integers(-(10**39), 10**39)).map(_octets)
_CENTS = st.integers(-(10**9), 10**9).map(lambda cents: cents / 100)
_SCALES = st.sampled_from((0, 2, 18, 19, 38, 39, -1, 2**31 - 1))
_SAME = {
    "id": ("long", st.just(7)),
    "name": (_avro("string"), _TEXT),
    "raw": (_avro("bytes"), st.binary(max_size=8)),
    "status": (_avro("string", "io.debezium.data.Enum"), st.sampled_from(("new", "done", "lost"))),
    "tags": (
        ["null", {"type": "array", "items": ["null", "string"]}],
        st.lists(_TEXT | st.none(), max_size=3),
    ),
    "counts": (
        ["null", {"type": "array", "items": ["null", "long"]}],
        st.lists(_INT64 | st.none(), max_size=3),
    ),
    "flag": (_avro("boolean"), st.booleans()),
    "number": (_avro("long"), _INT64),
    "ratio": (_avro("double"), st.floats()),
    "amount": (_scaled(2), _UNSCALED),
    "exact": (["null", _VARIABLE], st.fixed_dictionaries({"scale": _SCALES, "value": _UNSCALED})),
    "at": (_avro("long", _TIMES + "MicroTimestamp"), _MICROS),
    "day": (_avro("int", _TIMES + "Date"), st.integers(-800_000, 3_000_000)),
}
IN_AVRO: list[dict[str, tuple[Any, st.SearchStrategy[Any]]]] = [
    _SAME,
    _SAME
    | {
        "name": (_avro("string", "io.debezium.data.Uuid"), st.uuids().map(str)),
        "flag": (_avro("int", **{"connect.type": "int16"}), st.integers(0, 2)),
        "number": (_avro("int", _TIMES + "Year"), st.integers(1901, 2155)),
        "ratio": (_avro("float"), st.floats(width=32)),
        "amount": (_avro("string"), _CENTS.map(str)),
        "exact": (_avro("double"), _CENTS),
        "at": (_avro("long", _TIMES + "Timestamp"), _MICROS.map(lambda micros: micros // 1000)),
        "day": (_avro("int", "org.apache.kafka.connect.data.Date", logicalType="date"), st.integers(-9, 99)),
    },
    _SAME
    | {
        "number": (_scaled(0), st.integers(0, 2**64 - 1).map(_octets)),
        "exact": (_scaled(18, 38), _UNSCALED),
        "at": (_avro("long", _TIMES + "NanoTimestamp"), _INT64),
        "raw": (_avro("bytes", "io.debezium.data.Bits"), st.binary(max_size=2)),
        "day": (_avro("string", _TIMES + "IsoDate"), st.dates().map(lambda day: f"{day}Z")),
    },
    _SAME
    | {
        "at": (_avro("string", _TIMES + "ZonedTimestamp"), _ISO),
        "ratio": (_scaled(2), st.integers(-(10**14), 10**14).map(_octets)),
        # Types that do not fit their columns.
        "number": (_avro("long", _TIMES + "MicroTimestamp"), _INT64),
        "day": (_avro("long", _TIMES + "Timestamp"), _INT64),
        "amount": (_avro("bytes"), st.binary(min_size=1, max_size=4)),
    },
]
"""Tables with a column of each type, as Debezium writes them in Avro: of each column the schema and its values."""


def avro_schema(table: Mapping[str, tuple[Any, Any]]) -> str:
    """The schema of the envelopes of such a table."""
    fields = [{"name": name, "type": schema} for name, (schema, _) in table.items()]
    row = {"type": "record", "name": "Value", "fields": fields}
    source = {"type": "record", "name": "Source", "fields": [{"name": "connector", "type": "string"}]}
    parts = [("before", ["null", row]), ("after", ["null", "Value"]), ("source", source), ("op", "string")]
    whole = {"type": "record", "name": "Envelope", "fields": [{"name": n, "type": t} for n, t in parts]}
    return json.dumps(whole)


@st.composite
def avro_rows(draw: st.DrawFn) -> tuple[int, dict[str, Any]]:
    """One of the tables, by its number, and a row of it."""
    number = draw(st.integers(0, len(IN_AVRO) - 1))
    present = draw(st.sets(st.sampled_from(sorted(_SAME)), max_size=3)) | {"id"}
    row = {name: draw(values) if name in present else None for name, (_, values) in IN_AVRO[number].items()}
    return number, row
