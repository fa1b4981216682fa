"""`gearshift dlq` on a real broker: counted, shown, sent back to where they failed, once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest

from gearshift.connection import Connection
from gearshift.definitions import Location, Topic
from gearshift.errors import FencedError
from gearshift.topics import (
    Admin,
    ConsumedRecord,
    DeadLetter,
    DeadLetters,
    Producer,
    TransactionalProducer,
    read,
    replayed_place,
)
from gearshift.topics.dead_letters.letters import DeadLetterTopic, Filter
from gearshift.topics.dead_letters.replay import discard, replay
from tests.command import Command

HERE = Location(__file__, 1)


@pytest.fixture
def topic(connection: Connection, unique: str) -> str:
    with Admin(connection) as admin:
        admin.ensure([Topic(name=unique, value=str, partitions=3, defined_at=HERE)])
    return unique


def of_pipeline(topic: str, place: tuple[int, int], pipeline: str = "copy", **more: Any) -> DeadLetter:
    fields: dict[str, Any] = {
        "key": b"key",
        "value": b"\x00\x1b[2Jbroken",
        "app": "meter",
        "pipeline": pipeline,
        "reason": "not in the wire format",
        **more,
    }
    return DeadLetter(topic=topic, partition=place[0], offset=place[1], **fields)


def of_delivery(topic: str, place: tuple[int, int], group_id: str = "sms-sender", **more: Any) -> DeadLetter:
    fields: dict[str, Any] = {
        "key": b"meter-%d" % place[1],
        "value": b"load %d" % place[1],
        "headers": (("trace", b"t-%d" % place[1]),),
        "app": "meter",
        "delivery": "text_owner",
        "group_id": group_id,
        "stage": "TASK_PUT",
        "exception": "gearshift.errors.PermanentError",
        "reason": "no such number",
        "stacktrace": "Traceback",
        **more,
    }
    return DeadLetter(topic=topic, partition=place[0], offset=place[1], **fields)


def write(connection: Connection, *letters: DeadLetter) -> None:
    with DeadLetters(connection) as dead_letters:
        dead_letters.write(letters)


def on(connection: Connection, topic: str) -> list[ConsumedRecord]:
    admin = Admin(connection)
    if topic not in admin.describe([topic]):
        return []
    admin.await_stable([topic])
    return list(read(connection, topic))


def still_open(connection: Connection, topic: str) -> int:
    return sum(1 for _ in DeadLetterTopic(connection, topic).open_letters())


def test_open_letters_are_counted_by_who_failed_and_why(
    command: Command, connection: Connection, topic: str
) -> None:
    write(
        connection,
        *(of_pipeline(topic, (0, offset)) for offset in range(3)),
        *(of_delivery(topic, (1, offset)) for offset in range(5)),
        of_delivery(topic, (2, 0), reason="[red]too[/] late\x1b[2J"),
    )
    [listed] = [entry for entry in command.data("dlq", "list") if entry["topic"] == topic]
    assert listed["open"] == 9
    assert listed["oldest"] <= listed["newest"]
    causes = [(cause["failed_in"], cause["reason"], cause["open"]) for cause in listed["causes"]]
    assert causes[:2] == [("sms-sender", "no such number", 5), ("meter.copy", "not in the wire format", 3)]
    said = command("dlq", "list").stdout
    assert "[red]too[/] late" in said
    assert "\x1b" not in said


def test_a_letter_is_shown_with_its_place_and_reason_and_cannot_harm_the_terminal(
    command: Command, connection: Connection, topic: str
) -> None:
    write(connection, of_pipeline(topic, (2, 41), schema_id=7), of_delivery(topic, (1, 42)))
    told = command.data("dlq", "show", f"{topic}.dlq", "--filter", "pipeline=copy")
    assert told["open"] == 1
    [letter] = told["letters"]
    assert (letter["partition"], letter["offset"]) == (2, 41)
    assert (letter["failed_in"], letter["stage"]) == ("meter.copy", "VALUE_CONVERTER")
    assert letter["value"] == "\\x00\\x1b[2Jbroken"
    assert letter["bytes"] == len(b"key" + b"\x00\x1b[2Jbroken")
    done = command("dlq", "show", topic, "--limit", "1")
    assert done.returncode == 0
    assert f"{topic} 1/42" in done.stdout
    assert "no such number" in done.stdout
    assert "1 of 2 open letters" in done.stderr
    assert "\x1b" not in command("dlq", "show", topic).stdout


def test_each_letter_goes_back_to_where_it_failed_once(
    command: Command, connection: Connection, topic: str
) -> None:
    write(
        connection,
        of_pipeline(topic, (0, 1)),
        of_pipeline(topic, (0, 1), pipeline="history"),
        # The same record: nobody can decode it.
        of_delivery(topic, (0, 1), key=b"key", value=b"\x00\x1b[2Jbroken", stage="VALUE_CONVERTER"),
        of_delivery(topic, (1, 2)),
        of_delivery(topic, (1, 2)),  # delivered again after a crash, and failed again
        of_delivery(topic, (1, 2), group_id="mail-sender"),
    )
    planned = command.data("dlq", "replay", topic, "--dry-run")
    deliveries = {"sms-sender": 1, "mail-sender": 1}
    counts = {"letters": 6, "to_topic": 1, "to_deliveries": deliveries, "rows": 0, "results": 0}
    assert planned == {"topic": topic, "done": False, **counts}
    assert on(connection, topic) == [] and still_open(connection, topic) == 6

    assert command.data("dlq", "replay", topic) == {"topic": topic, "done": True, **counts}
    [again] = on(connection, topic)
    assert (again.partition, again.key, again.value) == (0, b"key", b"\x00\x1b[2Jbroken")
    assert again.headers == (("gearshift.replay-of", b"0/1"),)
    replays = sorted(
        on(connection, f"{topic}.replay"), key=lambda record: record.header("gearshift.replay-for")
    )
    assert [record.header("gearshift.replay-for") for record in replays] == [b"mail-sender", b"sms-sender"]
    for record in replays:
        assert (record.partition, record.key, record.value) == (1, b"meter-2", b"load 2")
        assert replayed_place(record.headers) == (1, 2)
        assert [name for name, _ in record.headers if not name.startswith("gearshift.")] == ["trace"]

    for _ in range(2):
        assert command.data("dlq", "replay", topic)["letters"] == 0
    assert len(on(connection, topic)) == 1 and len(on(connection, f"{topic}.replay")) == 2
    assert still_open(connection, topic) == 0
    # What fails again after its replay is a new letter, and goes back again.
    write(connection, of_delivery(topic, (1, 2)))
    assert replay(connection, topic).to_deliveries == {"sms-sender": 1}


def test_only_what_fits_the_filter_is_replayed_or_discarded(
    command: Command, connection: Connection, topic: str
) -> None:
    write(
        connection,
        *(of_delivery(topic, (number % 3, number)) for number in range(6)),
        of_delivery(topic, (0, 7), reason="timed out after 5 s", exception="builtins.TimeoutError"),
        of_pipeline(topic, (0, 8)),
    )
    for only, count in (
        ("exception=TimeoutError", 1),
        ("reason=timed out", 1),
        ("delivery=text_owner", 7),
        ("delivery=sms-sender", 7),
        ("pipeline=meter.copy", 1),
        ("partition=1", 2),
        ("offset=8", 1),
    ):
        assert replay(connection, topic, Filter.parse([only]), dry_run=True).letters == count, only
    both = ("--filter", "partition=1", "--filter", "offset=4")
    assert command.data("dlq", "discard", topic, *both)["letters"] == 1
    assert command.data("dlq", "show", topic, *both)["letters"] == []
    assert command.data("dlq", "discard", topic, "--filter", "partition=2", "--dry-run")["letters"] == 2
    assert still_open(connection, topic) == 7
    said = command.refusal("dlq", "replay", topic, "--filter", "colour=red", code=2)
    assert "hint: use FIELD=VALUE, where FIELD is one of delivery, pipeline" in said
    said = command.refusal("dlq", "replay", f"{topic}-misspelt")
    assert f"the topic does not exist (topic {topic}-misspelt.dlq)" in said


def test_a_replay_that_died_half_way_is_taken_back_by_the_next(connection: Connection, topic: str) -> None:
    write(connection, *(of_pipeline(topic, (0, offset)) for offset in range(10)))
    # As a process that is killed leaves it: records sent, the transaction open.
    died = TransactionalProducer(connection, f"gearshift.dlq.{topic}")
    died.begin()
    for _ in range(4):
        died.send_bytes(topic, b"half way", partition=0)
    died._producer.flush()  # pyright: ignore[reportPrivateUsage]
    assert replay(connection, topic).to_topic == 10
    with pytest.raises(FencedError):
        died.commit()
    assert [record.value for record in on(connection, topic)] == [b"\x00\x1b[2Jbroken"] * 10


def test_replays_at_the_same_time_send_nothing_twice(connection: Connection, topic: str) -> None:
    letters = 3000
    write(connection, *(of_delivery(topic, (number % 3, number)) for number in range(letters)))

    def attempt(_: int) -> int:
        try:
            return replay(connection, topic).letters
        except FencedError:
            return 0

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(attempt, range(3)))
    replay(connection, topic)
    places = [replayed_place(record.headers) for record in on(connection, f"{topic}.replay")]
    assert len(places) == len(set(places)) == letters
    assert still_open(connection, topic) == 0


def test_a_discarded_letter_is_not_replayed_and_a_replayed_one_not_discarded(
    connection: Connection, topic: str
) -> None:
    write(connection, of_pipeline(topic, (0, 0)), of_pipeline(topic, (1, 1), key=None, value=None))
    assert discard(connection, topic, Filter.parse(["offset=0"])).letters == 1
    assert replay(connection, topic).to_topic == 1
    assert discard(connection, topic).letters == 0
    assert [(record.partition, record.value) for record in on(connection, topic)] == [(1, None)]


def test_a_record_as_large_as_the_topic_takes_can_die_and_come_back(
    connection: Connection, topic: str
) -> None:
    value = Random(5).randbytes(10_485_600)  # a hundred bytes more are refused
    with Producer(connection, largest=len(value) + 1000) as producer:
        producer.send_bytes(topic, value, key=None)
    write(connection, of_delivery(topic, (0, 0), key=None, value=value, headers=(), stacktrace="x" * 10_000))
    write(connection, of_pipeline(topic, (1, 0), key=None, value=value))
    assert replay(connection, topic).letters == 2
    assert [record.value == value for record in on(connection, topic)] == [True, True]
    assert [record.value == value for record in on(connection, f"{topic}.replay")] == [True]
