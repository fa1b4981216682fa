"""Producers wait while the slowest reader of a topic is more than `max_lag` behind, and no longer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from confluent_kafka import Consumer

import gearshift as gs
from gearshift.connection import Connection
from gearshift.definitions import Location, Source, Topic
from gearshift.sources import Simulator
from gearshift.topics import Admin, Pressure, Producer
from tests.support import closed_port, eventually, librdkafka

HERE = Location(__file__, 1)


@dataclass(frozen=True)
class Reading:
    meter_id: str


@pytest.fixture
def admin(connection: Connection) -> Iterator[Admin]:
    with Admin(connection) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin, unique: str) -> Topic:
    topic = Topic(name=unique, value=Reading, key="meter_id", partitions=2, max_lag=1000, defined_at=HERE)
    admin.ensure([topic])
    return topic


def fill(connection: Connection, topic: Topic, count: int) -> None:
    """Put records on the topic past any pressure."""
    with Producer(connection) as producer:
        for number in range(count):
            producer.send(replace(topic, max_lag=None), Reading(f"meter-{number}"))


def read_up_to(admin: Admin, topic: Topic, group_id: str, *, lag: int) -> None:
    """Commit for a group so that it is this far behind."""
    left = lag
    for place, end in admin.end_offsets([topic.name]).items():
        short = min(left, end)
        admin.commit_group(group_id, {place: end - short})
        left -= short
    assert left == 0


@contextmanager
def sending(producer: Producer, topic: Topic, count: int) -> Iterator[threading.Thread]:
    thread = threading.Thread(
        target=lambda: [producer.send(topic, Reading(f"meter-{number}")) for number in range(count)]
    )
    thread.start()
    try:
        yield thread
    finally:
        producer.release()
        thread.join(30)


def test_a_producer_waits_for_the_slowest_group_and_goes_on_when_it_has_caught_up(
    connection: Connection, admin: Admin, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    fill(connection, topic, 3000)
    read_up_to(admin, topic, f"{topic.name}-quick", lag=0)
    read_up_to(admin, topic, f"{topic.name}-slow", lag=2000)
    with Producer(connection) as producer, sending(producer, topic, 100) as thread:
        eventually(lambda: producer.throttled > 0.5)
        assert sum(admin.end_offsets([topic.name]).values()) == 3000
        # Just below the limit is not enough, or it would stop again at once.
        read_up_to(admin, topic, f"{topic.name}-slow", lag=950)
        waited = producer.throttled
        eventually(lambda: producer.throttled > waited + 2)
        assert thread.is_alive()
        read_up_to(admin, topic, f"{topic.name}-slow", lag=890)
        eventually(lambda: not thread.is_alive())
    assert sum(admin.end_offsets([topic.name]).values()) == 3100
    [said] = [entry.getMessage() for entry in caplog.records if entry.name == "gearshift.topics.producer"]
    assert said == (
        f"producers of {topic.name} are waiting: group {topic.name}-slow is 2000 records behind, more than max_lag=1000"
    )


def test_without_a_group_or_without_a_limit_nobody_waits(
    connection: Connection, admin: Admin, topic: Topic
) -> None:
    with Producer(connection) as producer:
        for number in range(3000):
            producer.send(topic, Reading(f"meter-{number}"))
        producer.flush()
        assert producer.throttled == 0
        read_up_to(admin, topic, topic.name, lag=3000)
        producer.send(replace(topic, max_lag=None), Reading("last"))
        assert producer.throttled == 0


def test_the_lag_is_told_by_group_and_followed(connection: Connection, admin: Admin, topic: Topic) -> None:
    fill(connection, topic, 500)
    with Pressure(connection, every=timedelta(milliseconds=100)) as pressure:
        assert pressure.behind(topic.name) == 0
        assert pressure.slowest(topic.name) is None
        read_up_to(admin, topic, topic.name, lag=300)
        eventually(lambda: pressure.slowest(topic.name) == (topic.name, 300))
        fill(connection, topic, 100)
        eventually(lambda: pressure.behind(topic.name) == 400)
        assert pressure.behind(f"{topic.name}-misspelt") == 0
        assert not pressure.presses(topic)


def test_a_pipeline_that_is_behind_until_its_next_batch_holds_nobody_up(
    connection: Connection, admin: Admin, topic: Topic
) -> None:
    fill(connection, topic, 2000)
    admin.mirror_group(topic.name, dict.fromkeys(admin.end_offsets([topic.name]), 0))
    with Pressure(connection, every=timedelta(milliseconds=100)) as pressure:
        assert pressure.slowest(topic.name) is None
        read_up_to(admin, topic, f"{topic.name}-other", lag=1500)
        eventually(lambda: pressure.slowest(topic.name) == (f"{topic.name}-other", 1500))


def test_a_group_with_members_presses_as_well(connection: Connection, admin: Admin, topic: Topic) -> None:
    fill(connection, topic, 2500)
    consumer = Consumer(
        {
            **librdkafka(connection),
            "group.id": topic.name,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic.name])
    try:
        taken = [eventually(lambda: consumer.poll(0.1))]
        with Pressure(connection, every=timedelta(milliseconds=100)) as pressure:
            assert not pressure.presses(topic)  # it has committed nothing yet
            while len(taken) < 2500:
                taken += consumer.consume(500, 0.5)
                consumer.commit(message=taken[0], asynchronous=False)
            eventually(lambda: pressure.presses(topic))
            consumer.commit(asynchronous=False)
            eventually(lambda: not pressure.presses(topic))
    finally:
        consumer.close()


def test_a_simulated_source_slows_down_as_well(connection: Connection, admin: Admin, topic: Topic) -> None:
    fill(connection, topic, 1500)
    read_up_to(admin, topic, topic.name, lag=1500)
    source = Source(
        name="meters", generate=lambda: (Reading(f"meter-{number}") for number in range(50)),
        topic=topic, rate=1000, defined_at=HERE,
    )  # fmt: skip
    simulator = Simulator(source, connection)
    simulator.open()
    with Pressure(connection) as pressure:
        eventually(lambda: pressure.presses(topic))
        assert simulator.sent == 0 and simulator.running
    read_up_to(admin, topic, topic.name, lag=0)
    eventually(lambda: not simulator.running)
    assert simulator.sent == 50 and simulator.error is None


def test_brokers_that_do_not_answer_hold_nobody_back() -> None:
    nowhere = Connection(bootstrap_servers=f"127.0.0.1:{closed_port()}", registry_url="http://127.0.0.1:1")
    with Pressure(nowhere) as pressure:
        assert pressure.behind("readings") == 0


def test_an_app_declares_the_limit_of_a_topic(unique: str) -> None:
    assert gs.App(unique).topic(unique, value=Reading, max_lag=5).max_lag == 5
