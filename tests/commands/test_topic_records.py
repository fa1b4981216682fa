"""`gearshift topic describe`, `consume` and `produce` on a real broker and registry."""

from __future__ import annotations

import json
import signal
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

import gearshift as gs
from gearshift.connection import Connection
from gearshift.definitions import Format, Location, Topic
from gearshift.schemas import Decoder, Registry
from gearshift.schemas.wire import pack
from gearshift.topics import Admin, Producer
from gearshift.topics.client import Client
from gearshift.topics.groups.offsets import GroupOffsets
from gearshift.topics.reader import read
from tests.command import Command
from tests.support import LATELY, eventually

HERE = Location(__file__, 1)


@dataclass
class Reading:
    meter_id: str
    load_kw: float
    price: Annotated[Decimal, gs.DecimalOf(8, 2)]
    read_at: datetime
    note: str | None = None


READINGS = [
    Reading(f"m-{n % 3}", n / 2, Decimal(n) / 4, datetime(2026, 1, 31, 12, n, tzinfo=UTC)) for n in range(6)
]


@dataclass
class Made:
    """A topic with its schema."""

    topic: Topic
    connection: Connection

    @property
    def name(self) -> str:
        return self.topic.name

    def send(self, *readings: Reading, at: datetime | None = None) -> None:
        with Producer(self.connection) as producer:
            for reading in readings:
                producer.send(self.topic, reading, timestamp=at)

    def send_bytes(self, value: bytes | None, **more: Any) -> None:
        with Producer(self.connection) as producer:
            producer.send_bytes(self.name, value, **more)

    def records(self) -> list[Any]:
        with Admin(self.connection) as admin:
            begins = admin.begin_offsets([self.name])
        return list(read(self.connection, self.name, start={p: at for (_, p), at in begins.items()}))

    def values(self) -> list[Reading]:
        with Registry(self.connection) as registry:
            decode = Decoder(self.topic, registry)
            return [decode(record.value) for record in self.records()]


def make(connection: Connection, name: str, format_: Format = "avro", partitions: int = 2) -> Made:
    topic = Topic(
        name=name, value=Reading, key="meter_id", partitions=partitions, format=format_, defined_at=HERE
    )
    with Admin(connection) as admin, Registry(connection) as registry:
        admin.ensure([topic], dead_letters=False)
        registry.register(topic)
    return Made(topic, connection)


@pytest.fixture
def made(connection: Connection, unique: str) -> Made:
    return make(connection, unique)


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def as_json(reading: Reading, **changed: Any) -> str:
    written = {
        "meter_id": reading.meter_id,
        "load_kw": reading.load_kw,
        "price": f"{reading.price:.2f}",
        "read_at": reading.read_at.isoformat(),
    }
    return json.dumps({**written, **changed}) + "\n"


# Describe


def test_a_topic_is_described_with_its_partitions_settings_schemas_and_readers(
    command: Command, connection: Connection, made: Made
) -> None:
    made.send(*READINGS)
    assert command("topic", "consume", made.name).returncode == 0  # leaves no group behind
    readers = GroupOffsets(connection, f"{made.name}-readers")
    readers.commit({(made.name, 0): 0, (made.name, 1): 0})
    readers.close()
    found = command.data("topic", "describe", made.name)
    assert found["records"] == 6
    assert [(each["leader"], each["replicas"]) for each in found["partitions"]] == [(1, [1])] * 2
    assert sum(each["end_offset"] - each["first_offset"] for each in found["partitions"]) == 6
    assert found["settings"]["cleanup.policy"] == {"value": "delete", "set_on_topic": False}
    [schema] = found["schemas"]
    assert (schema["subject"], schema["versions"][0]["format"]) == (f"{made.name}-value", "avro")
    assert [(each["group"], each["lag"]) for each in found["groups"]] == [(f"{made.name}-readers", 6)]
    shown = command("topic", "describe", made.name).stdout
    for words in ("2 partitions, 6 records", "604800000 (7 days)", "decimal(8, 2)", "string or null"):
        assert words in shown


def test_the_fields_of_a_json_schema_are_shown(command: Command, connection: Connection, unique: str) -> None:
    made = make(connection, unique, "json")
    shown = command("topic", "describe", made.name).stdout
    assert "json, versions 1" in shown and "date-time" in shown and "optional" in shown


