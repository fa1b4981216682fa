"""Encodes readable JSON, as `to_json` gives it, to payloads of any Avro schema."""

from __future__ import annotations

import base64
import binascii
import difflib
import math
import struct
from collections.abc import Callable, Iterable
from typing import Any, cast

from gearshift.schemas.avro.bytes import DEEPEST
from gearshift.schemas.avro.differences import MEMBERS, Parsed
from gearshift.schemas.avro.logical import logical_of
from gearshift.schemas.avro.to_json import branch_name
from gearshift.schemas.encoding import Misfit, is_a
from gearshift.schemas.json.decoding import integer, text

_Write = Callable[[Any, bytearray, int], None]
"""Appends the encoded datum; the last argument is the depth of nesting."""
_INT = range(-(2**31), 2**31)
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def writer(schema: Any) -> Callable[[Any], bytes]:
    """A function from JSON values to payloads; it raises Misfit, with the field.

    >>> write = writer({"type": "record", "name": "Reading", "fields": [{"name": "load_kw", "type": "float"}]})
    >>> write({"load_kw": 0})
    b'\\x00\\x00\\x00\\x00'
    >>> write({"load_kw": "2"})
    Traceback (most recent call last):
    gearshift.schemas.encoding.Misfit: field load_kw: is str, not a number
    """
    parsed = Parsed(schema)
    write = _Writer(parsed).of(parsed.root)

    def payload_of(datum: Any) -> bytes:
        out = bytearray()
        write(datum, out, 0)
        return bytes(out)

    return payload_of


def unknown_field(owner: str, name: str, names: Iterable[str]) -> Misfit:
    """The misfit for a field that a schema does not have, with a suggestion."""
    known = list(names)
    near = difflib.get_close_matches(name, known, 1)
    meant = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
    return Misfit(f"{owner} has no such field; {meant}", (name[:100],))


class _Writer:
    """Builds the functions of one schema; `raw` is how schemas write defaults: stored values, bytes as characters."""

    def __init__(self, parsed: Parsed, *, raw: bool = False) -> None:
        self._parsed = parsed
        self._raw = raw
        self._records: dict[str, _Write] = {}

    def of(self, schema: Any) -> _Write:
        found = self._parsed.resolved(schema)
        if isinstance(found, list):
            return self._union(cast("list[Any]", found))
        if not isinstance(found, dict):
            return self._primitive(str(found), {})
        parts = cast("dict[str, Any]", found)
        match parts["type"]:
            case "record" | "error":
                return self._record(parts)
            case "array":
                return self._array(self.of(parts["items"]))
            case "map":
                return self._map(self.of(parts["values"]))
            case "enum":
                return _symbol(parts["symbols"])
            case kind:
                return self._scalar(str(kind), parts)

    def _record(self, schema: dict[str, Any]) -> _Write:
        name, fields = str(schema["name"]), cast("list[dict[str, Any]]", schema["fields"])
        if name in self._records:
            return lambda datum, out, depth: self._records[name](datum, out, depth)
        self._records[name] = _unfinished  # it may contain itself
        names = [str(field["name"]) for field in fields]
        writes = [self.of(field["type"]) for field in fields]
        defaults: dict[str, bytes] = {}

        def write_record(datum: Any, out: bytearray, depth: int) -> None:
            if not isinstance(datum, dict):
                raise is_a(datum, "an object")
            given = cast("dict[str, Any]", datum)
            _require_shallow(depth)
            for name in given:
                if name not in names:
                    raise unknown_field(str(schema["name"]).rpartition(".")[2], name, names)
            for name, write, field in zip(names, writes, fields, strict=True):
                if name not in given:
                    if name not in defaults:
                        defaults[name] = self._default(field)
                    out += defaults[name]
                    continue
                try:
                    write(given[name], out, depth + 1)
                except Misfit as misfit:
                    raise misfit.inside(name) from None

        self._records[name] = write_record
        return write_record

    def _default(self, field: dict[str, Any]) -> bytes:
        if "default" not in field:
            raise Misfit("is missing", (str(field["name"]),))
        out = bytearray()
        try:
            _Writer(self._parsed, raw=True).of(field["type"])(field["default"], out, 0)
        except Misfit as misfit:
            raise Misfit(f"is missing, and its default is invalid: {misfit}", (str(field["name"]),)) from None
        return bytes(out)

    def _array(self, item: _Write) -> _Write:
        def write_array(datum: Any, out: bytearray, depth: int) -> None:
            if not isinstance(datum, list):
                raise is_a(datum, "a list")
            items = cast("list[Any]", datum)
            _require_shallow(depth)
            if items:
                _put_long(len(items), out)
            for index, each in enumerate(items):
                try:
                    item(each, out, depth + 1)
                except Misfit as misfit:
                    raise misfit.inside(f"[{index}]") from None
            out.append(0)

        return write_array

    def _map(self, item: _Write) -> _Write:
        def write_map(datum: Any, out: bytearray, depth: int) -> None:
            if not isinstance(datum, dict):
                raise is_a(datum, "an object")
            entries = cast("dict[str, Any]", datum)
            _require_shallow(depth)
            if entries:
                _put_long(len(entries), out)
            for key, each in entries.items():
                try:
                    _put_octets(_utf8(key), out)
                    item(each, out, depth + 1)
                except Misfit as misfit:
                    raise misfit.inside(f"[{key!r}]") from None
            out.append(0)

        return write_map

    def _union(self, branches: list[Any]) -> _Write:
        writes = [self.of(branch) for branch in branches]
        names = [branch_name(self._parsed.resolved(branch)) for branch in branches]
        others = [index for index, name in enumerate(names) if name != "null"]

        def attempt(index: int, datum: Any, depth: int) -> bytearray:
            made = bytearray()
            _put_long(index, made)
            writes[index](datum, made, depth)
            return made

        def write_union(datum: Any, out: bytearray, depth: int) -> None:
            if datum is None and "null" in names:
                _put_long(names.index("null"), out)
                return
            if not others:
                raise is_a(datum, "null")
            if len(others) == 1:
                out += attempt(others[0], datum, depth)
                return
            named = _only_name(datum)
            if named in names and not self._raw:
                try:
                    out += attempt(names.index(named), cast("dict[str, Any]", datum)[named], depth)
                    return
                except Misfit as misfit:
                    inner = misfit.inside(named)
                    if not any(isinstance(self._parsed.resolved(each), dict) for each in branches):
                        raise inner from None
            for index in others:
                try:
                    out += attempt(index, datum, depth)
                    return
                except Misfit:
                    continue
            raise Misfit(f'fits none of {", ".join(names)}; name the type, as in {{"{names[others[0]]}": …}}')

        return write_union

    def _scalar(self, kind: str, schema: dict[str, Any]) -> _Write:
        logical = None if self._raw else logical_of(schema)
        if logical is None:
            return self._primitive(kind, schema)
        store, put = logical.store, _STORED[kind]

        def write_logical(datum: Any, out: bytearray, _: int) -> None:
            put(store(datum), out)

        return write_logical

    def _primitive(self, kind: str, schema: dict[str, Any]) -> _Write:
        if kind in ("bytes", "fixed"):
            octets = _characters if self._raw else _from_base64
            size = schema.get("size") if kind == "fixed" else None

            def write_octets(datum: Any, out: bytearray, _: int) -> None:
                found = octets(datum)
                if size is not None and len(found) != size:
                    raise Misfit(f"has {len(found)} bytes, not {size}")
                _STORED[kind](found, out)

            return write_octets
        if kind == "string" and not self._raw and MEMBERS in schema:
            return _member(schema[MEMBERS])
        if kind not in _PRIMITIVES:
            raise Misfit(f"the schema has an unknown type {kind!r}")
        put = _PRIMITIVES[kind]
        return lambda datum, out, _: put(datum, out)


