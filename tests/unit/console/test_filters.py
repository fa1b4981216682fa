"""Filters select records by key and by a field, and only compare."""

from __future__ import annotations

from typing import Any

import pytest

from gearshift.console.filters import record_filter, require_pair, values_at
from gearshift.errors import SettingsError
from gearshift.schemas.printing import Printer
from gearshift.schemas.registry_client import Registry
from gearshift.topics.reader import ConsumedRecord


def no_registry() -> Registry:
    raise AssertionError("these records have no schema")


PRINTER = Printer(no_registry)


def record(value: bytes | None, key: bytes | None = b"k") -> ConsumedRecord:
    return ConsumedRecord("t", 0, 0, key, value, (), None)


@pytest.mark.parametrize(
    ("path", "text", "fits"),
    [
        ("country", "CH", True),
        ("country", "ch", False),
        ("meter.load_kw", "2.5", True),
        ("meter.id", "7", True),
        ("meter.ok", "true", True),
        ("meter.note", "null", True),
        ("meter.absent", "null", False),
        ("tags.1", "b", True),
        ("tags.2", "b", False),
        ("tags.-1", "b", False),
        ("tags." + "9" * 900, "b", False),
        ("tags.²", "b", False),
        ("tags", '["a","b"]', True),
        ("a.b", "dotted", True),
        ("", "", False),
        (".", "", False),
        ("country.__class__", "str", False),
        ("__class__.__name__", "dict", False),
    ],
)
def test_a_field_is_compared_by_its_text(path: str, text: str, fits: bool) -> None:
    value = (
        b'{"country": "CH", "meter": {"load_kw": 2.5, "id": 7, "ok": true, "note": null}, '
        b'"tags": ["a", "b"], "a.b": "dotted"}'
    )
    assert record_filter(PRINTER, None, path, text)(record(value)) is fits


@pytest.mark.parametrize("value", [None, b"", b"text", b"\xff\x00", b"7", b"[]", b"null"])
def test_a_value_without_fields_fits_no_filter(value: bytes | None) -> None:
    assert not record_filter(PRINTER, None, "a", "1")(record(value))


def test_key_and_field_must_both_fit() -> None:
    fits = record_filter(PRINTER, "k", "a", "1")
    assert fits(record(b'{"a": 1}'))
    assert not fits(record(b'{"a": 1}', key=b"other"))
    assert not fits(record(b'{"a": 1}', key=None))


def test_a_key_is_found_as_it_is_shown() -> None:
    assert record_filter(PRINTER, "/w==", None, None)(record(b"", key=b"\xff"))
    assert record_filter(PRINTER, "<b>", None, None)(record(b"", key=b"<b>"))
    assert not record_filter(PRINTER, "k", None, None)(record(b"", key=None))


def test_a_deep_path_ends() -> None:
    nested: Any = "end"
    for _ in range(100):
        nested = {"a": nested}
    assert values_at(nested, ".".join(["a"] * 100)) == ["end"]
    assert values_at(nested, ".".join(["a"] * 400)) == []


def test_names_with_dots_cannot_multiply_the_work() -> None:
    nested: Any = "end"
    for _ in range(60):
        nested = {"a": nested, "a.a": nested}
    assert values_at(nested, ".".join(["a"] * 60) + ".b") == []


@pytest.mark.parametrize(("field", "equals"), [("a", None), (None, "1")])
def test_a_field_needs_its_text(field: str | None, equals: str | None) -> None:
    with pytest.raises(SettingsError, match="needs"):
        require_pair(field, equals)