@pytest.mark.parametrize("words", [("describe",), ("consume",), ("produce", "--value", "{}")])
def test_a_topic_that_does_not_exist_is_an_error(
    command: Command, unique: str, words: tuple[str, ...]
) -> None:
    said = command.refusal("topic", words[0], unique, *words[1:])
    assert f"topic {unique}" in said and "does not exist" in said


# Consume


def test_records_are_printed_decoded_with_their_key_time_and_headers(command: Command, made: Made) -> None:
    made.send(READINGS[1], at=LATELY)
    [record] = lines(command("topic", "consume", made.name, "-o", "json"))
    assert record["key"] == "m-1"
    assert record["value"] == {
        "meter_id": "m-1",
        "load_kw": 0.5,
        "price": "0.25",
        "read_at": "2026-01-31T12:01:00Z",
        "note": None,
    }
    assert record["timestamp"] == LATELY.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert (record["format"], record["key_format"], record["headers"]) == ("avro", "text", [])
    made.send_bytes(b'{"any": "json"}', headers=[("trace", b"abc"), ("binary", b"\xff"), ("none", None)])
    shown = command("topic", "consume", made.name, "--from", "-1").stdout
    assert '–  {"any": "json"}  trace=abc  binary=base64:/w==  none=' in shown


def test_it_begins_at_a_time_an_offset_or_the_last_records(command: Command, made: Made) -> None:
    for n, reading in enumerate(READINGS):
        made.send(reading, at=LATELY + timedelta(hours=n))

    def loads(*words: str) -> set[float]:
        return {
            each["value"]["load_kw"]
            for each in lines(command("topic", "consume", made.name, "-o", "json", *words))
        }

    assert loads() == {0, 0.5, 1, 1.5, 2, 2.5}
    assert loads("--from", (LATELY + timedelta(hours=3)).isoformat()) == {1.5, 2, 2.5}
    assert loads("--from", "-2") == {2, 2.5}
    assert loads("--from", "latest") == set()
    assert loads("--key", "m-1") == {0.5, 2}
    assert loads("--key", "m-1", "--from", "-1") == {2}
    assert len(loads("-n", "4")) == 4
    of_first, of_second = loads("--partition", "0"), loads("--partition", "1")
    assert of_first.isdisjoint(of_second) and of_first | of_second == loads()
    longest, number = max((len(of_first), 0), (len(of_second), 1))
    assert len(loads("--partition", str(number), "--offset", "1")) == longest - 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--from", "yesterday"), 2, "'yesterday' is not a valid place to begin"),
        (("--from", "2026-01-31T12:00:00"), 2, "has no time zone"),
        (("--from", "7"), 2, "an offset is --partition P --offset N"),
        (("--offset", "0"), 2, "name it: --partition 0 --offset 0"),
        (("--partition", "9"), 1, "the topic has partitions 0 to 1"),
        (("--partition", "0", "--offset", "9"), 1, "the partition ends at offset 0"),
        (("--from", "latest", "--offset", "0"), 2, "choose --from or --offset"),
    ],
)
def test_a_place_that_does_not_exist_is_an_error(
    command: Command, made: Made, words: tuple[str, ...], code: int, said: str
) -> None:
    # The box around a usage error breaks its lines.
    assert said in " ".join(command.refusal("topic", "consume", made.name, *words, code=code).split())


def test_a_record_that_cannot_be_decoded_is_printed_with_the_reason(
    command: Command, connection: Connection, unique: str
) -> None:
    made = make(connection, unique, partitions=1)
    made.send(READINGS[0])
    [good] = made.records()
    made.send_bytes(pack(987_654_321, b"\xff"))
    made.send_bytes(good.value[:-3], key=b"m-0")
    made.send_bytes(None, key=b"m-0")
    records = lines(command("topic", "consume", made.name, "-o", "json"))
    assert [each["format"] for each in records] == ["avro", "binary", "binary", None]
    assert records[1]["error"] == "schema 987654321 is not registered"
    assert records[2]["error"] and records[2]["key"] == "m-0"
    shown = command("topic", "consume", made.name).stdout.splitlines()
    assert "[cannot be decoded: schema 987654321 is not registered]" in shown[1]
    assert shown[3].endswith("m-0  tombstone")


