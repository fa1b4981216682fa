"""Makes types, schemas of other writers, and records together with what they mean: a judge of both decoders.

What a record means is made with it, by arithmetic of its own; no decoder is asked.
"""

from __future__ import annotations

import dataclasses
import json
import random
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from gearshift.schemas import Alias, DecimalOf, TimeOf

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = -62135596800000000, 253402300799999999  # microseconds of the years 1 and 9999
REFUSED = "refused"


class Tariff(Enum):
    DAY = "day"
    NIGHT = "night"


Made = tuple[bytes, Any]
"""Bytes and what they mean; REFUSED where they mean nothing that the type can hold."""


@dataclass
class Kind:
    """A declared type, and the ways in which others write it: an Avro schema and what makes records of it."""

    annotation: Any
    writers: list[tuple[Any, Callable[[random.Random], Made]]]
    json: Callable[[random.Random], tuple[Any, Any]]
    """A JSON value and its meaning."""


def zigzag(number: int) -> bytes:
    value = (number << 1) ^ (number >> 63)
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def sized(data: bytes) -> bytes:
    return zigzag(len(data)) + data


def a_text(chance: random.Random) -> str:
    letters = "abcXYZ 09-_'\"\\/\n\t\x00äß€𝄞٣\u2028"
    return "".join(chance.choice(letters) for _ in range(chance.randrange(6)))


def a_long(chance: random.Random, bits: int = 64) -> int:
    return chance.choice(
        [
            0,
            1,
            -1,
            chance.randint(-100, 100),
            chance.getrandbits(bits) - (1 << (bits - 1)),
            -(1 << (bits - 1)),
            (1 << (bits - 1)) - 1,
        ]
    )


def a_float(chance: random.Random) -> float:
    return chance.choice(
        [0.0, -0.0, 1.5, chance.uniform(-1e6, 1e6), 5e-324, 1.7976931348623157e308, chance.random()]
    )


def strings() -> Kind:
    def text(chance: random.Random) -> Made:
        value = a_text(chance)
        return sized(value.encode()), value

    def uuid_text(chance: random.Random) -> Made:
        value = uuid.UUID(int=chance.getrandbits(128))
        return value.bytes, str(value)

    symbols = ["A", "b_1", "C"]

    def symbol(chance: random.Random) -> Made:
        number = chance.randrange(3)
        return zigzag(number), symbols[number]

    def as_json(chance: random.Random) -> tuple[Any, Any]:
        value = a_text(chance)
        return value, value

    return Kind(
        str,
        [
            ("string", text),
            ("bytes", text),
            ({"type": "string", "logicalType": "uuid"}, text),
            ({"type": "string", "avro.java.string": "String"}, text),
            ({"type": "fixed", "name": "Id{n}", "size": 16, "logicalType": "uuid"}, uuid_text),
            ({"type": "enum", "name": "Word{n}", "symbols": symbols}, symbol),
        ],
        as_json,
    )


def integers() -> Kind:
    def made(bits: int) -> Callable[[random.Random], Made]:
        def make(chance: random.Random) -> Made:
            value = a_long(chance, bits)
            return zigzag(value), value

        return make

    def as_json(chance: random.Random) -> tuple[Any, Any]:
        value = a_long(chance)
        if chance.random() < 0.1 and abs(value) < 2**53:
            return float(value), value
        return value, value

    return Kind(
        int,
        [("long", made(64)), ("int", made(32)), ({"type": "long", "logicalType": "odd"}, made(64))],
        as_json,
    )


def counts() -> Kind:
    def made(bits: int, factor: int) -> Callable[[random.Random], Made]:
        def make(chance: random.Random) -> Made:
            value = a_long(chance, bits)
            counted = value * factor
            return zigzag(value), counted if -(2**63) <= counted < 2**63 else REFUSED

        return make

    def as_json(chance: random.Random) -> tuple[Any, Any]:
        value = a_long(chance)
        return value, value

    return Kind(
        Annotated[int, TimeOf("us")],
        [
            ({"type": "int", "logicalType": "time-millis"}, made(32, 1000)),
            ({"type": "long", "logicalType": "time-micros"}, made(64, 1)),
            ({"type": "long", "logicalType": "timestamp-millis"}, made(64, 1000)),
            ("long", made(64, 1)),
        ],
        as_json,
    )


