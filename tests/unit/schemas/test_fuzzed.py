"""Whatever bytes, schemas and requests arrive: an answer or an error of our own, soon, and never anything else.

`GEARSHIFT_TEST_FUZZED` sets the number of cases, which are the same each time: 1500000 take an hour.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from gearshift.definitions import Format, Location, Topic
from gearshift.errors import DecodeError
from gearshift.registry.api import Api, ApiError
from gearshift.registry.store import Store
from gearshift.schemas import Decoder, Registry, codec, pack
from gearshift.schemas.avro.differences import changes
from gearshift.schemas.debezium.avro import AvroReader
from gearshift.schemas.debezium.events import ChangeDecoder
from gearshift.schemas.external import readable, unlike
from gearshift.schemas.json.differences import json_changes
from gearshift.schemas.registry_client import Schema
from tests import changes_in_avro
from tests.meanings import Maker, awkward, damaged

CASES = int(os.environ.get("GEARSHIFT_TEST_FUZZED", "10000"))
SLOWEST = 5.0  # seconds of processor time for one case
ROUND = 40  # cases with one type, or one damaged schema
HERE = Location(__file__, 1)
DEBEZIUM = Path(__file__).parents[2] / "data" / "debezium"
JSON_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 0, "multipleOf": 2},
        "name": {"type": ["string", "null"], "maxLength": 9, "pattern": "^a", "default": None},
        "tags": {"type": "array", "prefixItems": [{"const": 1}], "items": {"enum": ["a", 1, None]}, "maxItems": 3},
        "at": {"$ref": "#/$defs/at"},
        "tree": {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
    },
    "patternProperties": {"^x": {"not": {"type": "string"}}},
    "dependentRequired": {"id": ["name"]},
    "required": ["id"],
    "additionalProperties": False,
    "$defs": {"at": {"type": "string", "format": "date-time"}},
}  # fmt: skip

Case = Callable[[], object]
Cases = Callable[[random.Random], Iterator[Case]]


class Known:
    """Schemas by id, as a registry answers."""

    def __init__(self, format: Format, *texts: str) -> None:  # noqa: A002 - the word users know
        self._schemas = {id_: Schema(id_, text, format) for id_, text in enumerate(texts, 1)}

    def schema(self, schema_id: int) -> Schema | None:
        return self._schemas.get(schema_id)


def _nested(levels: int, before: str, after: str, inner: str = '"string"') -> str:
    return before * levels + inner + after * levels


ODD = [
    "null", "true", "false", "0", "-1", "1.5", "2147483648", "1e300", "1e999", "NaN", "9" * 400, "9" * 5000, '""', '"x"',
    '"null"', '"long"', '"bytes"', '"record"', '"string"', '"\\ud800"', '"a.b.c"', '"#"', '"#/properties/id"', '"^("', "[]",
    "{}", "[[]]", "[{}]", '["null", "long"]', "[null]", '{"type": {}}', '{"x": 1, "x": 2}', '{"type": "map", "values": "R"}',
    '{"type": "array", "items": "null"}', '{"type": "fixed", "name": "F", "size": 0}', '{"type": "long", "logicalType": []}',
    '{"type": "bytes", "logicalType": "decimal", "precision": 1000000000, "scale": 1000000000}', '{"$ref": "#/nowhere"}',
    '{"type": "enum", "name": "E", "symbols": []}', '{"$ref": "#"}', '{"enum": [1, "a", {}]}', "// x", '"__debezium_unavailable_value"',
    _nested(60, '{"type": "array", "items": ', "}"), _nested(600, '{"type": "array", "items": ', "}"), _nested(3000, "[", "]"),
    _nested(300, '{"properties": {"x": ', "}}", "{}"), _nested(40, '{"anyOf": [', ', {"not": {}}]}', "{}"),
    _nested(3000, '{"type": ', "}"),
]  # fmt: skip


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Each part of a value, as what holds it and its key there."""
    if not isinstance(value, dict | list):
        return []
    held = cast("dict[Any, Any] | list[Any]", value)
    inside = list(held.items()) if isinstance(held, dict) else list(enumerate(held))
    return [(held, key) for key, _ in inside] + [place for _, part in inside for place in _places(part)]


