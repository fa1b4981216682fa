"""Reads and skips Avro's primitive values and blocks in a payload."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from gearshift.schemas.avro.writer import Writer
from gearshift.schemas.encoding import Misfit

Read = Callable[[bytes, int], tuple[Any, int]]
"""From the payload and an index to the value there and the index behind it."""
Skip = Callable[[bytes, int, int], int]
"""From the payload, an index and its nesting depth to the index behind the value."""

DEEPEST = 100
"""Levels of nesting; without a limit, a record of a recursive schema could crash the process."""
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_LONGEST = 63  # bits before the last seven bits of a 64-bit number
_LARGEST = (1 << 64) - 1
_LARGEST_INT = (1 << 31) - 1


def unreadable(reason: str) -> Misfit:
    """The misfit for bytes that do not match the writer's schema."""
    return Misfit(f"not readable as Avro: {reason}")


def too_early() -> Misfit:
    """The misfit for a truncated payload."""
    return unreadable("it ends too early")


def long(data: bytes, at: int) -> tuple[int, int]:
    """A 64-bit integer."""
    byte = data[at]
    at += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 127, 0
    while byte > 127:
        shift += 7
        if shift > _LONGEST:
            raise unreadable("a number has more than 64 bits")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
    if value > _LARGEST:
        raise unreadable("a number has more than 64 bits")
    return (value >> 1) ^ -(value & 1), at


def integer(data: bytes, at: int) -> tuple[int, int]:
    """A 32-bit integer."""
    number, at = long(data, at)
    if not -_LARGEST_INT - 1 <= number <= _LARGEST_INT:
        raise unreadable("a number has more than 32 bits")
    return number, at


def octets(data: bytes, at: int) -> tuple[bytes, int]:
    """Length-prefixed bytes."""
    length, at = long(data, at)
    end = at + length
    if length < 0:
        raise unreadable("a length is negative")
    if end > len(data):
        raise too_early()
    return data[at:end], end


def fixed(size: int) -> Read:
    """A fixed number of bytes."""

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        if at + size > len(data):
            raise too_early()
        return data[at : at + size], at + size

    return read


def text(data: bytes, at: int) -> tuple[str, int]:
    """Length-prefixed text."""
    found, at = octets(data, at)
    try:
        return found.decode(), at
    except UnicodeDecodeError:
        raise Misfit("is not valid UTF-8") from None


def boolean(data: bytes, at: int) -> tuple[bool, int]:
    """One byte, 0 or 1."""
    if data[at] > 1:
        raise unreadable("a boolean is neither 0 nor 1")
    return data[at] == 1, at + 1


def single(data: bytes, at: int) -> tuple[float, int]:
    """A 32-bit floating-point number."""
    return _FLOAT.unpack_from(data, at)[0], at + 4


def double(data: bytes, at: int) -> tuple[float, int]:
    """A 64-bit floating-point number."""
    return _DOUBLE.unpack_from(data, at)[0], at + 8


def index(count: int, what: str) -> Callable[[bytes, int], tuple[int, int]]:
    """The index of a union's branch or of an enum's symbol."""

    def read(data: bytes, at: int) -> tuple[int, int]:
        number, at = long(data, at)
        if not 0 <= number < count:
            raise unreadable(f"no {what} {number}")
        return number, at

    return read


def block(data: bytes, at: int, *, empty: bool = False) -> tuple[int, int]:
    """The number of items in the next block, 0 at the end; non-empty items take at least a byte each."""
    count, at = long(data, at)
    if count < 0:  # then the block's size in bytes follows
        _, at = long(data, at)
        count = -count
    if not empty and count > len(data) - at:
        raise unreadable("a block claims more items than it can hold")
    return count, at


def whole_payload(schema: Any) -> Callable[[bytes], None]:
    """A function that raises Misfit unless a payload is exactly one value of a writer's schema."""
    plan = Writer(schema, checks_texts=True).whole()
    skip = skipper(plan, plan["skips"])

    def check(payload: bytes) -> None:
        try:
            at = skip(payload, 0, 0)
        except (IndexError, struct.error):
            raise too_early() from None
        if at != len(payload):
            raise (
                too_early()
                if at > len(payload)
                else Misfit(f"{len(payload) - at} bytes are left after the last field")
            )

    return check


def skipper(plan: Mapping[str, Any], records: Mapping[str, Mapping[str, Any]]) -> Skip:
    """A function that skips a value by a plan of `resolution.py`; `records` are the plans of named records."""
    made: dict[str, Skip] = {}

    def skip_of(plan: Mapping[str, Any]) -> Skip:
        match plan["skip"]:
            case "null":
                return _nothing
            case "record":
                name = str(plan["name"])
                if name not in made:
                    made[name] = _never  # it may be recursive
                    made[name] = fields_of(records[name])
                return lambda data, at, depth: made[name](data, at, depth)
            case "union":
                branches: list[Skip] = [skip_of(branch) for branch in plan["branches"]]
                number = index(len(branches), "branch")

                def skip_union(data: bytes, at: int, depth: int) -> int:
                    branch, at = number(data, at)
                    return branches[branch](data, at, depth)

                return skip_union
            case "array" | "map" as kind:
                return collection(kind, skip_of(plan["items"]), empty=plan["empty"] and kind == "array")
            case "enum":
                return _past(index(plan["symbols"], "symbol"))
            case "fixed":
                return _past(fixed(plan["size"]))
            case kind:
                return _past(_PRIMITIVES[kind])

    def fields_of(plan: Mapping[str, Any]) -> Skip:
        fields = [skip_of(field) for field in plan["fields"]]

        def skip_fields(data: bytes, at: int, depth: int) -> int:
            if depth > DEEPEST:
                raise unreadable("it is nested too deeply")
            for field in fields:
                at = field(data, at, depth + 1)
            return at

        return skip_fields

    def collection(kind: str, item: Skip, *, empty: bool) -> Skip:
        keyed = kind == "map"

        def skip_items(data: bytes, at: int, depth: int) -> int:
            if depth > DEEPEST:
                raise unreadable("it is nested too deeply")
            while True:
                count, at = block(data, at, empty=empty)
                if not count:
                    return at
                for _ in range(0 if empty else count):
                    if keyed:
                        _, at = octets(data, at)
                    at = item(data, at, depth + 1)

        return skip_items

    return skip_of(plan)


_PRIMITIVES: dict[str, Read] = {
    "boolean": boolean,
    "int": integer,
    "long": long,
    "float": single,
    "double": double,
    "bytes": octets,
    "text": text,
}


def _nothing(_data: bytes, at: int, _depth: int) -> int:
    return at


def _never(_data: bytes, _at: int, _depth: int) -> int:
    raise AssertionError("a record is skipped before its plan is complete")


def _past(read: Read) -> Skip:
    return lambda data, at, depth: read(data, at)[1]