def test_what_a_record_contains_cannot_change_the_terminal(
    command: Command, connection: Connection, unique: str
) -> None:
    made = make(connection, unique, partitions=1)
    evil = "\x1b]0;title\x07\u202e\x9b31m\r\n"
    made.send(Reading(evil, 1.0, Decimal(1), LATELY))
    made.send_bytes(evil.encode(), key=evil.encode(), headers=[(evil, evil.encode())])
    made.send_bytes(b"\x80\x81" * 10)
    for output in ("text", "json"):
        shown = command("topic", "consume", made.name, "-o", output).stdout
        assert len(shown.splitlines()) == 3
        assert shown.replace("\n", "").isprintable()


def test_it_follows_new_records_until_it_is_stopped(command: Command, made: Made) -> None:
    made.send(READINGS[0])
    following = command.start("topic", "consume", made.name, "-f", "-o", "json")
    assert following.stdout is not None
    assert json.loads(following.stdout.readline())["value"]["load_kw"] == 0
    made.send(READINGS[1])
    assert json.loads(following.stdout.readline())["value"]["load_kw"] == 0.5
    following.send_signal(signal.SIGINT)
    out, err = following.communicate(timeout=60)
    assert (following.returncode, out, err) == (0, "", "")


def test_it_ends_quietly_when_the_reader_of_its_pipe_has_enough(command: Command, made: Made) -> None:
    made.send(*READINGS)
    following = command.start("topic", "consume", made.name, "-f")
    assert following.stdout is not None and following.stderr is not None
    assert following.stdout.readline()
    following.stdout.close()  # as `head -1` does
    assert following.wait(60) == 0
    assert following.stderr.read() == ""
    following.stderr.close()


def test_it_follows_into_partitions_that_are_added(
    command: Command, connection: Connection, unique: str
) -> None:
    made = make(connection, unique, partitions=1)
    made.send_bytes(b"old")
    following = command.start("topic", "consume", made.name, "-f", "-o", "json", "-n", "2")
    assert following.stdout is not None and following.stderr is not None
    assert json.loads(following.stdout.readline())["value"] == "old"
    admin = Client(connection).open(AdminClient)
    admin.create_partitions([NewPartitions(unique, 2)])[unique].result()
    assert "1 more partition" in following.stderr.readline()
    made.send_bytes(b"new", partition=1)
    out, _ = following.communicate(timeout=60)
    assert json.loads(out)["value"] == "new"
    assert following.returncode == 0


def test_it_ends_with_an_error_when_the_topic_is_deleted(
    command: Command, connection: Connection, made: Made
) -> None:
    made.send(READINGS[0])
    following = command.start("topic", "consume", made.name, "-f")
    assert following.stdout is not None
    assert following.stdout.readline()
    with Admin(connection) as admin:
        admin.delete([made.name])
    _, err = following.communicate(timeout=60)
    assert following.returncode == 1
    assert "error: " in err and made.name in err and "Traceback" not in err


# Produce


@pytest.mark.parametrize("format_", ["avro", "json"])
def test_json_lines_become_records_as_an_app_writes_them(
    command: Command, connection: Connection, unique: str, format_: Format
) -> None:
    ours, theirs = make(connection, unique, format_), make(connection, f"{unique}-app", format_)
    sent = "\n" + "".join(map(as_json, READINGS))
    done = command("topic", "produce", ours.name, "--key-field", "meter_id", stdin=sent)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"sent 6 records to {unique}: partition ")
    theirs.send(*READINGS)
    assert sorted(ours.values(), key=lambda each: each.load_kw) == READINGS
    # On the partitions and with the keys on which joins and compaction depend.
    assert {(each.partition, each.key) for each in ours.records()} == {
        (each.partition, each.key) for each in theirs.records()
    }


@pytest.mark.parametrize("format_", ["avro", "json"])
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"load_kw": "2"}, "line 2: field load_kw: is str, not a number"),
        ({"load": 2}, "line 2: field load: Reading has no such field; did you mean load_kw?"),
    ],
)
def test_a_line_that_does_not_fit_is_an_error_with_its_number_and_field(
    command: Command, connection: Connection, unique: str, format_: Format, changed: dict[str, Any], said: str
) -> None:
    made = make(connection, unique, format_)
    sent = as_json(READINGS[0]) + as_json(READINGS[1], **changed) + as_json(READINGS[2])
    told = command.refusal("topic", "produce", made.name, "--key-field", "meter_id", stdin=sent)
    assert told.startswith(f"sent 1 record to {made.name}: ")
    assert f"error: {said}" in told and f"gearshift topic describe {made.name}" in told
    assert made.values() == READINGS[:1]


