"""One record in ten cannot be decoded: exactly those are set aside, in every gear, and nothing stops."""

from __future__ import annotations

from pyspark.sql import DataFrame

import gearshift as gs
from gearshift.connection import Connection
from gearshift.freshness import Gear
from gearshift.runner.runner import Runner
from gearshift.schemas import Registry, encode, pack
from gearshift.settings import Settings
from gearshift.topics import ConsumedRecord, Producer, read
from tests.flow import Event, Flow, values
from tests.support import eventually


def test_exactly_the_undecodable_records_are_set_aside_in_every_gear(unique: str, settings: Settings) -> None:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key", partitions=3)
    copies = app.topic(f"{unique}-copies", value=Event, key="key", partitions=3)

    @app.pipeline(source=events, to=copies, gear="near-real-time", freshness="10 seconds")
    def copy(events: DataFrame) -> DataFrame:
        return events

    with Runner(app, settings) as runner:
        connection = runner.context.connection
        schema_id = runner.context.admin and _schema_id(connection, events)
        with Flow(connection, events, rate=300, corrupt_every=10) as flow:
            for gear in (Gear.NEAR_REAL_TIME, Gear.REAL_TIME, Gear.BATCH):
                runner.shift("copy", gear)
                _send_truncated(connection, events, schema_id, 7)
                target = flow.sent
                eventually(lambda target=target: flow.sent > target + 1000)
        runner.shift("copy", Gear.BATCH)
        ledger = runner.supervisors["copy"].ledger
        restarts = runner.supervisors["copy"].condition.restarts

    letters = list(read(connection, events.dead_letters))
    bad = {(record.partition, record.offset): record for record in _undecodable(connection, events)}
    assert len(bad) == flow.corrupt + 3 * (7 + 1)
    assert sorted(_origin(letter) for letter in letters) == sorted(bad)
    for letter in letters:
        original = bad[_origin(letter)]
        assert (letter.key, letter.value) == (original.key, original.value)
        assert letter.header("__connect.errors.topic") == events.name.encode()
        assert letter.header("__connect.errors.connector.name") == f"{unique}.copy".encode()
        assert letter.header("gearshift.reason")
    truncated = [letter for letter in letters if letter.key == b"truncated"]
    assert {letter.header("gearshift.schema_id") for letter in truncated} == {str(schema_id).encode()}
    reasons = [letter.header("gearshift.reason") for letter in truncated]
    assert reasons.count(b"field key: is not valid UTF-8") == 3
    assert {event.n for event in values(connection, copies)} == set(range(flow.sent))
    assert sum(run.dead for run in ledger.runs) == len(bad)
    assert ledger.gap == 0
    assert restarts == 0


def _schema_id(connection: Connection, topic: gs.Topic) -> int:
    with Registry(connection) as registry:
        return registry.register(topic)


def _send_truncated(connection: Connection, topic: gs.Topic, schema_id: int, count: int) -> None:
    """Records in the right wire format whose payload ends too early, and one whose text is not UTF-8."""
    with Producer(connection) as producer:
        for number in range(count):
            payload = encode(Event(key="a-longer-key", n=number))[: 2 + number % 3]
            producer.send_bytes(topic.name, pack(schema_id, payload), key=b"truncated")
        text = encode(Event(key="ab", n=0)).replace(b"ab", b"\xff\xfe")
        producer.send_bytes(topic.name, pack(schema_id, text), key=b"truncated")


def _undecodable(connection: Connection, topic: gs.Topic) -> list[ConsumedRecord]:
    return [record for record in read(connection, topic.name) if record.key in (b"x", b"truncated")]


def _origin(letter: ConsumedRecord) -> tuple[int, int]:
    partition, offset = letter.header("__connect.errors.partition"), letter.header("__connect.errors.offset")
    assert partition is not None and offset is not None
    return int(partition), int(offset)
