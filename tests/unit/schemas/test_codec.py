"""Encoded values are decoded again, and invalid values are errors that name the field."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field, make_dataclass
from dataclasses import fields as dataclass_fields
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import fastavro
import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift.definitions import Format
from gearshift.errors import DecodeError, EncodeError
from gearshift.schemas import (
    DecimalOf,
    avro_schema,
    codec,
    decode,
    describe,
    encode,
    json_schema,
)
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.payloads import avro_datum
from gearshift.schemas.shapes import EnumOf, ListOf, MapOf, OptionalOf, RecordOf, Shape

FORMATS: list[Format] = ["avro", "json"]


class Tariff(Enum):
    DAY = "day"
    NIGHT = "night"


@dataclass(frozen=True)
class Place:
    street: str
    number: int | None = None


@dataclass(frozen=True)
class Reading:
    meter_id: str
    load_kw: float
    count: int
    valid: bool
    raw: bytes
    price: Annotated[Decimal, DecimalOf(12, 2)]
    total: Decimal
    read_at: datetime
    day: date
    tariff: Tariff
    place: Place
    other: Place | None = None
    labels: dict[str, str | None] = field(default_factory=dict[str, str | None])
    loads: list[float] = field(default_factory=list[float])
    places: list[Place] = field(default_factory=list[Place])
    seen_at: datetime | None = None


READING = Reading(
    "m-1", 2.5, 7, True, b"\x00\xff", Decimal("1.25"), Decimal("-3"), datetime(2026, 1, 31, 12, tzinfo=UTC),
    date(2026, 1, 31), Tariff.NIGHT, Place("Main"), Place("Side", 3), {"a": None}, [1.0], [Place("x", 1)],
)  # fmt: skip

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
longs = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)
zones = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-11))])
instants = st.one_of(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=zones),  # noqa: DTZ001 - hypothesis wants naive
    st.sampled_from([datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]),
)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(
        lambda unscaled: Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))
    )


places = st.builds(Place, street=text, number=st.none() | longs)
readings = st.builds(
    Reading,
    meter_id=text,
    load_kw=floats,
    count=longs,
    valid=st.booleans(),
    raw=st.binary(max_size=20),
    price=decimals(12, 2),
    total=decimals(38, 18),
    read_at=instants,
    day=st.dates(),
    tariff=st.sampled_from(Tariff),
    place=places,
    other=st.none() | places,
    labels=st.dictionaries(text, st.none() | text, max_size=3),
    loads=st.lists(floats, max_size=3),
    places=st.lists(places, max_size=2),
    seen_at=st.none() | instants,
)


@pytest.mark.parametrize("format", FORMATS)
@given(reading=readings)
@settings(max_examples=150)
def test_what_is_encoded_is_decoded_again(format: Format, reading: Reading) -> None:  # noqa: A002
    assert decode(encode(reading, format), Reading, format) == reading


LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, text),
    (int, longs),
    (float, floats),
    (bool, st.booleans()),
    (bytes, st.binary(max_size=8)),
    (Decimal, decimals(38, 18)),
    (datetime, instants),
    (date, st.dates()),
    (Tariff, st.sampled_from(Tariff)),
    (Place, places),
]


@st.composite
def typed_values(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    """A type and a strategy of its values."""
    kind = draw(st.sampled_from(["leaf", "leaf", "list", "dict", "optional"] if depth else ["leaf"]))
    if kind == "leaf":
        return draw(st.sampled_from(LEAVES))
    inner, values = draw(typed_values(depth - 1))
    if kind == "list":
        return list[inner], st.lists(values, max_size=3)
    if kind == "dict":
        return dict[str, inner], st.dictionaries(text, values, max_size=3)
    return inner | None, st.none() | values


@given(data=st.data())
@settings(max_examples=80)
def test_any_dataclass_has_valid_schemas_and_its_values_survive(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(typed_values(), min_size=1, max_size=5))
    value_type = make_dataclass("Drawn", [(f"field_{n}", hint) for n, (hint, _) in enumerate(chosen)])
    value = value_type(*(data.draw(values) for _, values in chosen))
    fastavro.parse_schema(avro_schema(value_type))
    assert decode(encode(value), value_type) == value
    written = encode(value, "json")
    jsonschema.Draft7Validator(json_schema(value_type)).validate(json.loads(written))
    assert decode(written, value_type, "json") == value


def test_a_number_of_more_than_64_bits_is_an_error_at_any_depth() -> None:
    number = b"\x80" * 9 + b"\x02"
    for hint, payload in ((int, number), (list[int], b"\x02" + number + b"\x00")):
        value_type = make_dataclass("Drawn", [("field", hint)])
        with pytest.raises(Misfit, match="more than 64 bits"):
            codec(value_type).reader_of(codec(value_type).schema_text)(payload)


@given(data=st.data())
@settings(max_examples=150)
def test_our_reader_agrees_with_fastavro_or_rejects_damaged_payloads(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(typed_values(), min_size=1, max_size=4))
    value_type = make_dataclass("Drawn", [(f"field_{n}", hint) for n, (hint, _) in enumerate(chosen)])
    payload = encode(value_type(*(data.draw(values) for _, values in chosen)))
    datum_of = avro_datum(avro_schema(value_type))
    ours = codec(value_type).reader_of(codec(value_type).schema_text)

    def theirs(payload: bytes) -> Any:
        return _built(describe(value_type), datum_of(payload))

    assert ours(payload) == theirs(payload)
    damaged = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    # fastavro counts a negative branch of a union from the end; ours rejects it.
    assert _told(ours, bytes(damaged)) in ("refused", _told(theirs, bytes(damaged)))


def _built(shape: Shape, datum: Any) -> Any:
    """Convert fastavro's data to a value."""
    if isinstance(shape, OptionalOf):
        return None if datum is None else _built(shape.item, datum)
    if isinstance(shape, ListOf):
        return [_built(shape.item, item) for item in datum]
    if isinstance(shape, MapOf):
        return {key: _built(shape.value, item) for key, item in datum.items()}
    if isinstance(shape, EnumOf):
        if datum not in shape.members:
            raise Misfit("no member")
        return shape.members[datum]
    if isinstance(shape, RecordOf):
        return shape.type(**{field.name: _built(field.shape, datum[field.name]) for field in shape.fields})
    return datum