def numbers() -> Kind:
    def double(chance: random.Random) -> Made:
        value = chance.choice([a_float(chance), float("nan"), float("inf")])
        return struct.pack("<d", value), value

    def single(chance: random.Random) -> Made:
        (value,) = struct.unpack("<f", struct.pack("<f", chance.uniform(-1e9, 1e9)))
        return struct.pack("<f", value), value

    def whole(bits: int) -> Callable[[random.Random], Made]:
        def make(chance: random.Random) -> Made:
            value = a_long(chance, bits)
            return zigzag(value), float(value)

        return make

    def as_json(chance: random.Random) -> tuple[Any, Any]:
        value = a_float(chance)
        if chance.random() < 0.2:
            number = a_long(chance)
            return number, float(number)
        return value, value

    return Kind(
        float, [("double", double), ("float", single), ("int", whole(32)), ("long", whole(64))], as_json
    )


def truths() -> Kind:
    def make(chance: random.Random) -> Made:
        value = chance.random() < 0.5
        return bytes([value]), value

    return Kind(bool, [("boolean", make)], lambda chance: (value := chance.random() < 0.5, value))


def octets() -> Kind:
    import base64

    def make(chance: random.Random) -> Made:
        value = chance.randbytes(chance.randrange(5))
        return sized(value), value

    def as_json(chance: random.Random) -> tuple[Any, Any]:
        value = chance.randbytes(chance.randrange(5))
        return base64.b64encode(value).decode(), value

    return Kind(
        bytes,
        [
            ("bytes", make),
            ("string", make),
            (
                {"type": "fixed", "name": "Raw{n}", "size": 3},
                lambda chance: (value := chance.randbytes(3), value),
            ),
        ],
        as_json,
    )


