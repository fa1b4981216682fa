"""Confluent's wire format: a zero byte, the schema id as 4 bytes big-endian, then the payload."""

from __future__ import annotations

import struct

from gearshift.errors import DecodeError, EncodeError

_HEAD = struct.Struct(">BI")
HEAD_SIZE = _HEAD.size
_HIGHEST_ID = 2**31 - 1  # Java reads the id as a signed int


def head(schema_id: int) -> bytes:
    """The five bytes before every payload of this schema."""
    if not 0 <= schema_id <= _HIGHEST_ID:
        raise EncodeError(f"invalid schema id {schema_id}", hint=f"use an id from 0 to {_HIGHEST_ID}")
    return _HEAD.pack(0, schema_id)


def pack(schema_id: int, payload: bytes) -> bytes:
    r"""The bytes of a record's value.

    >>> pack(258, b"load")
    b'\x00\x00\x00\x01\x02load'
    """
    return head(schema_id) + payload


def unpack(data: bytes | None) -> tuple[int, bytes]:
    r"""The schema id and the payload of a record's value.

    >>> unpack(b"\x00\x00\x00\x01\x02load")
    (258, b'load')
    """
    if data is None:
        raise DecodeError(
            "the record has no value", hint="it is a tombstone, which deletes its key in a compacted topic"
        )
    if len(data) < HEAD_SIZE:
        raise DecodeError(
            f"the value has {len(data)} bytes, fewer than the {HEAD_SIZE} before a payload",
            hint="check that the producer uses a schema registry",
        )
    magic, schema_id = _HEAD.unpack_from(data)
    if magic != 0:
        raise DecodeError(
            f"the value begins with byte {magic}, not 0",
            hint="check that the producer uses a schema registry",
        )
    if schema_id > _HIGHEST_ID:
        raise DecodeError(
            f"invalid schema id {schema_id}", hint="check that the producer uses a schema registry"
        )
    return schema_id, data[HEAD_SIZE:]