def _told(read: Any, payload: bytes) -> str:
    """The result of a reader as text, because NaN is not equal to itself."""
    try:
        return repr(read(payload))
    except Misfit:
        return "refused"


def test_what_avro_writes_is_read_by_anyone_with_the_schema() -> None:
    import io

    datum = fastavro.schemaless_reader(
        io.BytesIO(encode(READING)), fastavro.parse_schema(avro_schema(Reading)), None
    )
    assert isinstance(datum, dict)
    assert datum["price"] == Decimal("1.25")
    assert datum["read_at"] == READING.read_at
    assert datum["day"] == READING.day
    assert datum["other"] == {"street": "Side", "number": 3}


def test_the_json_schema_accepts_what_json_writes_and_is_itself_valid() -> None:
    schema = json_schema(Reading)
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate(json.loads(encode(READING, "json")))


def changed(**values: Any) -> Reading:
    kept = {each.name: getattr(READING, each.name) for each in dataclass_fields(READING)}
    return Reading(**{**kept, **values})


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"meter_id": 5}, "field meter_id: is int, not str"),
        ({"meter_id": None}, "field meter_id: is NoneType, not str"),
        ({"meter_id": "\ud800"}, "field meter_id: is not valid Unicode text"),
        ({"labels": {"\ud800": None}}, "is not valid Unicode text"),
        ({"load_kw": "2"}, "field load_kw: is str, not float"),
        ({"load_kw": 10**400}, "field load_kw: is too large for a float"),
        ({"count": 2**63}, "field count: does not fit in 64 bits"),
        ({"count": True}, "field count: is bool, not int"),
        ({"valid": 1}, "field valid: is int, not bool"),
        ({"raw": "x"}, "field raw: is str, not bytes"),
        ({"price": Decimal("1.234")}, "field price: has more than 2 digits after the point"),
        ({"price": Decimal("12345678901")}, "field price: has too many digits for decimal(12, 2)"),
        ({"price": Decimal("NaN")}, "field price: is NaN, not a finite number"),
        ({"price": 1.5}, "field price: is float, not Decimal"),
        ({"read_at": datetime(2026, 1, 1)}, "field read_at: is a naive datetime"),  # noqa: DTZ001
        (
            {"read_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-3)))},
            "field read_at: is not between the years",
        ),
        ({"day": datetime(2026, 1, 1, tzinfo=UTC)}, "field day: is datetime, not date"),
        ({"tariff": "day"}, "field tariff: is str, not Tariff"),
        ({"place": None}, "field place: is NoneType, not Place"),
        ({"place": Place(street=1)}, "field place.street: is int, not str"),  # type: ignore[arg-type]
        ({"labels": {1: "x"}}, "field labels: is int, not a str key"),
        ({"labels": {"a": 2}}, "field labels.['a']: is int, not str"),
        ({"loads": [1.0, "x"]}, "field loads.[1]: is str, not float"),
        ({"loads": (1.0,)}, "field loads: is tuple, not list"),
    ],
)
def test_an_invalid_value_is_an_error_with_the_field(
    format: Format,  # noqa: A002
    values: dict[str, Any],
    words: str,
) -> None:
    with pytest.raises(EncodeError) as raised:
        encode(changed(**values), format)
    assert words in str(raised.value)


