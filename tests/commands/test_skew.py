"""`gearshift topic` on a real broker: where the load lies, and what to do about it."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from random import Random

import pytest

from gearshift.connection import Connection
from gearshift.definitions import Location, Topic
from gearshift.topics import Admin, Producer, partition_of
from gearshift.topics.skew.sampling import measure
from gearshift.topics.skew.verdict import Kind
from tests.command import Command
from tests.support import LATELY

HERE = Location(__file__, 1)


@pytest.fixture
def topic(connection: Connection, unique: str) -> str:
    with Admin(connection) as admin:
        admin.ensure([Topic(name=unique, value=str, partitions=4, defined_at=HERE)])
    return unique


def send(
    connection: Connection, topic: str, keys: list[bytes | None], written: datetime | None = None
) -> None:
    with Producer(connection) as producer:
        for key in keys:
            producer.send_bytes(topic, b"x" * 50, key=key, timestamp=written)


def test_a_hot_key_is_named_with_its_share_and_what_to_do(
    command: Command, connection: Connection, topic: str
) -> None:
    chance = Random(3)
    keys: list[bytes | None] = [
        b"\x1bhot" if chance.random() < 0.8 else b"meter-%d" % chance.randrange(500) for _ in range(20_000)
    ]
    send(connection, topic, keys)
    told = command.data("topic", "skew", topic)
    spread = Counter(partition_of(key or b"", 4) for key in keys)
    assert {entry["partition"]: entry["records"] for entry in told["partitions"]} == spread
    assert sum(entry["bytes"] for entry in told["partitions"]) == sum(len(key or b"") + 50 for key in keys)
    hottest = told["keys"][0]
    assert (hottest["key"], hottest["partition"]) == ("\\x1bhot", partition_of(b"\x1bhot", 4))
    assert hottest["share"] == pytest.approx(0.8, abs=0.02)
    assert told["verdict"]["kind"] == "hot key"
    assert told["sampled"] == 20_000
    done = command("topic", "skew", topic, "--sample", "4000")
    assert "hot key: key \\x1bhot has 8" in done.stdout
    assert "hint: salt it" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_sample_has_the_shares_of_the_whole(connection: Connection, topic: str) -> None:
    chance = Random(4)
    send(
        connection,
        topic,
        [b"hot" if chance.random() < 0.6 else b"%d" % chance.randrange(900) for _ in range(9000)],
    )
    found = measure(connection, topic, sample=1000)
    assert 1000 <= found.sampled <= 1004
    assert sum(load.records for load in found.partitions) == 9000
    assert found.keys[0].share == pytest.approx(0.6, abs=0.06)
    assert found.verdict.kind is Kind.HOT_KEY


def test_only_what_came_since_a_time_counts(command: Command, connection: Connection, topic: str) -> None:
    send(connection, topic, [b"old"] * 2000, LATELY)
    send(connection, topic, [b"%d" % number for number in range(3000)], LATELY + timedelta(days=2))
    assert command.data("topic", "skew", topic)["verdict"]["kind"] == "hot key"
    told = command.data("topic", "skew", topic, "--since", (LATELY + timedelta(days=1)).isoformat())
    assert told["sampled"] == sum(entry["records"] for entry in told["partitions"]) == 3000
    assert told["verdict"]["kind"] == "no skew"
    assert "has no time zone" in command.refusal("topic", "skew", topic, "--since", "2026-01-02", code=2)
    assert "is not a time" in command.refusal("topic", "skew", topic, "--since", "latest", code=2)


def test_an_even_topic_with_a_group_far_behind_has_a_slow_destination(
    command: Command, connection: Connection, topic: str
) -> None:
    send(connection, topic, [b"%d" % number for number in range(8000)])
    group = f"{topic}-reader"
    with Admin(connection) as admin:
        admin.commit_group(group, {(topic, partition): 10 for partition in range(4)})
        told = command.data("topic", "skew", topic)
        assert told["verdict"]["kind"] == "slow destination"
        assert told["groups"] == [{"group": group, "lag": 7960}]
        assert f"group {group} is 7,960 records behind" in told["verdict"]["what"]
        ends = admin.end_offsets([topic])
        admin.commit_group(group, {place: end if place[1] else 10 for place, end in ends.items()})
        assert command.data("topic", "skew", topic)["verdict"]["kind"] == "slow partition"


def test_records_without_a_key_and_an_empty_topic_are_told_as_they_are(
    command: Command, connection: Connection, topic: str
) -> None:
    assert command.data("topic", "skew", topic)["verdict"]["what"] == "the topic is empty"
    # What librdkafka queued before it knew the partitions may all go to one of them.
    send(connection, topic, [None] * 20_000)
    told = command.data("topic", "skew", topic)
    assert told["keys"] == []
    assert told["verdict"]["kind"] == "no skew"
    listed = {entry["topic"]: entry for entry in command.data("topic", "list")}
    assert listed[topic] == {"topic": topic, "partitions": 4, "replicas": 1, "records": 20_000}
    assert f"{topic}.dlq" in listed
    assert "the topic does not exist" in command.refusal("topic", "skew", f"{topic}-misspelt")