def altered(chance: random.Random, value: Any) -> str:
    """The value as JSON, with one to three of its parts replaced, removed, repeated or swapped, or its text damaged."""
    whole = [json.loads(json.dumps(value))]
    odd: dict[str, str] = {}
    for number in range(chance.randint(1, 3)):
        holder, key = chance.choice(_places(whole))
        what = chance.random()
        if what < 0.6:
            marker = f"<{number}>"
            odd[json.dumps(marker)] = chance.choice(ODD)
            holder[key] = marker
        elif what < 0.7 and holder is not whole:
            del holder[key]
        elif what < 0.8 and isinstance(holder, list) and holder is not whole:
            cast("list[Any]", holder).append(holder[key])
        else:
            other, name = chance.choice(_places(whole))
            if len(json.dumps(other[name])) < 300:  # or what holds itself would be put into itself
                holder[key] = json.loads(json.dumps(other[name]))
    text = json.dumps(whole[0], ensure_ascii=chance.random() < 0.5)
    for marker, raw in odd.items():
        text = text.replace(marker, raw)
    return text if chance.random() < 0.9 else damaged(chance, text.encode()).decode("utf-8", "replace")


def garbage(chance: random.Random) -> bytes:
    return chance.choice(
        [
            chance.randbytes(chance.randrange(40)),
            b"\x02" * chance.randrange(2000),
            b"\xff" * chance.randrange(20),
            b"[" * chance.randrange(3000),
            b'{"a":' * chance.randrange(3000),
            b"\x01" + b"\x80" * 8 + b"\x01",
            b"\xfe\xff" + "{}".encode("utf-16-be"),
        ]
    )


def topic(value_type: type[Any], format: Format) -> Topic:  # noqa: A002 - the word users know
    return Topic(name="t", value=value_type, key=None, partitions=1, format=format, defined_at=HERE)


def decoder(value_type: type[Any], format: Format, *texts: str) -> Decoder:  # noqa: A002 - as above
    return Decoder(topic(value_type, format), cast("Registry", Known(format, *texts)))


def avro_payloads(chance: random.Random) -> Iterator[Case]:
    maker = Maker(chance.randrange(10**6))
    made = [maker.writer(maker.fields) for _ in range(3)]
    decode = decoder(maker.value_type, "avro", *(json.dumps(schema) for schema, _ in made))
    for _ in range(ROUND):
        payload, _ = chance.choice(made)[1](chance)
        data = garbage(chance) if chance.random() < 0.1 else damaged(chance, payload)
        yield partial(decode, pack(chance.randint(1, 3), data))


def avro_schemas(chance: random.Random) -> Iterator[Case]:
    maker = Maker(chance.randrange(10**6))
    schema, make = maker.writer(maker.fields)
    for _ in range(ROUND):
        text = altered(chance, schema)
        decode = decoder(maker.value_type, "avro", text)
        data = damaged(chance, make(chance)[0]) if chance.random() < 0.5 else make(chance)[0]
        yield partial(decode, pack(1, data))


def other_schemas(chance: random.Random) -> Iterator[Case]:
    """Schemas that a registry has taken, of a topic that others own."""
    maker = Maker(chance.randrange(10**6))
    format_: Format = chance.choice(["avro", "json"])
    ours = topic(maker.value_type, format_)
    schema = codec(maker.value_type, format_).schema
    api = Api(Store(Path(":memory:")))

    def check(text: str) -> None:
        api.handle(
            "POST", f"/subjects/{len(text)}/versions", {}, {"schema": text, "schemaType": format_.upper()}
        )
        readable(ours, format_, text)
        unlike(ours, format_, text)
        before = json.loads(text)
        (changes if format_ == "avro" else json_changes)(before, schema)
        (changes if format_ == "avro" else json_changes)(schema, before)

    for _ in range(ROUND):
        yield partial(check, altered(chance, schema))


def json_records(chance: random.Random) -> Iterator[Case]:
    maker = Maker(chance.randrange(10**6))
    decode = decoder(maker.value_type, "json", codec(maker.value_type, "json").schema_text)
    for _ in range(ROUND):
        datum, _ = maker.json(maker.fields, chance)
        what = chance.random()
        data = garbage(chance) if what < 0.05 else awkward(chance, datum)
        if what > 0.7:
            data = altered(chance, datum).encode()
        yield partial(decode, pack(1, data))


def frames(chance: random.Random) -> Iterator[Case]:
    maker = Maker(chance.randrange(10**6))
    schema, make = maker.writer(maker.fields)
    decode = decoder(maker.value_type, "avro", json.dumps(schema))
    for _ in range(ROUND):
        frame = pack(1, make(chance)[0])
        if chance.random() < 0.7:
            frame = damaged(chance, frame[: chance.choice([3, 5, 6, 999])])
        yield partial(decode, chance.choice([None, garbage(chance), frame, frame, frame]))