def decimals(precision: int, scale: int) -> Kind:
    def exact(unscaled: int, written: int) -> Any:
        wanted = unscaled * 10**scale
        if wanted % 10**written:
            return REFUSED
        wanted //= 10**written
        return (
            Decimal(wanted).scaleb(-scale)
            if abs(wanted) < 10**precision and abs(wanted) < 10**28
            else (
                REFUSED
                if abs(wanted) >= 10**precision
                else Decimal(f"{'-' if wanted < 0 else ''}{abs(wanted)}e-{scale}")
            )
        )

    def written(digits: int, places: int, size: int | None) -> Callable[[random.Random], Made]:
        def make(chance: random.Random) -> Made:
            unscaled = chance.choice([0, 1, -1, chance.randint(-(10**digits), 10**digits), 10**places])
            least = size or unscaled.bit_length() // 8 + 1 + chance.randrange(2)
            data = unscaled.to_bytes(least, "big", signed=True)
            return (data if size else sized(data)), exact(unscaled, places)

        return make

    def as_json(chance: random.Random) -> tuple[Any, Any]:
        unscaled = chance.randint(-(10**precision) + 1, 10**precision - 1)
        text = f"{'-' if unscaled < 0 else ''}{abs(unscaled)}e-{scale}"
        return text, Decimal(text)

    def of(digits: int, places: int) -> dict[str, Any]:
        return {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": places}

    fixed = {
        "type": "fixed",
        "name": "Price{n}",
        "size": 17,
        "logicalType": "decimal",
        "precision": 38,
        "scale": scale,
    }
    return Kind(
        Annotated[Decimal, DecimalOf(precision, scale)],
        [
            (of(precision, scale), written(precision, scale, None)),
            (of(precision + 2, scale + 1), written(precision, scale + 1, None)),
            (of(9, 0), written(8, 0, None)),
            (fixed, written(min(38, precision + 1), scale, 17)),
        ],
        as_json,
    )


def moment(micros: int) -> Any:
    return EPOCH + timedelta(microseconds=micros) if FIRST <= micros <= LAST else REFUSED


def instants() -> Kind:
    def made(per_micro: int, over: int) -> Callable[[random.Random], Made]:
        def make(chance: random.Random) -> Made:
            number = chance.choice([0, -1, 1774746123000004, a_long(chance), chance.randint(FIRST, LAST)])
            return zigzag(number), moment(number * per_micro // over)

        return make

    def as_json(chance: random.Random) -> tuple[Any, Any]:
        value = EPOCH + timedelta(microseconds=chance.randint(FIRST, LAST))
        return value.isoformat().replace("+00:00", "Z"), value

    def local(unit: str) -> Any:
        return {"type": "long", "logicalType": f"{unit}"}

    return Kind(
        datetime,
        [
            (local("timestamp-micros"), made(1, 1)),
            (local("timestamp-millis"), made(1000, 1)),
            (local("timestamp-nanos"), made(1, 1000)),
        ],
        as_json,
    )


def marked_instants() -> Kind:
    """Plain numbers of milliseconds, and local times of Berlin's clocks."""
    zone = ZoneInfo("Europe/Berlin")

    def plain(chance: random.Random) -> Made:
        number = chance.randint(FIRST // 1000, LAST // 1000)
        return zigzag(number), moment(number * 1000)

    def wall(chance: random.Random) -> Made:
        # The years for which every copy of the time zone database says the same.
        number = chance.randint(0, 2_000_000_000_000_000)
        clock = datetime(1970, 1, 1) + timedelta(microseconds=number)  # noqa: DTZ001 - a wall clock has no zone
        return zigzag(number), clock.replace(tzinfo=zone).astimezone(UTC)

    return Kind(
        Annotated[datetime, TimeOf("ms", "Europe/Berlin")],
        [("long", plain), ({"type": "long", "logicalType": "local-timestamp-micros"}, wall)],
        instants().json,
    )


def days() -> Kind:
    def make(chance: random.Random) -> Made:
        number = chance.choice([0, -1, 20000, a_long(chance, 32), -719162, 2932896, 2932897])
        return zigzag(number), date(1970, 1, 1) + timedelta(
            days=number
        ) if -719162 <= number <= 2932896 else REFUSED

    def as_json(chance: random.Random) -> tuple[Any, Any]:
        value = date(1970, 1, 1) + timedelta(days=chance.randint(-719162, 2932896))
        return value.isoformat(), value

    return Kind(date, [({"type": "int", "logicalType": "date"}, make)], as_json)


def words() -> Kind:
    def text(chance: random.Random) -> Made:
        word = chance.choice(["day", "night", "dusk"])
        return sized(word.encode()), word if word != "dusk" else REFUSED

    symbols = ["night", "dusk", "day"]

    def symbol(chance: random.Random) -> Made:
        number = chance.randrange(3)
        return zigzag(number), symbols[number] if number != 1 else REFUSED

    def as_json(chance: random.Random) -> tuple[Any, Any]:
        word = chance.choice(["day", "night"])
        return word, word

    return Kind(
        Tariff, [("string", text), ({"type": "enum", "name": "Time{n}", "symbols": symbols}, symbol)], as_json
    )


LEAVES = [strings, integers, counts, numbers, truths, octets, lambda: decimals(12, 2), lambda: decimals(38, 18),
          lambda: decimals(4, 4), instants, marked_instants, days, words]  # fmt: skip


class Maker:
    """One type with several writers; everything follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.named = 0
        self.value_type, self.fields = self._record(depth=2)

    def _name(self) -> int:
        self.named += 1
        return self.named

    def _record(self, depth: int) -> tuple[type[Any], list[tuple[str, Kind, bool, str | None]]]:
        made: list[tuple[str, Any, Any]] = []
        fields: list[tuple[str, Kind, bool, str | None]] = []
        for number in range(self.chance.randint(1, 5)):
            kind = self._kind(depth)
            name, alias, annotation = f"f{number}", None, kind.annotation
            if self.chance.random() < 0.3:
                alias = f"old{number}"
                annotation = Annotated[annotation, Alias(alias)]
            has_default = self.chance.random() < 0.3
            default = dataclasses.field(kw_only=True)
            if has_default:
                _, value = kind.json(self.chance)
                default = dataclasses.field(kw_only=True, default_factory=_same(_python(kind, value)))
            made.append((name, annotation, default))
            fields.append((name, kind, has_default, alias))
        return make_dataclass(f"Drawn{self._name()}", made, frozen=True), fields

    def _kind(self, depth: int) -> Kind:
        drawn = self.chance.random()
        if depth and drawn < 0.15:
            return self._list(self._kind(depth - 1))
        if depth and drawn < 0.3:
            return self._map(self._kind(depth - 1))
        if depth and drawn < 0.45:
            inner = self._kind(0)
            return inner if _is_optional(inner.annotation) else self._optional(inner)
        if depth and drawn < 0.6:
            return self._nested(depth - 1)
        return self.chance.choice(LEAVES)()

    def _list(self, inner: Kind) -> Kind:
        def writer(schema: Any, item: Callable[[random.Random], Made]) -> tuple[Any, Any]:
            def make(chance: random.Random) -> Made:
                return _blocks(chance, [item(chance) for _ in range(chance.randrange(4))], list)

            return {"type": "array", "items": schema}, make

        def as_json(chance: random.Random) -> tuple[Any, Any]:
            made = [inner.json(chance) for _ in range(chance.randrange(4))]
            return [text for text, _ in made], [value for _, value in made]

        annotation, markers = _unmarked(inner.annotation)
        return Kind(_marked(list[annotation], markers), [writer(*each) for each in inner.writers], as_json)

    def _map(self, inner: Kind) -> Kind:
        def writer(schema: Any, item: Callable[[random.Random], Made]) -> tuple[Any, Any]:
            def make(chance: random.Random) -> Made:
                keys = [f"k{n}{a_text(chance)}" for n in range(chance.randrange(3))]
                entries = [(key, item(chance)) for key in keys]
                data, values = _blocks(chance, [(sized(k.encode()) + d, v) for k, (d, v) in entries], list)
                return data, values if values == REFUSED else dict(zip(keys, values, strict=True))

            return {"type": "map", "values": schema}, make

        def as_json(chance: random.Random) -> tuple[Any, Any]:
            made = {f"k{n}{a_text(chance)}": inner.json(chance) for n in range(chance.randrange(3))}
            return {k: text for k, (text, _) in made.items()}, {k: value for k, (_, value) in made.items()}

        annotation, markers = _unmarked(inner.annotation)
        return Kind(
            _marked(dict[str, annotation], markers), [writer(*each) for each in inner.writers], as_json
        )

    def _optional(self, inner: Kind) -> Kind:
        def union(schema: Any, item: Callable[[random.Random], Made], first: bool) -> tuple[Any, Any]:
            def make(chance: random.Random) -> Made:
                if chance.random() < 0.3:
                    return zigzag(0 if first else 1), None
                data, value = item(chance)
                return zigzag(1 if first else 0) + data, value

            return (["null", schema] if first else [schema, "null"]), make

        writers = [union(*each, first) for each in inner.writers for first in (True, False)]
        always = ("null", lambda chance: (b"", None))

        def as_json(chance: random.Random) -> tuple[Any, Any]:
            return (None, None) if chance.random() < 0.3 else inner.json(chance)

        annotation, markers = _unmarked(inner.annotation)
        return Kind(_marked(annotation | None, markers), [*writers, always, *inner.writers], as_json)

    def _nested(self, depth: int) -> Kind:
        value_type, fields = self._record(depth)
        kinds = [self.writer(fields) for _ in range(2)]
        return Kind(value_type, kinds, lambda chance: self.json(fields, chance))

    def writer(
        self, fields: list[tuple[str, Kind, bool, str | None]]
    ) -> tuple[Any, Callable[[random.Random], Made]]:
        """A schema of somebody else for a record, and what makes records of it."""
        chance = self.chance
        parts: list[tuple[str, Any, Any, str | None]] = []
        missing: list[tuple[str, Kind]] = []
        for name, kind, has_default, alias in fields:
            if has_default and chance.random() < 0.3:
                missing.append((name, kind))
                continue
            schema, make = chance.choice(kind.writers)
            if chance.random() < 0.1 and not _has_record(
                kind.annotation
            ):  # and something that the type cannot hold
                schema, make = _with_foreign(schema, make)
            parts.append((alias if alias and chance.random() < 0.5 else name, schema, make, name))
        for number in range(chance.randrange(3)):
            schema, make = chance.choice(chance.choice(LEAVES)().writers)
            parts.append((f"extra{number}", schema, make, None))
        if chance.random() < 0.3:
            node = {
                "type": "record",
                "name": "Chain{n}",
                "fields": [{"name": "next", "type": ["null", "Chain{n}"]}],
            }
            parts.append(
                ("chain", node, lambda chance: (zigzag(1) * chance.randrange(4) + zigzag(0), None), None)
            )
        chance.shuffle(parts)
        written = {
            "type": "record",
            "name": f"Other{self._name()}",
            **({"namespace": "org.example"} if chance.random() < 0.5 else {}),
            "fields": [{"name": name, "type": self._numbered(schema)} for name, schema, _, _ in parts],
        }

        def make_record(chance: random.Random) -> Made:
            data, values = b"", dict[str, Any]()
            refused = False
            for _, _, make, target in parts:
                part, value = make(chance)
                data += part
                if target is not None:
                    refused = refused or value is REFUSED
                    values[target] = value
            return data, REFUSED if refused else {"...": [name for name, _ in missing], **values}

        return written, make_record

    def _numbered(self, schema: Any) -> Any:
        """The schema with a name of its own for each named type."""
        return json.loads(json.dumps(schema).replace("{n}", str(self._name())))

    def json(
        self, fields: list[tuple[str, Kind, bool, str | None]], chance: random.Random
    ) -> tuple[Any, Any]:
        """A JSON object for a record, and what it means."""
        texts, values, missing = dict[str, Any](), dict[str, Any](), list[str]()
        for name, kind, has_default, alias in fields:
            if has_default and chance.random() < 0.3:
                missing.append(name)
                continue
            texts[alias if alias and chance.random() < 0.5 else name], values[name] = kind.json(chance)
        if chance.random() < 0.3:
            texts["extra"] = chance.choice([None, 1, "x", [1, {"a": 2}], {"b": []}])
        return texts, {"...": missing, **values}


def _with_foreign(
    schema: Any, make: Callable[[random.Random], Made]
) -> tuple[Any, Callable[[random.Random], Made]]:
    foreign = {"type": "record", "name": "Foreign{n}", "fields": [{"name": "x", "type": "int"}]}
    branches = schema if isinstance(schema, list) else [schema]

    def made(chance: random.Random) -> Made:
        if chance.random() < 0.2:
            return zigzag(len(branches)) + zigzag(5), REFUSED
        data, value = make(chance)
        return (data if isinstance(schema, list) else zigzag(0) + data), value

    return [*branches, foreign], made


def _blocks(chance: random.Random, items: list[Made], kind: type[list[Any]]) -> Made:
    data, rest = b"", items
    while rest:
        count = chance.randint(1, len(rest))
        block = b"".join(part for part, _ in rest[:count])
        data += (
            zigzag(-count) + zigzag(len(block)) + block if chance.random() < 0.3 else zigzag(count) + block
        )
        rest = rest[count:]
    values = [value for _, value in items]
    return data + zigzag(0), REFUSED if any(value is REFUSED for value in values) else kind(values)


def _unmarked(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type, and the markers that stand around a whole field."""
    markers = tuple(each for each in getattr(annotation, "__metadata__", ()) if isinstance(each, TimeOf))
    inner = annotation.__origin__ if markers else annotation
    return inner, markers


def _marked(annotation: Any, markers: tuple[Any, ...]) -> Any:
    return Annotated[annotation, *markers] if markers else annotation


def _has_record(annotation: Any) -> bool:
    inner = _plain(annotation)
    return dataclasses.is_dataclass(inner) or any(map(_has_record, getattr(inner, "__args__", ())))


def _is_optional(annotation: Any) -> bool:
    return type(None) in getattr(annotation, "__args__", ())


@cache
def _members() -> dict[str, Tariff]:
    return {member.value: member for member in Tariff}


def _same(value: Any) -> Callable[[], Any]:
    return lambda: value


def _python(kind: Kind, value: Any) -> Any:
    """A meaning as a value of the declared type, for a default."""
    return _valued(_unmarked(kind.annotation)[0], value)


def _valued(annotation: Any, value: Any) -> Any:
    if value is None:
        return None
    if annotation is Tariff:
        return _members()[value]
    if dataclasses.is_dataclass(annotation):
        hints = {field.name: field.type for field in dataclasses.fields(annotation)}
        given = {name: _valued(_plain(hints[name]), each) for name, each in value.items() if name != "..."}
        return annotation(**given)  # pyright: ignore[reportCallIssue]
    inner = [each for each in getattr(annotation, "__args__", ()) if each is not type(None)]
    if isinstance(value, list):
        return [_valued(_plain(inner[0]), item) for item in value]
    if isinstance(value, dict):
        return {key: _valued(_plain(inner[1]), item) for key, item in value.items()}
    if inner:
        return _valued(_plain(inner[0]), value)
    return value


def _plain(annotation: Any) -> Any:
    return annotation.__origin__ if hasattr(annotation, "__metadata__") else annotation


def comparable(value: Any) -> Any:
    """A value of either decoder in a form that can be compared: a NaN is itself, and -0.0 is not 0.0."""
    if dataclasses.is_dataclass(value):
        return {field.name: comparable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return ("nan",) if value != value else (struct.pack("<d", value),)
    if isinstance(value, Decimal):
        return ("decimal", value.normalize() if value else Decimal(0), str(value.is_signed() and bool(value)))
    if isinstance(value, datetime):
        return (value - EPOCH).total_seconds(), value.microsecond
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):  # Arrow's maps
            return {key: comparable(item) for key, item in value}
        return [comparable(item) for item in value]
    if isinstance(value, dict):  # Arrow's empty maps look like empty lists
        return {key: comparable(item) for key, item in value.items()} or []
    return value


def means(value: Any, meant: Any) -> bool:
    """Whether a decoded value is what its record means; what the writer left out has its default."""
    if isinstance(meant, dict) and "..." in meant:
        got = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return all(name in meant["..."] or means(item, meant[name]) for name, item in got.items())
    if isinstance(meant, list):
        return len(value) == len(meant) and all(map(means, value, meant))
    if isinstance(meant, dict):
        return value.keys() == meant.keys() and all(means(value[key], meant[key]) for key in meant)
    return comparable(value) == comparable(meant)


def damaged(chance: random.Random, data: bytes) -> bytes:
    """The bytes with one to three of them changed, lost or added."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(out) + 1)
        what = chance.random()
        if what < 0.6 and at < len(out):
            out[at] = chance.choice([chance.randrange(256), out[at] ^ 1 << chance.randrange(8)])
        elif what < 0.8:
            del out[at : at + chance.randint(1, 3)]
        else:
            out[at:at] = chance.choice([chance.randbytes(1), b"\xff" * 9, b"\x80\x00", b"\x00"])
    return bytes(out)


_AWKWARD = [
    b"1e999", b"1E400", b"-0", b"-0.0", b"1.0", b"1.5", b"01", b"+1", b".5", b"5.", b"NaN", b"Infinity", b"null",
    b"true", b"True", b"'x'", b'"1.239"', b'"1e5"', b'" 1"', b'"1_0"', b'"\\ud800"', b'"\\ud834\\udd1e"', b'"\xff"',
    b"9223372036854775808", b"9007199254740993.0", b"1" * 400, b"1" * 5000, b"0." + b"1" * 5000, b"[]", b"{}", b"[1,]",
    b'"2026-01-31T12:00:00Z"', b'"2026-01-31T12:00Z"', b'"2026-01-31 12:00:00.1234567+01:30"', b'"2026-02-30T00:00:00Z"',
    b'"0001-01-01T00:00:00+01:00"', b'"20260131T120000Z"', b'"2026-W05-6"', b'"2026-01-31"', b'"24:00"',
    b'"2026-01-31T12:00:60Z"', b'"2026-01-31T12:00:00+24:00"', b'"QQ=="', b'"QQ="', b'"QQ"', b'"QR=="', b'"Q==="',
    b'"day"', b'"DAY"', b"[" * 120 + b"]" * 120, b"1e9999999999999999999", b'"1e9999999999"', b'"0e999999999"',
    b'"1e-999999999"', b'"' + b"1" * 1001 + b'"', b"// x", b'"a\nb"', b'"\\x"',
]  # fmt: skip


def awkward(chance: random.Random, datum: Any) -> bytes:
    """A JSON text with a value in it that decoders are known to disagree on, or something else amiss."""
    text = json.dumps(datum, ensure_ascii=chance.random() < 0.3).encode()
    what = chance.random()
    if what < 0.5 and isinstance(datum, dict) and datum:
        name = chance.choice(list(datum))
        marker = "\u0001here\u0001"
        text = json.dumps({**datum, name: marker}, ensure_ascii=False).encode()
        return text.replace(json.dumps(marker).encode(), chance.choice(_AWKWARD))
    if what < 0.6 and isinstance(datum, dict) and datum:
        name = chance.choice(list(datum))
        return text[:-1] + b", " + json.dumps(name).encode() + b": " + chance.choice(_AWKWARD) + b"}"
    if what < 0.7 and isinstance(datum, dict) and datum:
        return json.dumps({name: item for name, item in datum.items() if chance.random() < 0.7}).encode()
    if what < 0.75:
        return text + chance.choice([b" ", b"x", b"{}", b",", b"\n", b"\x00"])
    if what < 0.8:
        return chance.choice([b"\xef\xbb\xbf", b" ", b"[", b"\x00"]) + text
    return damaged(chance, text)
