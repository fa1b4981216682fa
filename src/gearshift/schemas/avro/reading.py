"""Compiles a plan of `resolution.py` to a Python function from payloads to values.

It runs for every record of a delivery: generated source takes half the time of reading dicts first.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from gearshift.schemas.avro import bytes as avro
from gearshift.schemas.avro.bytes import Read, unreadable
from gearshift.schemas.avro.resolution import Plan
from gearshift.schemas.encoding import EPOCH, Misfit, fixed
from gearshift.schemas.json import decoding
from gearshift.schemas.shapes import DecimalOf, EnumOf, ListOf, MapOf, OptionalOf, RecordOf, Shape

_LONGEST = 63  # bits before the last seven bits of a 64-bit number
_LARGEST = (1 << 64) - 1
_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
_LOCAL_EPOCH = EPOCH.replace(tzinfo=None)


def reader(plan: Plan, shape: RecordOf) -> Callable[[bytes], Any]:
    """A function from payloads to values, by a plan for this shape; it raises Misfit."""
    compiler = _Compiler(plan["skips"])
    if plan["read"] == "union":  # of several records in one topic
        return _whole(compiler.inner(plan, shape))
    source, make = compiler.fields(plan, shape)
    lines = [
        "def read(data):",
        "    at = 0",
        "    try:",
        *_indented(_indented(["pass", *source.lines])),
        "    except (IndexError, TooShort):",
        "        raise too_early() from None",
        "    if at != len(data):",
        "        raise wrong_length(at - len(data))",
        *_indented(make),
        "    return value",
    ]
    return source.compiled(lines)


def _whole(read: Read) -> Callable[[bytes], Any]:
    def read_whole(data: bytes) -> Any:
        try:
            value, at = read(data, 0)
        except (IndexError, struct.error):
            raise avro.too_early() from None
        if at != len(data):
            raise _wrong_length(at - len(data))
        return value

    return read_whole


def _wrong_length(more: int) -> Misfit:
    if more > 0:  # a text or bytes were truncated
        return avro.too_early()
    return Misfit(f"{-more} bytes are left after the last field")


def _at_field(error: Exception, name: str) -> Misfit:
    """The misfit of a field: its own, for invalid text, or for a time out of range."""
    if isinstance(error, Misfit):
        return error.inside(name)
    if isinstance(error, UnicodeDecodeError):
        return Misfit("is not valid UTF-8", (name,))
    return Misfit("is not between the years 1 and 9999", (name,))


class _Source:
    """The generated source of one record: a function call per field would take twice the time."""

    def __init__(self, value_type: type[Any]) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "long": avro.long,
            "double": struct.Struct("<d").unpack_from,
            "unreadable": unreadable,
            "too_early": avro.too_early,
            "TooShort": struct.error,
            "Misfit": Misfit,
            "NotText": UnicodeDecodeError,
            "at_field": _at_field,
            "wrong_length": _wrong_length,
            "refused": decoding.refused,
            "EPOCH": EPOCH,
            "timedelta": timedelta,
            "value_type": value_type,
        }

    def compiled(self, lines: list[str]) -> Any:
        """Compile the lines and return their function `read`."""
        exec("\n".join(lines), self.names)
        return self.names["read"]


class _Compiler:
    def __init__(self, skips: Mapping[str, Any]) -> None:
        self.skips = skips

    def fields(self, plan: Plan, shape: RecordOf) -> tuple[_Source, list[str]]:
        """The source that reads the fields of a record at `data[at]`, and the lines that build `value` from them."""
        source = _Source(shape.type)
        planned: list[tuple[int, Plan]] = plan["fields"]
        for number, (target, field) in enumerate(planned):
            if target < 0:
                source.names[f"skip_{number}"] = avro.skipper(field, self.skips)
                source.lines.append(f"at = skip_{number}(data, at, 0)")
                continue
            name = shape.fields[target].name
            lines = self.lines(field, shape.fields[target].shape, f"field_{target}", source.names)
            failed = [
                "except (Misfit, NotText, OverflowError) as error:",
                f"    raise at_field(error, {name!r}) from None",
            ]
            source.lines += ["try:", *_indented(lines), *failed]
        # Positional arguments if possible: they take half the time.
        given = {target for target, _ in planned if target >= 0}
        names = [field.name for field in shape.fields]
        in_order = names == [each.name for each in dataclasses.fields(shape.type) if not each.kw_only]
        arguments = [
            f"field_{n}" if in_order and len(given) == len(names) else f"{name}=field_{n}"
            for n, name in enumerate(names)
            if n in given  # the others have defaults
        ]
        make = ["try:", f"    value = value_type({', '.join(arguments)})"]
        return source, [
            *make,
            "except Exception as error:",
            "    raise refused(value_type, error) from error",
        ]

    def lines(self, plan: Plan, shape: Shape, to: str, given: dict[str, Any]) -> list[str]:
        """The lines that read the value at `data[at]` into a variable; the functions they call are added to `given`."""
        match plan:
            case {"read": "union", "branches": branches}:
                lines = ["branch, at = (data[at] >> 1, at + 1) if data[at] in (0, 2) else long(data, at)"]
                for number, branch in enumerate(branches):
                    read = self.lines(branch, shape, f"{to}_{number}", given)
                    lines += [f"{'elif' if number else 'if'} branch == {number}:", *_indented(read)]
                    lines.append(f"    {to} = {to}_{number}")
                return [*lines, "else:", '    raise unreadable(f"no branch {branch}")']
            case {"read": "null"}:
                return [f"{to} = None"]
            case {"read": "string"}:
                return [*_LENGTH, f"{to} = data[at:end].decode()", "at = end"]
            case {"read": "bytes"}:
                return [*_LENGTH, f"{to} = data[at:end]", "at = end"]
            case {"read": "long"}:
                return [*_NUMBER, f"{to} = (number >> 1) ^ -(number & 1)"]
            case {"read": "timestamp", "of": "long", "unit": "us", "zone": None}:
                return [*_NUMBER, f"{to} = EPOCH + timedelta(0, 0, (number >> 1) ^ -(number & 1))"]
            case {"read": "double", "of": "double"}:
                return [f"({to},) = double(data, at)", "at += 8"]
            case _:
                given[f"read_{to}"] = self.read(plan, shape)
                return [f"{to}, at = read_{to}(data, at)"]

    def read(self, plan: Plan, shape: Shape) -> Read:
        """A function for values that are too rare or too large for generated lines."""
        if isinstance(shape, OptionalOf):
            shape = shape.item
        match plan["read"]:
            case "record":
                return self._record(plan, cast("RecordOf", shape))
            case "array":
                return _list(self.inner(plan["items"], cast("ListOf", shape).item))
            case "map":
                return _map(self.inner(plan["items"], cast("MapOf", shape).value))
            case "refuse":
                return _refuse(plan["reason"])
            case "enum":
                return _symbol(plan["symbols"])
            case "member":
                to_member = decoding.decoder(cast("EnumOf", shape), decoding.JSON)
                return _converted(self.read(plan["of"], shape), to_member)
            case "decimal":
                octets = self.read(plan["of"], shape)
                return _converted(octets, _decimal(plan["written_scale"], cast("DecimalOf", shape)))
            case "uuid":
                return _converted(avro.fixed(16), lambda octets: str(UUID(bytes=octets)))
            case "fixed":
                return avro.fixed(plan["size"])
            case "double":
                return _converted(_NUMBERS[plan["of"]], float)
            case "count":
                return _converted(_NUMBERS[plan["of"]], _count(_NANOS[plan["unit"]], _NANOS[plan["in"]]))
            case "timestamp":
                return _converted(_NUMBERS[plan["of"]], _instant(_NANOS[plan["unit"]], plan["zone"]))
            case "date":
                return _converted(avro.integer, lambda days: (EPOCH + timedelta(days=days)).date())
            case kind:
                return _LEAVES[kind]

    def inner(self, plan: Plan, shape: Shape) -> Read:
        """A function that reads an item and raises Misfit itself."""
        source = _Source(object)
        lines = self.lines(plan, shape, "value", source.names)
        return source.compiled(
            [
                "def read(data, at):",
                "    try:",
                *_indented(_indented(lines)),
                "        return value, at",
                "    except NotText:",
                '        raise Misfit("is not valid UTF-8") from None',
                "    except OverflowError:",
                '        raise Misfit("is not between the years 1 and 9999") from None',
            ]
        )

    def _record(self, plan: Plan, shape: RecordOf) -> Read:
        source, make = self.fields(plan, shape)
        lines = ["def read(data, at):", *_indented([*source.lines, *make]), "    return value, at"]
        return source.compiled(lines)


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


# A zigzag-encoded number, inlined because calling `long` for each takes longer.
_NUMBER = [
    "number = data[at]",
    "at += 1",
    "if number > 127:",
    "    number &= 127",
    "    shift = 7",
    "    while (byte := data[at]) > 127:",
    "        number |= (byte & 127) << shift",
    "        at += 1",
    "        shift += 7",
    f"        if shift > {_LONGEST}:",
    '            raise unreadable("a number has more than 64 bits")',
    "    number |= byte << shift",
    "    at += 1",
    f"    if number > {_LARGEST}:",
    '        raise unreadable("a number has more than 64 bits")',
]
# The end of a text or bytes.
_LENGTH = [
    *_NUMBER,
    "if number & 1:",
    '    raise unreadable("a length is negative")',
    "end = at + (number >> 1)",
    "if end > len(data):",
    "    raise too_early()",
]

_LEAVES: dict[str, Read] = {
    "null": lambda data, at: (None, at),
    "boolean": avro.boolean,
    "int": avro.integer,
    "long": avro.long,
    "string": avro.text,
    "bytes": avro.octets,
}
_NUMBERS: dict[str, Read] = {
    "int": avro.integer,
    "long": avro.long,
    "float": avro.single,
    "double": avro.double,
}


def _converted(read: Read, convert: Callable[[Any], Any]) -> Read:
    def read_converted(data: bytes, at: int) -> tuple[Any, int]:
        datum, at = read(data, at)
        return convert(datum), at

    return read_converted


def _refuse(reason: str) -> Read:
    def read(_data: bytes, _at: int) -> tuple[Any, int]:
        raise Misfit(reason)

    return read


def _symbol(symbols: list[str]) -> Read:
    number = avro.index(len(symbols), "symbol")

    def read(data: bytes, at: int) -> tuple[str, int]:
        found, at = number(data, at)
        return symbols[found], at

    return read


def _decimal(written_scale: int, shape: DecimalOf) -> Callable[[bytes], Decimal]:
    exact = fixed(shape)
    # Shifting the point needs no rounding, but the default context would round to 28 digits.
    exactly = Context(prec=3 * decoding.LONGEST_NUMBER)

    def to_decimal(octets: bytes) -> Decimal:
        if len(octets) > decoding.LONGEST_NUMBER:  # a longer number would take minutes to compute
            raise Misfit(f"has too many digits for decimal({shape.precision}, {shape.scale})")
        number = Decimal(int.from_bytes(octets, "big", signed=True))
        return exact(number.scaleb(-written_scale, exactly))

    return to_decimal


def _count(nanos: int, wanted: int) -> Callable[[int], int]:
    def to_count(number: int) -> int:
        count, rest = divmod(number * nanos, wanted)
        if rest:
            raise Misfit("is more precise than the declared unit")
        if not -(2**63) <= count < 2**63:
            raise Misfit("does not fit in 64 bits")
        return count

    return to_count


def _instant(nanos: int, zone: str | None) -> Callable[[int], datetime]:
    """Nanoseconds are truncated to microseconds, the precision of datetime."""
    where = ZoneInfo(zone) if zone else None

    def to_instant(number: int) -> datetime:
        since = timedelta(microseconds=number * nanos // 1000)
        if where is None:
            return EPOCH + since
        return (_LOCAL_EPOCH + since).replace(tzinfo=where).astimezone(UTC)

    return to_instant


def _list(read_item: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        count, at = avro.block(data, at)
        while count:
            for _ in range(count):
                try:
                    item, at = read_item(data, at)
                except Misfit as misfit:
                    raise misfit.inside(f"[{len(items)}]") from None
                items.append(item)
            count, at = avro.block(data, at)
        return items, at

    return read


def _map(read_value: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        entries: dict[str, Any] = {}
        count, at = avro.block(data, at)
        while count:
            for _ in range(count):
                key, at = avro.text(data, at)
                try:
                    entries[key], at = read_value(data, at)
                except Misfit as misfit:
                    raise misfit.inside(f"[{key!r}]") from None
            count, at = avro.block(data, at)
        return entries, at

    return read
