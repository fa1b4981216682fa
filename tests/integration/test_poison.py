"""Ten thousand records of every kind that cannot be decoded: each is set aside or counted as lost, in every gear."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame

import gearshift as gs
from gearshift import stack as local
from gearshift.connection import Connection
from gearshift.freshness import Gear
from gearshift.pipelines.ledger.ledger import Ledger
from gearshift.runner.runner import Runner
from gearshift.schemas import Registry, encode, pack
from gearshift.settings import Settings, load
from gearshift.storage.folders import open_folder
from gearshift.topics import ConsumedRecord, DeadLetter, DeadLetters, Producer, read
from tests.support import LATELY, cluster, eventually, librdkafka

POISON = 10_000
GOOD = 2_000


@dataclass
class Reading:
    key: str
    n: int
    at: datetime
    load: float | None = None


def good(number: int) -> Reading:
    return Reading(f"k{number % 50}", number, LATELY)


def avro_poison(schema_id: int) -> list[bytes | None]:
    payload = encode(good(7))
    return [
        b"garbage",
        b"",
        None,
        b"\x00\x00",
        b"\x01" + pack(schema_id, payload)[1:],  # another magic byte
        pack(2**31 - 1, payload),  # a schema id nobody registered
        pack(schema_id, b""),
        pack(schema_id, payload[:3]),  # truncated
        pack(schema_id, payload.replace(b"k7", b"\xff\xfe")),  # no UTF-8
        pack(schema_id, b"\x04k7\x0e" + b"\xfe" + b"\xff" * 8 + b"\x01" + b"\x00"),  # the year 294247
        pack(schema_id, b"\xff" * 20),  # a length without end
    ]


def json_poison(schema_id: int) -> list[bytes | None]:
    texts = [
        b"{",
        b'{"key": "k7", "n": 1}',  # `at` is missing
        b'{"key": "k7", "n": "many", "at": "2026-01-01T00:00:00Z"}',
        b'{"key": "\xff", "n": 1, "at": "2026-01-01T00:00:00Z"}',
        b"[1, 2]",
        b"7",
    ]
    return [None, b"", b"garbage", *(pack(schema_id, text) for text in texts)]


@pytest.fixture(scope="module")
def runner(stack: local.Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    app = gs.App("poison")
    for form in ("avro", "json"):
        source = app.topic(f"poison-{form}", value=Reading, key="key", partitions=2, format=form)
        target = app.topic(f"poison-{form}-copies", value=Reading, key="key")

        def copy(readings: DataFrame) -> DataFrame:
            return readings

        copy.__name__ = f"copy_{form}"
        app.pipeline(source=source, to=target, gear="near-real-time", freshness="10 seconds")(copy)
    folder: Path = tmp_path_factory.mktemp("poison")
    settings = load(
        {"home": folder, **cluster(stack.connection), "checkpoint_interval": "5 seconds"},
        folder=folder,
        environ={},
    )
    with Runner(app, settings) as running:
        yield running


@pytest.mark.parametrize("gear", [Gear.NEAR_REAL_TIME, Gear.REAL_TIME, Gear.BATCH])
@pytest.mark.parametrize("form", ["avro", "json"])
def test_what_is_observed_is_written(runner: Runner, form: str, gear: Gear) -> None:
    connection, topic = runner.context.connection, runner.graph.topics[f"poison-{form}"]
    name = f"copy_{form}"
    runner.shift(name, gear)
    ledger = runner.supervisors[name].ledger
    with Registry(connection) as registry:
        schema_id = registry.register(topic)
    kinds = avro_poison(schema_id) if form == "avro" else json_poison(schema_id)
    before, out = _origins(connection, topic.dead_letters), _count(runner, f"{topic.name}-copies")
    sent = len(before)
    with Producer(connection) as producer:
        for number in range(POISON + GOOD):
            if number % 6:
                producer.send_bytes(topic.name, kinds[sent % len(kinds)], key=b"poison")
                sent += 1
            else:
                producer.send(topic, good(number))
    if gear is Gear.BATCH:
        runner.shift(name, gear)
    eventually(lambda: len(_origins(connection, topic.dead_letters)) >= sent, every=0.5, within=120)
    found = _origins(connection, topic.dead_letters)
    assert len(found) == len(set(found)) == sent
    poisoned = {
        (each.partition, each.offset): each for each in read(connection, topic.name) if each.key == b"poison"
    }
    assert set(found) == set(poisoned)
    for letter in read(connection, topic.dead_letters):
        assert letter.value == poisoned[_origin(letter)].value
        assert letter.header("gearshift.reason")
    eventually(lambda: ledger.letters == {"observed": sent, "written": sent, "lost": 0, "pending": 0})
    eventually(lambda: _count(runner, f"{topic.name}-copies") == out + GOOD)
    assert runner.supervisors[name].condition.restarts == 0


def test_what_retention_took_is_told_once_and_holds_up_nothing(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    connection, topic = runner.context.connection, runner.graph.topics["poison-avro"]
    supervisor = runner.supervisors["copy_avro"]
    runner.shift("copy_avro", Gear.NEAR_REAL_TIME)
    recorder, ledger = supervisor.recorder, supervisor.ledger
    before = dict(ledger.letters)
    caplog.set_level(logging.ERROR, "gearshift.pipelines.dead_letters.backlog")
    held = recorder.letters.letters
    recorder.letters.letters = _Refusing()  # pyright: ignore[reportAttributeAccessIssue]
    try:
        with Producer(connection) as producer:
            for _ in range(10):
                producer.send_bytes(topic.name, b"taken by retention", key=b"poison")
        eventually(lambda: ledger.letters["pending"] == 10)
    finally:
        _delete_all(connection, topic.name)
        recorder.letters.letters = held
    with Producer(connection) as producer:
        producer.send_bytes(topic.name, b"still there", key=b"poison")
    eventually(
        lambda: ledger.letters["pending"] == 0 and ledger.letters["observed"] == before["observed"] + 11
    )
    assert ledger.letters["lost"] == before["lost"] + 10
    assert ledger.letters["written"] == before["written"] + 1
    told = [each.getMessage() for each in caplog.records if "lost without a dead letter" in each.getMessage()]
    assert len(told) == 1
    assert "10 of 10 corrupt records of poison-avro" in told[0] and "retention removed offsets" in told[0]
    status = next(each for each in runner.status()["pipelines"] if each["name"] == "copy_avro")
    assert (status["dead_letters_lost"], status["dead_letters_pending"]) == (before["lost"] + 10, 0)


def test_letters_that_a_run_left_are_written_by_the_next_and_none_twice(
    unique: str, settings: Settings
) -> None:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Reading, key="key", partitions=2)
    copies = app.topic(f"{unique}-copies", value=Reading, key="key")

    @app.pipeline(source=events, to=copies, gear="near-real-time", freshness="10 seconds")
    def copy(events: DataFrame) -> DataFrame:
        return events

    with Runner(app, settings) as runner:
        connection, recorder = runner.context.connection, runner.supervisors["copy"].recorder
        recorder.letters.letters = _Failing(recorder.letters.letters)  # pyright: ignore[reportAttributeAccessIssue]
        with Producer(connection) as producer:
            for number in range(3000):
                producer.send_bytes(events.name, b"garbage %d" % number, key=b"%d" % number)
            producer.send(events, good(1))
        eventually(lambda: len(_origins(connection, events.dead_letters)) >= 1000, every=0.3)
        eventually(lambda: recorder.ledger.letters["pending"] == 3000)
    kept = Ledger(open_folder(f"{settings.checkpoints_uri}/{unique}/copy"), unique, "copy")
    assert [entry.observed for entry in kept.pending] and kept.letters["pending"] == 3000
    with Runner(app, settings) as runner:
        ledger = runner.supervisors["copy"].ledger
        eventually(lambda: ledger.letters == {"observed": 3000, "written": 3000, "lost": 0, "pending": 0})
    found = _origins(connection, events.dead_letters)
    assert len(found) == len(set(found)) == 3000


class _Failing:
    """Writes a thousand letters, then no more."""

    def __init__(self, letters: DeadLetters) -> None:
        self._letters, self._left = letters, 1000

    def write(self, letters: Sequence[DeadLetter]) -> int:
        some = list(letters)[: self._left]
        self._left -= len(some)
        self._letters.write(some)
        raise OSError("the disk is full")


class _Refusing:
    def write(self, letters: object) -> int:
        raise OSError("the disk is full")


def _delete_all(connection: Connection, topic: str) -> None:
    admin = AdminClient(librdkafka(connection))
    ends = [TopicPartition(topic, partition, -1) for partition in range(2)]
    for done in admin.delete_records(ends).values():
        done.result()


def _count(runner: Runner, topic: str) -> int:
    return sum(runner.context.admin.end_offsets([topic]).values())


def _origins(connection: Connection, topic: str) -> list[tuple[int, int]]:
    return [_origin(letter) for letter in read(connection, topic)]


def _origin(letter: ConsumedRecord) -> tuple[int, int]:
    partition, offset = letter.header("__connect.errors.partition"), letter.header("__connect.errors.offset")
    assert partition is not None and offset is not None
    return int(partition), int(offset)
