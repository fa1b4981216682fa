"""Reads Avro payloads of our own schema straight into values, faster than by way of a dict.

This runs for every record of a delivery. Payloads written with another version are resolved by fastavro.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from gearshift.schemas import decoding
from gearshift.schemas.encoding import EPOCH, Misfit
from gearshift.schemas.shapes import (
    DecimalOf,
    EnumOf,
    Field,
    ListOf,
    MapOf,
    OptionalOf,
    RecordOf,
    Scalar,
    Shape,
)

Read = Callable[[bytes, int], tuple[Any, int]]
"""From the payload and a place in it to what is there and the place behind it."""

_DOUBLE = struct.Struct("<d")
_LONGEST = 63  # bits before the last seven of a number of 64
_LARGEST = (1 << 64) - 1
_TOO_MANY = 1 << 20  # items that take no bytes at all: a block may claim any number of them


def reader(shape: RecordOf) -> Callable[[bytes], Any]:
    """A function from payloads of this shape to values; it raises Misfit."""
    read, make = _fields(shape)
    lines = [
        "def read(data):",
        "    at = 0",
        "    try:",
        *_indented(_indented(read.lines)),
        "    except (IndexError, TooShort):",
        '        raise Misfit("not readable as Avro: it ends too early") from None',
        "    except (OverflowError, ValueError) as error:",
        '        raise Misfit(f"not readable as Avro: {error}") from None',
        "    if at != len(data):",
        "        raise unlike(at - len(data))",
        *_indented(make),
        "    return value",
    ]
    return read.compiled(lines)


def _unlike(more: int) -> Misfit:
    if more > 0:  # a text or bytes were cut off
        return Misfit("not readable as Avro: it ends too early")
    return Misfit(f"{-more} bytes are left after the last field")


def _of(shape: Shape) -> Read:
    if isinstance(shape, Scalar):
        return _SCALARS[shape]
    if isinstance(shape, DecimalOf):
        return _converted(_octets, decoding.AVRO.decimal(shape))
    if isinstance(shape, EnumOf):
        return _converted(_text, decoding.decoder(shape, decoding.AVRO))
    if isinstance(shape, ListOf):
        return _list(_of(shape.item))
    if isinstance(shape, MapOf):
        return _map(_of(shape.value))
    if isinstance(shape, OptionalOf):
        return _union((None, _of(shape.item)))
    return _record(shape)


def _record(shape: RecordOf) -> Read:
    read, make = _fields(shape)
    lines = ["def read(data, at):", *_indented([*read.lines, *make]), "    return value, at"]
    return read.compiled(lines)


class _Source:
    """Lines that are written for one record: a call for each field would take twice the time."""

    def __init__(self, value_type: type[Any]) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "long": _long,
            "double": _DOUBLE.unpack_from,
            "Misfit": Misfit,
            "TooShort": struct.error,
            "unlike": _unlike,
            "refused": decoding.refused,
            "EPOCH": EPOCH,
            "timedelta": timedelta,
            "value_type": value_type,
        }

    def compiled(self, lines: list[str]) -> Any:
        """The function `read` of these lines."""
        exec("\n".join(lines), self.names)
        return self.names["read"]


def _fields(shape: RecordOf) -> tuple[_Source, list[str]]:
    """What reads the fields of a record from `at` of `data`, and the lines that make `value` of them."""
    names = [field.name for field in shape.fields]
    in_order = names == [each.name for each in dataclasses.fields(shape.type) if not each.kw_only]
    source = _Source(shape.type)
    for number, field in enumerate(shape.fields):
        lines = _source(_branches(field), f"field_{number}", source.names)
        failed = ["except Misfit as misfit:", f"    raise misfit.inside({field.name!r}) from None"]
        source.lines += ["try:", *_indented(lines), *failed]
    # By position where that is the same: it takes half the time.
    arguments = [f"field_{n}" if in_order else f"{name}=field_{n}" for n, name in enumerate(names)]
    make = ["try:", f"    value = value_type({', '.join(arguments)})"]
    return source, [*make, "except Exception as error:", "    raise refused(value_type, error) from error"]


def _branches(field: Field) -> list[Shape | None]:
    """What a field may hold, in the order of the schema's union: the branch of its default comes first."""
    if not isinstance(field.shape, OptionalOf):
        return [field.shape]
    if field.has_default and field.default is not None:
        return [field.shape.item, None]
    return [None, field.shape.item]


