"""Lines of JSON become records with the topic's schema."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from gearshift.cli.topic.lines import Lines
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.plain_encoder import PlainEncoder
from gearshift.schemas.registry_client import Schema
from gearshift.schemas.wire import pack
from gearshift.topics.encoders import Encoders, Record

FIELDS = [
    {"name": "id", "type": "string"},
    {"name": "n", "type": "int"},
    {"name": "raw", "type": "bytes", "default": ""},
]
AVRO = PlainEncoder(Schema(1, json.dumps({"type": "record", "name": "R", "fields": FIELDS}), "avro"))
JSON = PlainEncoder(
    Schema(2, json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}}), "json")
)
KEY = PlainEncoder(Schema(3, '"long"', "avro"))


def record(line: str, encoders: Encoders | None = None, **options: Any) -> Record:
    return Lines(encoders or Encoders(AVRO), **options).record(line.encode())


def misfit(line: str, encoders: Encoders | None = None, **options: Any) -> str:
    with pytest.raises(Misfit) as raised:
        record(line, encoders, **options)
    return str(raised.value)


def test_a_value_is_encoded_with_the_latest_schema() -> None:
    assert record('{"id": "a", "n": 7}') == Record(pack(1, b"\x02a\x0e\x00"))
    assert record('{ "n": 7 }', Encoders(JSON)) == Record(pack(2, b'{"n":7}'))


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({}, None),
        ({"key": "k"}, b"k"),
        ({"key_field": "id"}, b"a"),
        ({"key_field": "n"}, b"7"),
        ({"key_field": "raw"}, b"\xff"),
    ],
)
def test_the_key_is_given_or_a_field_as_producers_write_it(
    options: dict[str, Any], key: bytes | None
) -> None:
    assert record('{"id": "a", "n": 7, "raw": "/w=="}', **options).key == key


def test_a_topic_with_a_schema_for_keys_gets_encoded_keys() -> None:
    encoders = Encoders(AVRO, KEY)
    assert record('{"id": "a", "n": 7}', encoders, key_field="n").key == pack(3, b"\x0e")
    assert record('{"id": "a", "n": 7}', encoders, key="7").key == pack(3, b"\x0e")
    assert misfit('{"id": "a", "n": 7}', encoders, key="x").startswith("the key does not fit its schema: ")


@pytest.mark.parametrize(
    ("line", "options", "said"),
    [
        ('{"id": "a", "n": "7"}', {}, "field n: is str, not"),
        ('{"id": "a"}', {}, "field n: is missing"),
        ("[", {}, "not valid JSON"),
        ("NaN", {}, "NaN is not a JSON number"),
        ('{"id": "a", "n": 7}', {"key_field": "nn"}, "field nn: is missing, but is the key"),
    ],
)
def test_a_line_that_does_not_fit_names_its_field(line: str, options: dict[str, Any], said: str) -> None:
    assert said in misfit(line, **options)


def test_without_a_schema_a_line_is_sent_as_it_is() -> None:
    raw = Encoders()
    assert record("any \u00fc", raw, headers=[("a", b"b")]) == Record("any ü".encode(), None, [("a", b"b")])
    assert record('{"id": "a"}', raw, key_field="id").key == b"a"
    assert misfit("{}", raw, key_field="id") == "field id: is missing or cannot be a key"


def whole(**changed: Any) -> str:
    given = {"key": "k", "key_format": "text", "value": {"id": "a", "n": 7}, "format": "avro", "headers": []}
    return json.dumps({**given, **changed})


def test_a_consumed_record_is_sent_with_its_key_and_headers() -> None:
    headers = [{"name": "a", "value": "b"}, {"name": "c", "base64": "/w=="}, {"name": "d", "value": None}]
    assert record(whole(headers=headers), records=True) == Record(
        pack(1, b"\x02a\x0e\x00"), b"k", [("a", b"b"), ("c", b"\xff"), ("d", None)]
    )
    assert record(whole(value=None, format=None), records=True).value is None
    assert record(whole(key=None, key_format=None), records=True).key is None
    assert record('{"value": {"id": "a", "n": 7}}', records=True).value == pack(1, b"\x02a\x0e\x00")


def test_bytes_that_were_not_decoded_are_sent_again_only_as_they_are() -> None:
    written = base64.b64encode(b"\xff\xfe").decode()
    undecoded = whole(value=written, format="binary", error="schema 9 is not registered", headers=[])
    assert "send its bytes with --raw" in misfit(undecoded, records=True)
    assert record(undecoded, Encoders(), records=True).value == b"\xff\xfe"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[]", "is list, not an object as consume -o json prints it"),
        ("{}", "field value: is missing"),
        (whole(headers=[1]), "field headers: is not a list of"),
        (whole(headers=1), "field headers: is not a list of"),
        (whole(headers={"a": "b"}), "field headers: is not a list of"),
        (whole(key=7), "field key: is int, not text"),
        (whole(key="a b", key_format="binary"), "field key: is not base64"),
        (whole(value="text", format="text"), "field value: is text, without a schema; send it with --raw"),
    ],
)
def test_a_record_that_consume_did_not_print_is_an_error(line: str, said: str) -> None:
    assert said in misfit(line, records=True)
