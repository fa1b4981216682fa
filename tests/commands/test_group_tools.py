"""`gearshift group` on real groups: of both protocols, with and without members, and mirrored ones."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from gearshift.connection import Connection
from gearshift.definitions import Location, Topic
from gearshift.errors import DeliveryError
from gearshift.freshness import Gear
from gearshift.pipelines.ledger.ledger import Ledger
from gearshift.storage.folders import LocalFolder
from gearshift.topics import Admin, Groups, Producer
from tests.command import Command
from tests.support import LATELY, eventually, librdkafka

HERE = Location(__file__, 1)
DAY = timedelta(days=1)


@pytest.fixture
def topic(connection: Connection, unique: str) -> str:
    """A topic of two partitions with a hundred records of one day and a hundred of the next."""
    with Admin(connection) as admin:
        admin.ensure([Topic(name=unique, value=str, partitions=2, defined_at=HERE)])
    with Producer(connection) as producer:
        for number in range(200):
            written = LATELY if number < 100 else LATELY + DAY
            producer.send_bytes(unique, b"value", key=b"%d" % number, timestamp=written)
    return unique


@contextmanager
def member(connection: Connection, group_id: str, topic: str, protocol: str) -> Iterator[Consumer]:
    """A consumer that has joined the group and holds the topic's partitions."""
    consumer = Consumer(
        {
            **librdkafka(connection),
            "group.id": group_id,
            "group.protocol": protocol,
            "client.id": f"{protocol}-member",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    try:
        first = eventually(lambda: consumer.poll(0.1))
        assert first.error() is None
        yield consumer
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_group_with_members_is_listed_with_its_lag_and_refuses_a_reset(
    command: Command, connection: Connection, topic: str, protocol: str
) -> None:
    group = f"{topic}.{protocol}"
    with Groups(connection) as groups, member(connection, group, topic, protocol) as consumer:
        consumer.commit(asynchronous=False)
        eventually(
            lambda: sum(len(each.partitions) for each in groups.find(group).members) == 2,
        )
        listed = {entry["group"]: entry for entry in command.data("group", "list")}
        assert listed[group]["protocol"] == protocol
        assert [(each["client_id"], each["partitions"]) for each in listed[group]["members"]] == [
            (f"{protocol}-member", 2)
        ]

        [told] = command.data("group", "lag", group)
        ends = {entry["partition"]: entry["end"] for entry in told["partitions"]}
        assert sum(ends.values()) == 200
        behind = {entry["partition"]: entry["lag"] for entry in told["partitions"]}
        for entry in told["partitions"]:
            expected = None if entry["committed"] is None else entry["end"] - entry["committed"]
            assert behind[entry["partition"]] == expected
            assert entry["member"].startswith(f"{protocol}-member@")
        assert told["lag"] == sum(lag or 0 for lag in behind.values())

        for yes in ((), ("--yes",)):
            said = command.refusal("group", "reset", group, "--topic", topic, "--to", "earliest", *yes)
            assert f"group {group} is active: 1 member" in said
            assert "hint: stop its consumers first" in said
    # Once the member is gone, the same command is taken.
    command.data("group", "reset", group, "--topic", topic, "--to", "latest", "--yes")
    [told] = command.data("group", "lag", group)
    assert [entry["lag"] for entry in told["partitions"]] == [0, 0]


def test_a_reset_says_what_it_would_do_and_does_it_only_when_told(
    command: Command, connection: Connection, topic: str
) -> None:
    with Admin(connection) as admin:
        admin.commit_group(topic, {(topic, 0): 5})
        begin, end = admin.begin_offsets([topic]), admin.end_offsets([topic])
        second_day = admin.offsets_at([topic], LATELY + DAY)

        def reset(to: str, *more: str) -> dict[tuple[str, int], int]:
            told = command.data("group", "reset", topic, "--topic", topic, "--to", to, *more)
            assert told["done"] == ("--yes" in more)
            return {(topic, change["partition"]): change["after"] for change in told["changes"]}

        assert reset("latest") == end
        assert admin.group_offsets(topic, [topic]) == {(topic, 0): 5}
        assert reset("latest", "--yes") == end
        assert admin.group_offsets(topic, [topic]) == end
        assert reset("earliest", "--yes") == begin
        assert reset((LATELY + DAY).isoformat(), "--yes") == second_day
        assert admin.group_offsets(topic, [topic]) == second_day
        assert all(begin[place] < offset < end[place] for place, offset in second_day.items())
        assert reset("7", "--yes") == {(topic, 0): 7, (topic, 1): 7}
        # An offset beyond the end is the end.
        assert reset("1000000", "--yes") == end


def test_what_cannot_be_reset_is_refused_with_what_to_do(
    command: Command, connection: Connection, topic: str
) -> None:
    with Admin(connection) as admin:
        admin.commit_group(topic, {(topic, 0): 5})
    said = command.refusal("group", "reset", f"{topic}-misspelt", "--topic", topic, "--to", "latest")
    assert f"group '{topic}-misspelt' does not exist" in said
    assert "hint: use one of " in said
    said = command.refusal("group", "reset", topic, "--topic", f"{topic}-misspelt", "--to", "latest")
    assert "the topic does not exist" in said
    for to in ("yesterday", "2026-01-01T00:00:00"):
        said = command.refusal("group", "reset", topic, "--topic", topic, "--to", to, code=2)
        assert "hint: use " in said


def test_the_group_of_a_pipeline_shows_its_lag_but_is_not_reset(
    command: Command, connection: Connection, topic: str, tmp_path: Path
) -> None:
    group = f"{topic}.copy"
    with Admin(connection) as admin:
        admin.commit_group(group, {(topic, 0): 1})
    Ledger(LocalFolder(tmp_path / f".gearshift/checkpoints/{topic}/copy"), topic, "copy").begin(
        Gear.BATCH, Gear.BATCH, "start", datetime.now(UTC)
    )
    assert group in [entry["group"] for entry in command.data("group", "list")]
    [told] = command.data("group", "lag", group)
    assert told["lag"] > 0
    said = command.refusal("group", "reset", group, "--topic", topic, "--to", "latest", "--yes")
    assert "mirrors the pipeline's checkpoint" in said


def test_lag_is_watched_until_it_is_interrupted(command: Command, connection: Connection, topic: str) -> None:
    with Admin(connection) as admin:
        admin.commit_group(topic, {(topic, 0): 5})
        watching = command.start("group", "lag", topic, "--watch", "-o", "json")
        try:
            assert watching.stdout is not None
            first = json.loads(watching.stdout.readline())
            admin.commit_group(topic, {(topic, 0): 6})
            second = json.loads(watching.stdout.readline())
            assert first[0]["lag"] - second[0]["lag"] in (0, 1)
            third = json.loads(watching.stdout.readline())
            assert first[0]["lag"] - third[0]["lag"] == 1
        finally:
            watching.send_signal(signal.SIGINT)
            _, said = watching.communicate(timeout=20)
        assert watching.returncode == 0
        assert said == "stopped\n"


def test_a_group_without_commits_is_told_by_name(connection: Connection, unique: str) -> None:
    with Groups(connection) as groups, pytest.raises(DeliveryError, match=f"group '{unique}' does not exist"):
        groups.lag(unique)
