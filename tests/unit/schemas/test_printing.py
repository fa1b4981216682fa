"""The bytes of any record in the form that people can read."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from gearshift.schemas.printing import Printer, Shown
from gearshift.schemas.registry_client import Schema
from gearshift.schemas.wire import pack

AVRO = Schema(1, '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}', "avro")
JSON = Schema(2, '{"type": "object"}', "json")
FORMAT: Any = "protobuf"  # of another team, in a shared registry
PROTOBUF = Schema(3, 'syntax = "proto3"; message R { int32 x = 1; }', FORMAT)


class Registered:
    """What a printer asks of a registry."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def schema(self, schema_id: int) -> Schema | None:
        self.asked.append(schema_id)
        return {1: AVRO, 2: JSON, 3: PROTOBUF}.get(schema_id)


@pytest.fixture
def registered() -> Registered:
    return Registered()


@pytest.fixture
def printer(registered: Registered) -> Printer:
    return Printer(lambda: registered)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (pack(1, b"\x0e"), Shown({"x": 7}, "avro", 1)),
        (pack(2, b'{"x": 7}'), Shown({"x": 7}, "json", 2)),
        (pack(9, b"\x0e"), Shown("AAAAAAkO", "binary", 9, "schema 9 is not registered")),
        (pack(3, b"\x0e"), Shown("AAAAAAMO", "binary", 3, "schema 3 is Protobuf, which is not supported")),
        (b'{"x": 7}', Shown({"x": 7}, "json")),
        (b"hello", Shown("hello", "text")),
        (b"1e999", Shown("1e999", "text")),
        (b"\xff", Shown("/w==", "binary")),
        (b"\x00", Shown("AA==", "binary")),
        (b"a\x1b[31m", Shown("YRtbMzFt", "binary")),
        (b"", Shown("", "text")),
    ],
)
def test_a_value_is_shown_in_its_most_readable_form(printer: Printer, data: bytes, shown: Shown) -> None:
    assert printer.show(data) == shown


@pytest.mark.parametrize("payload", [b"", b"\x0e\x00", b"\x80"])
def test_a_value_that_its_schema_does_not_read_is_shown_with_the_reason(
    printer: Printer, payload: bytes
) -> None:
    shown = printer.show(pack(1, payload))
    assert (shown.how, shown.schema_id) == ("binary", 1)
    assert shown.error


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"42", Shown("42", "text")),
        (b"m-1", Shown("m-1", "text")),
        (pack(1, b"\x0e"), Shown({"x": 7}, "avro", 1)),
        ((7).to_bytes(8, "big"), Shown("AAAAAAAAAAc=", "binary")),  # begins as if it had a schema id
    ],
)
def test_a_key_is_text_unless_it_has_a_schema(printer: Printer, data: bytes, shown: Shown) -> None:
    assert printer.show_key(data) == shown


def test_the_registry_is_asked_once_per_schema(printer: Printer, registered: Registered) -> None:
    for _ in range(3):
        printer.show(pack(1, b"\x0e"))
        printer.show(pack(9, b"\x0e"))
    assert registered.asked == [1, 9]


def test_records_without_a_schema_need_no_registry() -> None:
    def refuse() -> NoReturn:
        raise AssertionError("asked the registry")

    printer: Any = Printer(refuse)
    assert printer.show(b"hello").datum == "hello"