def _source(branches: list[Shape | None], to: str, given: dict[str, Any]) -> list[str]:
    """The lines that read what is at `at` of `data`, into a variable; what they call is added to `given`."""
    if len(branches) > 1:
        lines = ["branch, at = (data[at] >> 1, at + 1) if data[at] in (0, 2) else long(data, at)"]
        for number, shape in enumerate(branches):
            read = [f"{to} = None"] if shape is None else _source([shape], to, given)
            lines += [f"{'elif' if number else 'if'} branch == {number}:", *_indented(read)]
        return [*lines, "else:", '    raise Misfit(f"not readable as Avro: no branch {branch}")']
    shape = branches[0]
    assert shape is not None
    if shape is Scalar.STRING:
        return [*_LENGTH, f"{to} = data[at:end].decode()", "at = end"]
    if shape is Scalar.BYTES:
        return [*_LENGTH, f"{to} = data[at:end]", "at = end"]
    if shape is Scalar.LONG:
        return [*_NUMBER, f"{to} = (number >> 1) ^ -(number & 1)"]
    if shape is Scalar.TIMESTAMP:
        return [*_NUMBER, f"{to} = EPOCH + timedelta(0, 0, (number >> 1) ^ -(number & 1))"]
    if shape is Scalar.DOUBLE:
        return [f"({to},) = double(data, at)", "at += 8"]
    if shape is Scalar.BOOLEAN:
        return [f"{to} = data[at] != 0", "at += 1"]
    given[f"read_{to}"] = _of(shape)
    return [f"{to}, at = read_{to}(data, at)"]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


# A number before the sign is made of its last bit; `long` would be a call for each.
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
    '            raise Misfit("not readable as Avro: a number has more than 64 bits")',
    "    number |= byte << shift",
    "    at += 1",
    f"    if number > {_LARGEST}:",
    '        raise Misfit("not readable as Avro: a number has more than 64 bits")',
]
# Where a text or bytes end. An end behind the payload's is found out by whatever is read next, or at the end.
_LENGTH = [
    *_NUMBER,
    "if number & 1:",
    '    raise Misfit("not readable as Avro: a length is negative")',
    "end = at + (number >> 1)",
]


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 127, 0
    while byte > 127:
        shift += 7
        if shift > _LONGEST:
            raise Misfit("not readable as Avro: a number has more than 64 bits")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
    if value > _LARGEST:
        raise Misfit("not readable as Avro: a number has more than 64 bits")
    return (value >> 1) ^ -(value & 1), at


def _octets(data: bytes, at: int) -> tuple[bytes, int]:
    length = data[at]
    if length < 128:
        length = (length >> 1) ^ -(length & 1)
        at += 1
    else:
        length, at = _long(data, at)
    end = at + length
    if length < 0 or end > len(data):
        raise Misfit("not readable as Avro: it ends too early")
    return data[at:end], end


def _text(data: bytes, at: int) -> tuple[str, int]:
    length = data[at]  # as in _octets: texts are most of most records, and a call is dear
    if length < 128 and not length & 1:
        at += 1
        end = at + (length >> 1)
        if end > len(data):
            raise Misfit("not readable as Avro: it ends too early")
        return data[at:end].decode(), end
    octets, at = _octets(data, at)
    return octets.decode(), at


def _double(data: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE.unpack_from(data, at)[0], at + 8


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    return data[at] != 0, at + 1


def _instant(data: bytes, at: int) -> tuple[Any, int]:
    micros, at = _long(data, at)
    return EPOCH + timedelta(microseconds=micros), at


def _day(data: bytes, at: int) -> tuple[Any, int]:
    days, at = _long(data, at)
    return (EPOCH + timedelta(days=days)).date(), at


_SCALARS: dict[Scalar, Read] = {
    Scalar.STRING: _text,
    Scalar.LONG: _long,
    Scalar.DOUBLE: _double,
    Scalar.BOOLEAN: _boolean,
    Scalar.BYTES: _octets,
    Scalar.TIMESTAMP: _instant,
    Scalar.DATE: _day,
}


def _converted(read: Read, convert: Callable[[Any], Any]) -> Read:
    def read_converted(data: bytes, at: int) -> tuple[Any, int]:
        datum, at = read(data, at)
        return convert(datum), at

    return read_converted


def _union(branches: tuple[Read | None, Read | None]) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        branch, at = _long(data, at)
        if branch not in (0, 1):
            raise Misfit(f"not readable as Avro: no branch {branch}")
        chosen = branches[branch]
        return (None, at) if chosen is None else chosen(data, at)

    return read


def _block(data: bytes, at: int) -> tuple[int, int]:
    """How many items follow; 0 is the end."""
    count, at = _long(data, at)
    if count < 0:  # then the size of the block follows, for readers that skip it
        _, at = _long(data, at)
        count = -count
    if count > len(data) + _TOO_MANY:
        raise Misfit("not readable as Avro: a block claims more items than it can hold")
    return count, at


def _list(read_item: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        count, at = _block(data, at)
        while count:
            for _ in range(count):
                try:
                    item, at = read_item(data, at)
                except Misfit as misfit:
                    raise misfit.inside(f"[{len(items)}]") from None
                items.append(item)
            count, at = _block(data, at)
        return items, at

    return read


def _map(read_value: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        entries: dict[str, Any] = {}
        count, at = _block(data, at)
        while count:
            for _ in range(count):
                key, at = _text(data, at)
                try:
                    entries[key], at = read_value(data, at)
                except Misfit as misfit:
                    raise misfit.inside(f"[{key!r}]") from None
            count, at = _block(data, at)
        return entries, at

    return read