def _recorded() -> list[tuple[str, Any, Any]]:
    return [
        (name, json.loads(one["key"]), json.loads(one["value"]))
        for name in ("postgresql-plain.json", "postgresql-schema.json")
        for one in json.loads((DEBEZIUM / name).read_text())
        if one["key"] and one["value"]
    ]


def debezium_json(chance: random.Random) -> Iterator[Case]:
    recorded = _recorded()
    read = ChangeDecoder(changes_in_avro.Order, replica_identity_full=chance.random() < 0.5)
    for _ in range(ROUND):
        _, key, value = chance.choice(recorded)
        bodies: list[bytes] = []
        for part in (key, value):
            what = chance.random()
            if what < 0.1:
                bodies.append(garbage(chance))
            elif what < 0.4 and isinstance(part.get("after"), dict):
                bodies.append(awkward(chance, part["after"]).join([b'{"op":"u","after":', b"}"]))
            elif what < 0.7:
                bodies.append(awkward(chance, part))
            else:
                bodies.append(altered(chance, part).encode())
        yield partial(read.decode, *bodies, 7)


def debezium_avro(chance: random.Random) -> Iterator[Case]:
    changes = changes_in_avro.postgresql()
    texts = changes.keys | changes.values
    if chance.random() < 0.5:
        odd = chance.choice(list(texts))
        text = altered(chance, json.loads(texts[odd]))
        changes = replace(
            changes, **{part: {**getattr(changes, part), odd: text} for part in ("keys", "values")}
        )
    read = ChangeDecoder(changes_in_avro.Order, read=AvroReader(cast("Registry", changes)))
    for _ in range(ROUND):
        key, value = chance.choice(changes.records)
        if value is not None and chance.random() < 0.8:
            value = value[:5] + damaged(chance, value[5:])
        if key is not None and chance.random() < 0.3:
            key = damaged(chance, key)
        yield partial(read.decode, key, value, 7)


def registered(chance: random.Random) -> Iterator[Case]:
    """What clients ask of the registry: each schema is compared with the ones before."""
    kind = chance.choice(["AVRO", "JSON"])
    schema: Any = Maker(chance.randrange(10**6)).writer(Maker(1).fields)[0] if kind == "AVRO" else JSON_SCHEMA
    if kind == "JSON" and chance.random() < 0.3:
        schema = {**schema, "$schema": chance.choice(["http://json-schema.org/draft-04/schema#", None])}
    api = Api(Store(Path(":memory:")))
    api.handle("PUT", "/config", {}, {"compatibility": chance.choice(["FULL", "FULL_TRANSITIVE", "NONE"])})
    for _ in range(ROUND):
        body: dict[str, Any] = {"schema": altered(chance, schema), "schemaType": kind}
        if chance.random() < 0.1:
            reference = {
                "name": "r",
                "subject": "s",
                "version": chance.choice([1, -1, "latest", 1e400, None, [], "\ud800"]),
            }
            body["references"] = [chance.choice([reference, None, {**reference, "name": "\ud800"}])]
        path = chance.choice(
            [
                "/subjects/s/versions",
                "/subjects/s/versions",
                "/subjects/s",
                "/compatibility/subjects/s/versions/1",
            ]
        )
        yield partial(api.handle, "POST", path, {"verbose": "true"}, body)


@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize(
    "cases",
    [avro_payloads, avro_schemas, other_schemas, json_records, frames, debezium_json, debezium_avro, registered],
)  # fmt: skip
def test_nothing_but_our_own_errors_and_soon(cases: Cases) -> None:
    wanted, seed, read, refused = CASES // 8, 0, 0, 0
    while read + refused < wanted:
        chance = random.Random(f"{cases.__name__} {seed}")
        for number, case in enumerate(cases(chance)):
            began = time.process_time()
            try:
                case()
                read += 1
            except (DecodeError, ApiError):
                refused += 1
            except BaseException as error:
                raise AssertionError(
                    f"seed {seed}, case {number}: {type(error).__name__}: {error}"
                ) from error
            taken = time.process_time() - began
            assert taken < SLOWEST, f"seed {seed}, case {number} took {taken:.1f} s"
        seed += 1
    assert read > wanted / 100 and refused > wanted / 100, f"{read} read, {refused} refused"