def test_avro_supports_infinity_and_json_does_not() -> None:
    value = changed(load_kw=float("inf"))
    assert decode(encode(value), Reading) == value
    with pytest.raises(EncodeError, match="field load_kw: is inf, which JSON does not support"):
        encode(value, "json")


def test_an_int_is_accepted_for_a_float() -> None:
    assert decode(encode(changed(load_kw=3)), Reading).load_kw == 3.0


@pytest.mark.parametrize("format", FORMATS)
@given(payload=st.binary(max_size=60))
@settings(max_examples=200)
def test_arbitrary_bytes_are_decoded_or_refused_and_nothing_else(format: Format, payload: bytes) -> None:  # noqa: A002
    try:
        decode(payload, Reading, format)
    except DecodeError as error:
        assert "the payload cannot be decoded as Reading" in str(error)


@given(cut=st.integers(1, 20), reading=readings)
@settings(max_examples=50)
def test_a_payload_cut_short_is_refused(cut: int, reading: Reading) -> None:
    with pytest.raises(DecodeError):
        decode(encode(reading)[:-cut], Reading)


def test_bytes_after_the_last_field_are_refused() -> None:
    with pytest.raises(DecodeError, match="3 bytes are left after the last field"):
        decode(encode(READING) + b"abc", Reading)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"meter_id": 5}, "field meter_id: is int, not a string"),
        ({"read_at": "yesterday"}, "field read_at: is not an RFC 3339 time"),
        ({"read_at": "2026-01-01T00:00:00"}, "field read_at: is not an RFC 3339 time with a zone"),
        ({"tariff": "noon"}, "field tariff: 'noon' is not a value of Tariff: day, night"),
        ({"total": "1e999999999"}, "field total: has too many digits"),
        ({"total": "x"}, "field total: is not a decimal number"),
        ({"raw": "%%%"}, "field raw: is not base64"),
        ({"place": {}}, "field place.street: is missing"),
    ],
)
def test_invalid_json_is_an_error_with_the_field(change: dict[str, Any], words: str) -> None:
    payload = {**json.loads(encode(READING, "json")), **change}
    with pytest.raises(DecodeError) as raised:
        decode(json.dumps(payload).encode(), Reading, "json")
    assert words in str(raised.value)


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(DecodeError, match="nested too deeply"):
        decode(b"[" * 200_000, Reading, "json")


def test_the_error_of_a_users_check_is_shown() -> None:
    @dataclass
    class Positive:
        load: int

        def __post_init__(self) -> None:
            if self.load < 0:
                raise ValueError("load must not be negative")

    value = Positive(1)
    value.load = -1
    with pytest.raises(
        DecodeError, match="Positive rejected these values: ValueError: load must not be negative"
    ):
        decode(encode(value), Positive)


def test_a_newer_type_reads_what_an_older_one_wrote() -> None:
    @dataclass
    class Old:
        meter_id: str
        load: int
        dropped: str

    @dataclass
    class New:
        meter_id: str
        load: float
        tariff: Tariff = Tariff.DAY
        price: Decimal = Decimal("0.10")
        seen_at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
        place: Place = Place("nowhere")
        other: Place | None = Place("there", 1)
        raw: bytes = b"\xff\x00"
        day: date = date(2026, 1, 1)
        total: Decimal = Decimal("12345678901234567890.123456789012345678")

    Old.__name__ = New.__name__ = "Load"
    reader = codec(New).reader_of(codec(Old).schema_text)
    assert reader(encode(Old("m-1", 3, "x"))) == New("m-1", 3.0)


def test_a_codec_is_made_once() -> None:
    assert codec(Reading) is codec(Reading)
    assert describe(Reading) is describe(Reading)


def test_importing_the_schemas_imports_neither_spark_nor_a_kafka_client() -> None:
    check = "import sys, gearshift.schemas; print([m for m in ('pyspark', 'confluent_kafka', 'fastavro') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
