"""Topics, schemas and records against a real broker and a real registry."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Annotated, Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from gearshift.connection import Connection
from gearshift.definitions import Format, Location, Topic
from gearshift.errors import (
    BrokerUnreachableError,
    DecodeError,
    EncodeError,
    IncompatibleSchemaError,
    ProduceError,
    RegistryUnreachableError,
    TopicError,
    TopicMissingError,
)
from gearshift.schemas import DecimalOf, Decoder, Registry, encode, pack, schema_text
from gearshift.settings import load
from gearshift.stack import up
from gearshift.topics import (
    Admin,
    ConsumedRecord,
    DeadLetter,
    DeadLetters,
    GroupOffsets,
    Producer,
    partition_of,
    read,
    tail,
)
from tests.support import LATELY, librdkafka, registry_client

HERE = Location(__file__, 1)


@dataclass(frozen=True)
class Reading:
    meter_id: str
    load_kw: float
    read_at: datetime = datetime(2026, 1, 1, tzinfo=UTC)


def versioned(annotations: dict[str, Any], defaults: dict[str, Any] | None = None) -> type[Any]:
    """Another version of the class Reading."""
    return dataclass(
        type("Reading", (), {"__annotations__": annotations, "__module__": __name__, **(defaults or {})})
    )


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    folder: Path = tmp_path_factory.mktemp("topics")
    with up(load(folder=folder, environ={})) as stack:
        yield stack.connection


@pytest.fixture(scope="module")
def admin(connection: Connection) -> Iterator[Admin]:
    with Admin(connection) as admin:
        yield admin


@pytest.fixture(scope="module")
def registry(connection: Connection) -> Iterator[Registry]:
    with Registry(connection) as registry:
        yield registry


def declared(
    value: type[Any] = Reading,
    *,
    name: str | None = None,
    key: str | None = "meter_id",
    partitions: int = 3,
    format: Format = "avro",  # noqa: A002 - the word users know
    compatibility: str = "BACKWARD",
) -> Topic:
    return Topic(
        name=name or f"readings-{uuid4().hex[:8]}",
        value=value,
        key=key,
        partitions=partitions,
        format=format,
        compatibility=compatibility,
        defined_at=HERE,
    )


@pytest.fixture
def readings(admin: Admin) -> Topic:
    topic = declared()
    admin.ensure([topic])
    return topic


def all_of(connection: Connection, topic: Topic) -> list[ConsumedRecord]:
    return list(read(connection, topic.name))


# Topics


def test_missing_topics_are_created_with_their_dead_letters(admin: Admin) -> None:
    topic = declared()
    assert admin.describe([topic.name]) == {}
    assert admin.ensure([topic]) == [topic.name, topic.dead_letters]
    found = admin.require([topic.name, topic.dead_letters])
    assert [(state.partitions, state.replicas, state.leaderless) for state in found.values()] == [
        (3, 1, ())
    ] * 2
    assert admin.ensure([topic]) == []


def test_a_topic_with_too_few_partitions_is_refused_and_one_with_more_is_not(
    admin: Admin, readings: Topic
) -> None:
    with pytest.raises(TopicError) as raised:
        admin.ensure([declared(name=readings.name, partitions=5)])
    assert "the topic has 3 partitions and the app declares 5" in str(raised.value)
    assert "declare partitions=3" in str(raised.value)
    assert admin.ensure([declared(name=readings.name, partitions=2)]) == []


def test_a_missing_topic_is_told_by_name(admin: Admin) -> None:
    for ask in (admin.require, admin.end_offsets):
        with pytest.raises(TopicMissingError, match=r"the topic does not exist \(topic nowhere\)"):
            ask(["nowhere"])


def test_offsets_are_known_by_place_and_by_instant(
    connection: Connection, registry: Registry, admin: Admin
) -> None:
    topic = declared(partitions=1)
    admin.ensure([topic])
    noon = LATELY + timedelta(hours=12)
    with Producer(connection, registry) as producer:
        for minute in range(10):
            producer.send(topic, Reading("m", 1.0), timestamp=noon + timedelta(minutes=minute))
    place = (topic.name, 0)
    assert admin.begin_offsets([topic.name]) == {place: 0}
    assert admin.end_offsets([topic.name]) == {place: 10}
    assert admin.offsets_at([topic.name], noon + timedelta(minutes=4)) == {place: 4}
    assert admin.offsets_at([topic.name], noon + timedelta(hours=1)) == {place: 10}


def test_offsets_are_mirrored_into_a_group(admin: Admin, readings: Topic) -> None:
    group = f"smart-meter.{readings.name}"
    assert admin.group_offsets(group, [readings.name]) == {}
    offsets = {(readings.name, 0): 0, (readings.name, 2): 0}
    admin.commit_group(group, offsets)
    assert admin.group_offsets(group, [readings.name]) == offsets


def test_a_deleted_topic_is_gone(admin: Admin, readings: Topic) -> None:
    admin.delete([readings.name, readings.dead_letters, "nowhere"])
    assert admin.describe([readings.name, readings.dead_letters]) == {}


def test_a_broker_that_does_not_answer_is_told_soon(
    connection: Connection, capfd: pytest.CaptureFixture[str]
) -> None:
    nobody = replace(connection, bootstrap_servers="127.0.0.1:1")
    began = time.monotonic()
    with pytest.raises(BrokerUnreachableError) as raised:
        Admin(nobody).ping()
    assert time.monotonic() - began < 20
    assert str(raised.value) == 'no broker answers at 127.0.0.1:1; try "gearshift up"'
    assert raised.value.retriable
    assert capfd.readouterr().err == ""


def test_a_client_that_nobody_polls_collects_no_errors_while_its_brokers_are_away(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    nobody = replace(connection, bootstrap_servers="127.0.0.1:1")
    with contextlib.closing(GroupOffsets(nobody, "g", answer_within=timedelta(seconds=3))) as group:
        with pytest.raises(BrokerUnreachableError):
            group.committed([("readings", 0)])
        with caplog.at_level(logging.INFO, logger="gearshift.librdkafka"):
            group._consumer.poll(0)
    assert 0 < len(caplog.records) < 20, f"{len(caplog.records)} in 3 s"


def test_a_broker_that_is_there_answers(admin: Admin) -> None:
    admin.ping()


def test_a_server_that_says_nothing_is_told_soon() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        nobody = Connection(bootstrap_servers=f"{host}:{port}", registry_url=f"http://{host}:{port}")
        began = time.monotonic()
        with pytest.raises(BrokerUnreachableError):
            Admin(nobody).ping()
        group = GroupOffsets(nobody, "smart-meter.load_alerts", answer_within=timedelta(seconds=1))
        with contextlib.closing(group), pytest.raises(BrokerUnreachableError):
            group.commit({("readings", 0): 1})
        with Registry(nobody) as registry, pytest.raises(RegistryUnreachableError):
            registry.ping()
        assert time.monotonic() - began < 30


# Records


def test_a_keyed_record_goes_where_the_java_client_would_send_it(
    connection: Connection, registry: Registry, readings: Topic
) -> None:
    with Producer(connection, registry) as producer:
        for n in range(200):
            producer.send(readings, Reading(f"meter-{n}", float(n)))
        producer.send(readings, Reading("other", 0.0), key="")
        producer.send(readings, Reading("other", 0.0), key=42)
    records = all_of(connection, readings)
    assert len(records) == 202
    for record in records:
        assert record.key is not None
        assert record.partition == partition_of(record.key, 3)
    assert {b"", b"42", b"meter-7"} <= {record.key for record in records}


def test_any_key_goes_where_the_java_client_would_send_it(connection: Connection, admin: Admin) -> None:
    topic = declared(partitions=7)
    admin.ensure([topic])
    random = Random(7)
    with Producer(connection) as producer:
        for length in range(300):
            producer.send_bytes(topic.name, b"", key=random.randbytes(length))
    records = all_of(connection, topic)
    assert len(records) == 300
    assert all(record.partition == partition_of(record.key or b"", 7) for record in records)


def test_records_without_a_key_spread_over_the_partitions(
    connection: Connection, registry: Registry, admin: Admin
) -> None:
    topic = declared(key=None)
    admin.ensure([topic])
    with Producer(connection, registry) as producer:
        for n in range(10_000):
            producer.send(topic, Reading("m", float(n)))
    spread = admin.end_offsets([topic.name])
    assert sum(spread.values()) == 10_000
    assert all(abs(count - 10_000 / 3) < 0.2 * 10_000 / 3 for count in spread.values()), spread


def test_every_failed_record_is_reported_and_the_others_arrive(
    connection: Connection, registry: Registry, readings: Topic
) -> None:
    producer = Producer(connection, registry)
    producer.send(readings, Reading("small", 1.0))
    for n in range(3):
        producer.send(readings, Reading("x" * 2_000_000, 1.0), key=f"large-{n}")
    with pytest.raises(
        ProduceError, match=f"3 records could not be delivered to {readings.name}: .*too large"
    ):
        producer.flush()
    assert [(failure.topic, failure.key) for failure in producer.failures] == [
        (readings.name, b"large-%d" % n) for n in range(3)
    ]
    producer.close()  # each failure is told once
    producer.close()
    assert [record.key for record in all_of(connection, readings)] == [b"small"]


def test_records_that_no_broker_takes_are_reported_one_by_one(
    connection: Connection, registry: Registry
) -> None:
    topic = declared()
    nobody = replace(connection, bootstrap_servers="127.0.0.1:1")
    with (
        pytest.raises(ProduceError, match="5 records could not be delivered to"),
        Producer(nobody, registry, deliver_within=timedelta(seconds=1)) as producer,
    ):
        for n in range(5):
            producer.send(topic, Reading(f"m-{n}", 1.0))
    assert sorted(failure.key or b"" for failure in producer.failures) == [b"m-%d" % n for n in range(5)]


def test_an_exception_inside_the_producer_is_not_replaced(
    connection: Connection, registry: Registry, readings: Topic
) -> None:
    with pytest.raises(ZeroDivisionError), Producer(connection, registry) as producer:
        producer.send(readings, Reading("x" * 2_000_000, 1.0))
        raise ZeroDivisionError
    assert len(producer.failures) == 1


def test_a_full_queue_waits_and_loses_nothing(connection: Connection, readings: Topic, admin: Admin) -> None:
    small = replace(connection, kafka={**connection.kafka, "queue.buffering.max.messages": "100"})
    with Producer(small) as producer:
        for n in range(5000):
            producer.send(readings, Reading(f"m-{n % 50}", float(n)))
    assert sum(admin.end_offsets([readings.name]).values()) == 5000


def test_a_value_that_does_not_fit_is_refused_before_it_is_sent(
    connection: Connection, registry: Registry, readings: Topic
) -> None:
    with Producer(connection, registry) as producer:
        with pytest.raises(EncodeError) as raised:
            producer.send(readings, Reading("m", "high"))  # type: ignore[arg-type]
        assert raised.value.topic == readings.name
        with pytest.raises(EncodeError, match="a float cannot be a key"):
            producer.send(readings, Reading("m", 1.0), key=2.5)  # type: ignore[arg-type]
    assert all_of(connection, readings) == []


def test_a_stretch_is_read_from_its_start_to_its_end(
    connection: Connection, registry: Registry, admin: Admin
) -> None:
    topic = declared(partitions=2, key=None)
    admin.ensure([topic])
    noon = LATELY + timedelta(hours=12)
    with Producer(connection, registry) as producer:
        for n in range(100):
            producer.send(topic, Reading("m", float(n)), headers={"n": str(n)}, timestamp=noon)
    ends = admin.end_offsets([topic.name])
    found = list(read(connection, topic.name, start={0: 5}, end={0: 8}))
    assert [(record.partition, record.offset) for record in found] == [(0, 5), (0, 6), (0, 7)]
    assert found[0].timestamp == noon
    assert found[0].header("n") is not None
    assert found[0].key is None
    assert list(read(connection, topic.name, start={1: ends[topic.name, 1]})) == []
    assert len(all_of(connection, topic)) == 100


def test_a_tail_gets_what_comes_after_it_until_it_is_closed(
    connection: Connection, registry: Registry, readings: Topic
) -> None:
    with Producer(connection, registry) as producer:
        producer.send(readings, Reading("before", 1.0))
        producer.flush()
        seen: list[bytes | None] = []
        with tail(connection, [readings.name]) as records:
            closing = threading.Timer(10, records.close)
            closing.start()
            for n in range(20):
                producer.send(readings, Reading(f"after-{n}", 1.0))
            for record in records:
                seen.append(record.key)
                if len(seen) == 20:
                    records.close()
            closing.cancel()
    assert Counter(seen) == Counter(b"after-%d" % n for n in range(20))


# Schemas


@pytest.mark.parametrize("format", ["avro", "json"])
def test_values_come_back_as_they_were_sent(
    connection: Connection,
    registry: Registry,
    admin: Admin,
    format: Format,  # noqa: A002 - the word users know
) -> None:
    topic = declared(format=format)
    admin.ensure([topic])
    sent = [Reading(f"m-{n}", n / 2, datetime(2026, 1, 31, n, tzinfo=UTC)) for n in range(10)]
    with Producer(connection) as producer:  # opens the connection's registry by itself
        for reading in sent:
            producer.send(topic, reading)
    decoder = Decoder(topic, registry)
    found = [decoder(record.value) for record in all_of(connection, topic)]
    assert sorted(found, key=lambda reading: reading.meter_id) == sent


def test_the_same_schema_keeps_its_id_and_its_compatibility_is_set(
    connection: Connection, registry: Registry
) -> None:
    topic = declared()
    first = registry.register(topic)
    assert registry.register(topic) == first
    with Registry(connection) as another:
        assert another.register(topic) == first
        assert list(another.versions(topic.subject)) == [first]
    schema = registry.schema(first)
    assert schema is not None
    assert '"name":"Reading"' in schema.text.replace(" ", "")


@pytest.mark.parametrize(
    ("format", "changed", "words"),
    [
        (
            "avro",
            versioned({"meter_id": str, "load_kw": str}),
            "field load_kw changed from double to string; keep double, or add a new field with a default",
        ),
        (
            "avro",
            versioned({"meter_id": str, "load_kw": float, "owner": str}),
            "field owner was added without a default; give it a default",
        ),
        (
            "json",
            versioned({"meter_id": str, "load_kw": str}),
            "field load_kw changed from number to string; keep number, or add a new field with a default",
        ),
        (
            "json",
            versioned({"meter_id": str, "load_kw": float, "owner": str}),
            "field owner was added without a default; give it a default",
        ),
    ],
)
def test_an_incompatible_change_is_refused_before_anything_is_sent(
    connection: Connection,
    registry: Registry,
    admin: Admin,
    format: Format,  # noqa: A002 - the word users know
    changed: type[Any],
    words: str,
) -> None:
    topic = declared(versioned({"meter_id": str, "load_kw": float}), format=format)
    admin.ensure([topic])
    first = registry.register(topic)
    newer = declared(changed, name=topic.name, format=format)
    values = {"meter_id": "m", "load_kw": "x", "owner": "o"}
    with Producer(connection, registry) as producer, pytest.raises(IncompatibleSchemaError) as raised:
        producer.send(newer, changed(**{name: values[name] for name in changed.__annotations__}))
    assert words in str(raised.value)
    assert raised.value.topic == topic.name
    assert list(registry.versions(topic.subject)) == [first]
    assert all_of(connection, topic) == []


def test_a_decimal_that_would_be_read_a_hundredth_is_refused_though_the_registry_would_not(
    connection: Connection, registry: Registry
) -> None:
    topic = declared(versioned({"meter_id": str, "price": Annotated[Decimal, DecimalOf(12, 2)]}))
    registry.register(topic)
    newer = declared(
        versioned({"meter_id": str, "price": Annotated[Decimal, DecimalOf(12, 4)]}), name=topic.name
    )
    client = SchemaRegistryClient(registry_client(connection))
    assert client.test_compatibility(topic.subject, Schema(schema_text(newer), "AVRO"))
    client.close()
    with pytest.raises(
        IncompatibleSchemaError, match=r"field price changed from decimal\(12, 2\) to decimal\(12, 4\)"
    ):
        registry.register(newer)


def test_a_removed_field_is_refused_where_old_readers_count(
    connection: Connection, registry: Registry
) -> None:
    old, new = versioned({"meter_id": str, "load_kw": float}), versioned({"meter_id": str})
    topic = declared(old, compatibility="FULL")
    registry.register(topic)
    with pytest.raises(
        IncompatibleSchemaError, match="field load_kw, which has no default, was removed; keep it"
    ):
        registry.register(declared(new, name=topic.name, compatibility="FULL"))
    newer = declared(new, name=topic.name, compatibility="BACKWARD")
    with pytest.raises(IncompatibleSchemaError, match="in the registry, where it is set to FULL"):
        registry.register(newer)
    with SchemaRegistryClient(registry_client(connection)) as client:
        client.set_compatibility(topic.subject, "BACKWARD")
    registry.register(newer)
    assert len(registry.versions(topic.subject)) == 2


def test_anything_goes_where_no_compatibility_is_asked_for(registry: Registry) -> None:
    topic = declared(versioned({"meter_id": str}), compatibility="NONE")
    registry.register(topic)
    registry.register(declared(versioned({"meter_id": int}), name=topic.name, compatibility="NONE"))
    assert len(registry.versions(topic.subject)) == 2


@pytest.mark.parametrize("format", ["avro", "json"])
def test_records_of_several_versions_are_read_as_the_newest(
    connection: Connection,
    registry: Registry,
    admin: Admin,
    format: Format,  # noqa: A002 - the word users know
) -> None:
    first = versioned({"meter_id": str, "load_kw": float})
    second = versioned({"meter_id": str, "load_kw": float, "owner": str | None}, {"owner": None})
    third = versioned(
        {"meter_id": str, "load_kw": float, "owner": str | None, "price": Decimal},
        {"owner": None, "price": Decimal("0.30")},
    )
    topic = declared(first, partitions=1, format=format)
    admin.ensure([topic])
    with Producer(connection, registry) as producer:
        producer.send(topic, first("m-1", 1.0))
    for value in (second("m-2", 2.0, "Ada"), third("m-3", 3.0, None, Decimal("0.5"))):
        with Producer(connection, registry) as producer:
            producer.send(declared(type(value), name=topic.name, partitions=1, format=format), value)
    assert len(registry.versions(topic.subject)) == 3
    newest = Decoder(declared(third, name=topic.name, format=format), registry)
    assert [newest(record.value) for record in all_of(connection, topic)] == [
        third("m-1", 1.0, None, Decimal("0.30")),
        third("m-2", 2.0, "Ada", Decimal("0.30")),
        third("m-3", 3.0, None, Decimal("0.5")),
    ]


def test_a_record_of_no_known_schema_is_no_value(registry: Registry) -> None:
    topic = declared()
    schema_id = registry.register(topic)
    decoder = Decoder(topic, registry)
    payload = encode(Reading("m", 1.0))
    assert decoder(pack(schema_id, payload)) == Reading("m", 1.0)
    for data, words in (
        (pack(999_999, payload), "schema 999999 is not registered"),
        (b"plain text", "begins with byte 112, not 0"),
        (pack(schema_id, payload[:3]), "the payload cannot be decoded as Reading"),
        (None, "the record has no value"),
    ):
        with pytest.raises(DecodeError, match=words) as raised:
            decoder(data)
        assert raised.value.topic == topic.name


def test_a_registry_that_does_not_answer_is_told_soon_and_without_secrets(connection: Connection) -> None:
    nobody = Connection(
        bootstrap_servers=connection.bootstrap_servers,
        registry_url="http://127.0.0.1:1/apis/ccompat/v7",
        registry={"basic.auth.user.info": "me:hunter2"},
    )
    began = time.monotonic()
    for ask in (lambda r: r.ping(), lambda r: r.register(declared()), lambda r: r.schema(1)):
        with Registry(nobody) as registry, pytest.raises(RegistryUnreachableError) as raised:
            ask(registry)
        assert str(raised.value).startswith(
            "no schema registry answers at http://127.0.0.1:1/apis/ccompat/v7"
        )
        assert raised.value.hint == 'try "gearshift up"'
        assert "hunter2" not in "".join(traceback.format_exception(raised.value))
    assert time.monotonic() - began < 20


def test_a_registry_that_is_there_answers(registry: Registry) -> None:
    registry.ping()


# Dead letters


def test_a_dead_letter_keeps_its_bytes_and_says_why(connection: Connection, readings: Topic) -> None:
    letter = DeadLetter(
        topic=readings.name,
        partition=2,
        offset=77,
        key=b"m-1",
        value=b"\x00\x01garbage",
        headers=(("trace", b"abc"), ("empty", None)),
        app="smart-meter",
        pipeline="load_alerts",
        reason="not readable as Avro",
        schema_id=5,
    )
    with DeadLetters(connection) as dead_letters:
        assert dead_letters.write([letter, letter]) == 2
    first, _ = read(connection, readings.dead_letters)
    assert (first.key, first.value) == (b"m-1", b"\x00\x01garbage")
    assert first.header("trace") == b"abc"
    assert first.header("__connect.errors.offset") == b"77"
    assert first.header("gearshift.reason") == b"not readable as Avro"


def test_a_dead_letter_that_cannot_be_written_is_an_error(connection: Connection, unique: str) -> None:
    # A topic that somebody else has made, with room for a megabyte.
    small = NewTopic(f"{unique}.dlq", 1, 1, config={"max.message.bytes": "1000000"})
    with AdminClient(librdkafka(connection)) as maker:
        maker.create_topics([small])[small.topic].result(30)
    letter = DeadLetter(
        topic=unique,
        partition=0,
        offset=0,
        key=None,
        value=os.urandom(2_000_000),
        app="a",
        pipeline="p",
        reason="r",
    )
    with (
        DeadLetters(connection) as dead_letters,
        pytest.raises(ProduceError, match=rf"1 record could not be delivered to {unique}\.dlq"),
    ):
        dead_letters.write([letter])


def test_writers_that_share_a_producer_each_get_their_own_failures(
    connection: Connection, unique: str
) -> None:
    small = NewTopic(f"{unique}.dlq", 1, 1, config={"max.message.bytes": "1000000"})
    with AdminClient(librdkafka(connection)) as maker:
        maker.create_topics([small])[small.topic].result(30)
    all_sent = threading.Barrier(4)

    def letters(writer: int) -> Iterator[DeadLetter]:
        for offset in range(3):
            yield DeadLetter(
                topic=unique,
                partition=writer,
                offset=offset,
                key=None,
                value=os.urandom(2_000_000 if writer else 10),
                app="a",
                pipeline=f"p{writer}",
                reason="r",
            )
        all_sent.wait(30)

    with DeadLetters(connection) as dead_letters, ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(dead_letters.write, letters(writer)) for writer in range(4)]
        failures = [future.exception(60) for future in writing]
    assert failures[0] is None
    assert [str(failure).partition(":")[0] for failure in failures[1:]] == [
        f"3 records could not be delivered to {unique}.dlq"
    ] * 3


def test_a_missing_dead_letter_topic_is_made_again(
    connection: Connection, admin: Admin, readings: Topic
) -> None:
    letter = DeadLetter(
        topic=readings.name, partition=0, offset=0, key=None, value=b"x", app="a", pipeline="p", reason="r"
    )
    with DeadLetters(connection) as dead_letters:
        assert dead_letters.write([letter]) == 1
        admin.delete([readings.dead_letters])
        assert dead_letters.write([letter]) == 1
        assert [record.value for record in read(connection, readings.dead_letters)] == [b"x"]