def test_a_line_that_is_no_json_is_an_error(command: Command, made: Made) -> None:
    assert "error: line 1: not valid JSON: " in command.refusal("topic", "produce", made.name, stdin="{\n")
    assert made.records() == []


def test_one_value_is_an_argument_with_a_key_and_headers(command: Command, made: Made) -> None:
    words = (
        "topic",
        "produce",
        made.name,
        "--value",
        as_json(READINGS[3]),
        "--key",
        "k",
        "--header",
        "trace=abc",
    )
    told = command.data(*words)
    assert (told["sent"], [each["first_offset"] for each in told["partitions"]]) == (1, [0])
    [record] = made.records()
    assert (record.key, list(record.headers)) == (b"k", [("trace", b"abc")])
    assert made.values() == [READINGS[3]]
    said = command.refusal("topic", "produce", made.name, "--value", "{}")
    assert "error: --value: field meter_id: is missing" in said


def test_the_key_is_that_of_the_apps_declaration(command: Command, made: Made, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        f"""
from dataclasses import dataclass
import gearshift as gs

@dataclass
class Reading:
    meter_id: str

print("loaded")
app = gs.App("meters")
readings = app.topic("{made.name}", value=Reading, key="meter_id", external=True)
"""
    )
    done = command("topic", "produce", made.name, "--app", "app.py", stdin=as_json(READINGS[1]))
    assert done.returncode == 0, done.stderr
    assert [record.key for record in made.records()] == [b"m-1"]
    assert "loaded" not in done.stdout


def test_a_topic_without_a_schema_takes_lines_as_they_are(
    command: Command, connection: Connection, unique: str
) -> None:
    with Admin(connection) as admin:
        admin.ensure([Topic(name=unique, value=Reading, partitions=1, defined_at=HERE)], dead_letters=False)
    said = command.refusal("topic", "produce", unique, stdin="{}\n")
    assert "has no registered schema" in said and "--raw" in said
    assert command("topic", "produce", unique, "--raw", stdin="any text\n").returncode == 0
    [record] = lines(command("topic", "consume", unique, "-o", "json"))
    assert (record["value"], record["format"]) == ("any text", "text")


def test_consumed_records_can_be_produced_again(
    command: Command, connection: Connection, unique: str
) -> None:
    source, target = make(connection, unique), make(connection, f"{unique}-copy")
    source.send(*READINGS)
    source.send_bytes(None, key=b"m-0", headers=[("why", b"\xff")])
    consumed = command("topic", "consume", source.name, "-o", "json").stdout
    done = command("topic", "produce", target.name, "--records", stdin=consumed)
    assert done.returncode == 0, done.stderr

    def content(made: Made) -> list[Any]:
        # The schema's id is the same: the registry knows the text.
        return sorted((each.key, each.value or b"", each.headers) for each in made.records())

    assert content(target) == content(source)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--key", "a", "--key-field", "meter_id"), "choose one of --key, --key-field and --app"),
        (("--records", "--key", "a"), "records have their own keys and values"),
        (("--header", "trace"), "'trace' is not NAME=VALUE"),
    ],
)
def test_options_that_contradict_are_an_error(
    command: Command, made: Made, words: tuple[str, ...], said: str
) -> None:
    told = command.refusal("topic", "produce", made.name, *words, code=2)
    assert said in " ".join(told.replace("│", " ").split())


def test_a_partition_that_does_not_exist_is_an_error(command: Command, made: Made) -> None:
    said = command.refusal("topic", "produce", made.name, "--partition", "2", stdin=as_json(READINGS[0]))
    assert "the topic has partitions 0 to 1" in said


def test_lines_are_sent_as_they_come(command: Command, made: Made) -> None:
    """A person types, or a program writes now and then: nothing waits for the end of the input."""
    producing = command.start("topic", "produce", made.name, stdin=subprocess.PIPE)
    assert producing.stdin is not None
    producing.stdin.write(as_json(READINGS[0]))
    producing.stdin.flush()
    assert eventually(made.values) == READINGS[:1]
    out, _ = producing.communicate(timeout=60)
    assert (producing.returncode, out.startswith("sent 1 record")) == (0, True)