def _only_name(datum: Any) -> str:
    return (
        next(iter(cast("dict[str, Any]", datum)))
        if isinstance(datum, dict) and len(cast("Any", datum)) == 1
        else ""
    )


def _unfinished(_datum: Any, _out: bytearray, _depth: int) -> None:
    raise AssertionError("a record is written before its fields are known")


def _require_shallow(depth: int) -> None:
    if depth > DEEPEST:
        raise Misfit("is nested too deeply")


def _symbol(symbols: list[str]) -> _Write:
    def write_symbol(datum: Any, out: bytearray, _: int) -> None:
        if text(datum) not in symbols:
            raise Misfit(f"{datum!r} is not one of {', '.join(symbols)}")
        _put_long(symbols.index(datum), out)

    return write_symbol


def _member(members: list[str]) -> _Write:
    def write_member(datum: Any, out: bytearray, _: int) -> None:
        if text(datum) not in members:
            raise Misfit(f"{datum!r} is not one of {', '.join(members)}")
        _put_octets(_utf8(datum), out)

    return write_member


def _utf8(written: str) -> bytes:
    try:
        return written.encode("utf-8")
    except UnicodeEncodeError:
        raise Misfit("is not valid Unicode text") from None


def _from_base64(datum: Any) -> bytes:
    try:
        return base64.b64decode(text(datum), validate=True)
    except (binascii.Error, ValueError):
        raise Misfit("is not base64") from None


def _characters(datum: Any) -> bytes:
    try:
        return text(datum).encode("latin-1")
    except UnicodeEncodeError:
        raise Misfit("has characters that are not bytes") from None


def _put_long(number: int, out: bytearray) -> None:
    zigzag = (number << 1) ^ (number >> 63)
    while zigzag > 127:
        out.append(zigzag & 127 | 128)
        zigzag >>= 7
    out.append(zigzag)


def _put_octets(octets: bytes, out: bytearray) -> None:
    _put_long(len(octets), out)
    out += octets


def _put_null(datum: Any, _: bytearray) -> None:
    if datum is not None:
        raise is_a(datum, "null")


def _put_boolean(datum: Any, out: bytearray) -> None:
    if type(datum) is not bool:
        raise is_a(datum, "a boolean")
    out.append(datum)


def _put_int(datum: Any, out: bytearray) -> None:
    number = integer(datum)
    if number not in _INT:
        raise Misfit("does not fit in 32 bits")
    _put_long(number, out)


def _number(datum: Any) -> float:
    if isinstance(datum, str) and datum in _WORDS:
        return _WORDS[datum]
    if isinstance(datum, bool) or not isinstance(datum, int | float):
        raise is_a(datum, "a number")
    try:
        return float(datum)
    except OverflowError:
        raise Misfit("is too large for a double") from None


def _put_float(datum: Any, out: bytearray) -> None:
    try:
        out += struct.pack("<f", _number(datum))
    except OverflowError:
        raise Misfit("is too large for a 32-bit float") from None


_PRIMITIVES: dict[str, Callable[[Any, bytearray], None]] = {
    "null": _put_null,
    "boolean": _put_boolean,
    "int": _put_int,
    "long": lambda datum, out: _put_long(integer(datum), out),
    "float": _put_float,
    "double": lambda datum, out: out.extend(struct.pack("<d", _number(datum))),
    "string": lambda datum, out: _put_octets(_utf8(text(datum)), out),
}
_STORED: dict[str, Callable[[Any, bytearray], None]] = {
    "int": _put_long,
    "long": _put_long,
    "bytes": _put_octets,
    "fixed": lambda octets, out: out.extend(octets),
}
