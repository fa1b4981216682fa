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
_TOO_MANY = 1 << 20  # items that take no bytes at all: a block may claim any number of them


def reader(shape: RecordOf) -> Callable[[bytes], Any]:
    """A function from payloads of this shape to values; it raises Misfit."""
    read = _record(shape)

    def to_value(payload: bytes) -> Any:
        try:
            value, end = read(payload, 0)
        except (IndexError, struct.error):
            raise Misfit("not readable as Avro: it ends too early") from None
        except (UnicodeDecodeError, OverflowError, ValueError) as error:
            raise Misfit(f"not readable as Avro: {error}") from None
        if end != len(payload):
            raise Misfit(f"{len(payload) - end} bytes are left after the last field")
        return value

    return to_value


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


def _field(field: Field) -> Read:
    if isinstance(field.shape, OptionalOf) and field.has_default and field.default is not None:
        return _union((_of(field.shape.item), None))  # as the schema has it: the branch of the default first
    return _of(field.shape)


def _record(shape: RecordOf) -> Read:
    names = [field.name for field in shape.fields]
    fields = [_field(field) for field in shape.fields]
    value_type = shape.type
    in_order = names == [each.name for each in dataclasses.fields(value_type) if not each.kw_only]

    def read(data: bytes, at: int) -> tuple[Any, int]:
        found: list[Any] = []
        take = found.append
        try:
            for read_field in fields:
                value, at = read_field(data, at)
                take(value)
        except Misfit as misfit:
            raise misfit.inside(names[len(found)]) from None
        try:
            # By position where that is the same: it takes half the time.
            return value_type(*found) if in_order else value_type(**dict(zip(names, found, strict=True))), at
        except Exception as error:
            raise decoding.refused(value_type, error) from error

    return read


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
