"""The five bytes before a payload."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.errors import DecodeError, EncodeError
from gearshift.schemas import pack, unpack


@given(schema_id=st.integers(0, 2**31 - 1), payload=st.binary())
def test_what_is_packed_is_unpacked_again(schema_id: int, payload: bytes) -> None:
    assert unpack(pack(schema_id, payload)) == (schema_id, payload)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "the record has no value"),
        (b"", "has 0 bytes"),
        (b"\x00\x00\x01", "has 3 bytes"),
        (b'{"a":1}', "begins with byte 123, not 0"),
        (b"\x00\xff\xff\xff\xffx", "invalid schema id"),
    ],
)
def test_other_bytes_are_an_error_with_the_reason(data: bytes | None, words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        unpack(data)


@pytest.mark.parametrize("schema_id", [-1, 2**31])
def test_an_invalid_id_is_an_error(schema_id: int) -> None:
    with pytest.raises(EncodeError, match="invalid schema id"):
        pack(schema_id, b"")
