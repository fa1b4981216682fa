"""Decodes payloads of any Avro schema, also one that no app declares, to readable JSON."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable
from typing import Any, cast

from gearshift.schemas.avro import bytes as avro
from gearshift.schemas.avro.bytes import DEEPEST, Read, unreadable
from gearshift.schemas.avro.differences import Parsed
from gearshift.schemas.avro.logical import logical_of
from gearshift.schemas.encoding import Misfit

_Read = Callable[[bytes, int, int], tuple[Any, int]]
"""From the payload, an index and the depth of nesting to the value there and the index behind it."""
_NO_BYTES = (
    10_000  # items of an array that take no bytes, such as nulls: a damaged count could claim billions
)


def reader(schema: Any) -> Callable[[bytes], Any]:
    """A function from payloads to JSON values; it raises Misfit.

    Bytes are base64, decimals text, times ISO 8601 in UTC, and numbers that JSON lacks "NaN" and "Infinity". A value of
    a union of several types other than null is `{"type": value}`, as in Avro's own JSON encoding.

    >>> reader({"type": "record", "name": "Reading", "fields": [{"name": "load_kw", "type": "float"}]})(bytes(4))
    {'load_kw': 0.0}
    """
    parsed = Parsed(schema)
    read = _Reader(parsed).of(parsed.root)

    def datum_of(payload: bytes) -> Any:
        try:
            datum, at = read(payload, 0, 0)
        except (IndexError, struct.error):
            raise avro.too_early() from None
        if at != len(payload):
            raise Misfit(f"{len(payload) - at} bytes are left after the last field")
        return datum

    return datum_of


def branch_name(schema: Any) -> str:
    """The name of a union's branch: its type, or the full name of a record, enum or fixed.

    >>> branch_name({"type": "long", "logicalType": "timestamp-millis"})
    'long'
    """
    if not isinstance(schema, dict):
        return str(schema)
    parts = cast("dict[str, Any]", schema)
    return str(parts.get("name") or parts["type"])


class _Reader:
    def __init__(self, parsed: Parsed) -> None:
        self._parsed = parsed
        self._records: dict[str, _Read] = {}

    def of(self, schema: Any) -> _Read:
        found = self._parsed.resolved(schema)
        if isinstance(found, list):
            return self._union(cast("list[Any]", found))
        if not isinstance(found, dict):
            return _primitive(str(found))
        parts = cast("dict[str, Any]", found)
        match parts["type"]:
            case "record" | "error":
                return self._record(parts)
            case "array":
                return self._array(self.of(parts["items"]))
            case "map":
                return self._map(self.of(parts["values"]))
            case "enum":
                symbols: list[str] = parts["symbols"]
                number = avro.index(len(symbols), "symbol")

                def read_symbol(data: bytes, at: int, _: int) -> tuple[str, int]:
                    index, at = number(data, at)
                    return symbols[index], at

                return read_symbol
            case kind:
                return _scalar(str(kind), parts)

    def _record(self, schema: dict[str, Any]) -> _Read:
        name = str(schema["name"])
        if name not in self._records:
            self._records[name] = _unfinished  # it may contain itself
            fields = [(str(field["name"]), self.of(field["type"])) for field in schema["fields"]]

            def read_record(data: bytes, at: int, depth: int) -> tuple[dict[str, Any], int]:
                if depth > DEEPEST:
                    raise unreadable("it is nested too deeply")
                found: dict[str, Any] = {}
                for name, read in fields:
                    try:
                        found[name], at = read(data, at, depth + 1)
                    except Misfit as misfit:
                        raise misfit.inside(name) from None
                return found, at

            self._records[name] = read_record
        return lambda data, at, depth: self._records[name](data, at, depth)

    def _array(self, item: _Read) -> _Read:
        def read_array(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
            found: list[Any] = []
            while True:
                count, at = _block(data, at, depth)
                if not count:
                    return found, at
                for _ in range(count):
                    _require_room(len(found), data)
                    datum, at = item(data, at, depth + 1)
                    found.append(datum)

        return read_array

    def _map(self, item: _Read) -> _Read:
        def read_map(data: bytes, at: int, depth: int) -> tuple[dict[str, Any], int]:
            found: dict[str, Any] = {}
            while True:
                count, at = _block(data, at, depth)
                if not count:
                    return found, at
                for _ in range(count):
                    key, at = avro.text(data, at)
                    found[key], at = item(data, at, depth + 1)

        return read_map

    def _union(self, branches: list[Any]) -> _Read:
        reads = [self.of(branch) for branch in branches]
        resolved = [self._parsed.resolved(branch) for branch in branches]
        names = [branch_name(branch) for branch in resolved]
        several = len([name for name in names if name != "null"]) > 1
        number = avro.index(len(branches), "branch")

        def read_union(data: bytes, at: int, depth: int) -> tuple[Any, int]:
            index, at = number(data, at)
            datum, at = reads[index](data, at, depth)
            return {names[index]: datum} if several and names[index] != "null" else datum, at

        return read_union


def _block(data: bytes, at: int, depth: int) -> tuple[int, int]:
    if depth > DEEPEST:
        raise unreadable("it is nested too deeply")
    return avro.block(data, at, empty=True)


def _require_room(items: int, data: bytes) -> None:
    if items > len(data) + _NO_BYTES:
        raise unreadable("a block claims more items than it can hold")


def _unfinished(_data: bytes, _at: int, _depth: int) -> tuple[Any, int]:
    raise AssertionError("a record is read before its fields are known")


def _scalar(kind: str, schema: dict[str, Any]) -> _Read:
    logical = logical_of(schema)
    if logical is None:
        return _primitive(kind, schema.get("size"))
    stored = avro.fixed(schema["size"]) if kind == "fixed" else _PRIMITIVES[kind]
    show = logical.show

    def read_logical(data: bytes, at: int, _: int) -> tuple[Any, int]:
        datum, at = stored(data, at)
        return show(datum), at

    return read_logical


def _primitive(kind: str, size: int | None = None) -> _Read:
    read = avro.fixed(size or 0) if kind == "fixed" else _PRIMITIVES.get(kind)
    if read is None:
        raise Misfit(f"the schema has an unknown type {kind!r}")
    convert = _READABLE.get(kind)
    if convert is None:
        return lambda data, at, _: read(data, at)

    def read_converted(data: bytes, at: int, _: int) -> tuple[Any, int]:
        datum, at = read(data, at)
        return convert(datum), at

    return read_converted


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")


def _number(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


_PRIMITIVES: dict[str, Read] = {
    "null": lambda _, at: (None, at),
    "boolean": avro.boolean,
    "int": avro.integer,
    "long": avro.long,
    "float": avro.single,
    "double": avro.double,
    "bytes": avro.octets,
    "string": avro.text,
}
_READABLE: dict[str, Callable[[Any], Any]] = {
    "bytes": _base64,
    "fixed": _base64,
    "float": _number,
    "double": _number,
}
