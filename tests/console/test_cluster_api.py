"""Topics, records, groups, dead letters and schemas through the console's API, on a real broker and registry."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

import gearshift as gs
from gearshift.connection import Connection
from gearshift.definitions import Location, Topic
from gearshift.freshness import Gear
from gearshift.pipelines.ledger.ledger import Ledger
from gearshift.schemas import Registry
from gearshift.storage.folders import LocalFolder
from gearshift.topics import (
    Admin,
    DeadLetter,
    DeadLetters,
    GroupOffsets,
    Producer,
    TransactionalProducer,
    read,
)
from tests.consoles import Client, FakeRun, open_console
from tests.support import LATELY, cluster, eventually, librdkafka, registry_client

HERE = Location(__file__, 1)
SCRIPT = "<script>alert('x')</script>"


@dataclass
class Reading:
    meter_id: str
    load_kw: float
    price: Annotated[Decimal, gs.DecimalOf(8, 2)] = Decimal("0.25")
    note: str | None = None


@pytest.fixture
def client(connection: Connection, tmp_path: Path) -> Iterator[Client]:
    with open_console(tmp_path, connection=connection, **cluster(connection)) as client:
        yield client


@pytest.fixture
def topic(connection: Connection, unique: str) -> str:
    """A topic of two partitions with Reading's schema."""
    return make(connection, unique)


def make(connection: Connection, name: str, partitions: int = 2) -> str:
    declared = Topic(name=name, value=Reading, key="meter_id", partitions=partitions, defined_at=HERE)
    with Admin(connection) as admin, Registry(connection) as registry:
        admin.ensure([declared])
        registry.register(declared)
    return name


def send(connection: Connection, name: str, *readings: Reading, **more: Any) -> None:
    declared = Topic(name=name, value=Reading, key="meter_id", partitions=2, defined_at=HERE)
    with Producer(connection) as producer:
        for reading in readings:
            producer.send(declared, reading, **more)


def send_bytes(connection: Connection, name: str, value: bytes | None, **more: Any) -> None:
    with Producer(connection) as producer:
        producer.send_bytes(name, value, **more)


def records(client: Client, name: str, **query: Any) -> list[dict[str, Any]]:
    return excerpt(client, name, **query)["records"]


def excerpt(client: Client, name: str, **query: Any) -> dict[str, Any]:
    asked = "&".join(f"{key.rstrip('_')}={quote(str(value))}" for key, value in query.items())
    reply = client.get(f"/api/topics/{name}/records?{asked}")
    assert reply.status == 200, reply.data
    return reply.data


def loads(found: list[dict[str, Any]]) -> list[float]:
    return [record["value"]["load_kw"] for record in found]


# Topics


def test_topics_are_listed_with_their_records_and_what_the_app_declares(
    connection: Connection, tmp_path: Path, unique: str
) -> None:
    app = gs.App("meters")
    app.topic(f"{unique}-own", value=Reading)
    make(connection, f"{unique}-own")
    make(connection, f"{unique}-other")
    send(connection, f"{unique}-own", Reading("m-1", 1.0), Reading("m-2", 2.0))
    run = FakeRun(app, topics=[{"name": f"{unique}-own", "records": 2, "records_per_second": 7.5}])
    with open_console(tmp_path, run, connection=connection) as client:
        found = {each["name"]: each for each in client.get("/api/topics").data}
    own = found[f"{unique}-own"]
    assert (own["partitions"], own["records"], own["records_per_second"]) == (2, 2, 7.5)
    assert (own["declared"], own["dead_letters"]) == (True, False)
    assert not found[f"{unique}-other"]["declared"]
    assert found[f"{unique}-other.dlq"]["dead_letters"]
    assert not any(name.startswith("__") for name in found)


def test_a_topic_has_its_partitions_settings_schema_and_readers(
    client: Client, connection: Connection, topic: str
) -> None:
    send(connection, topic, *(Reading(f"m-{n}", n) for n in range(6)))
    readers = GroupOffsets(connection, f"{topic}-readers")
    readers.commit({(topic, 0): 0, (topic, 1): 0})
    readers.close()
    found = client.get(f"/api/topics/{topic}").data
    assert found["name"] == topic
    assert [(each["number"], each["leader"], each["in_sync"]) for each in found["partitions"]] == [
        (0, 1, [1]),
        (1, 1, [1]),
    ]
    assert sum(each["records"] for each in found["partitions"]) == 6
    assert {each["name"] for each in found["settings"]} >= {"cleanup.policy", "retention.ms"}
    [group] = found["groups"]
    assert (group["group_id"], group["lag"], set(group["partitions"])) == (f"{topic}-readers", 6, {"0", "1"})
    assert (found["value_schema"]["subject"], found["value_schema"]["format"]) == (f"{topic}-value", "avro")
    assert found["key_schema"] is None


def test_a_hot_key_is_diagnosed(client: Client, connection: Connection, topic: str) -> None:
    send(connection, topic, *(Reading("m-7" if n % 10 else f"m-{n}", n) for n in range(400)))
    found = client.get(f"/api/topics/{topic}/skew").data
    assert found["verdict"]["kind"] == "hot key"
    assert found["keys"][0]["key"] == "m-7"


# Records


def test_the_last_records_are_shown_decoded_and_the_newest_last(
    client: Client, connection: Connection, topic: str
) -> None:
    for n in range(5):
        send(connection, topic, Reading(f"m-{n}", n), timestamp=LATELY + timedelta(seconds=n))
    found = excerpt(client, topic)
    assert loads(found["records"]) == [0, 1, 2, 3, 4]
    assert found["complete"]
    last = found["records"][-1]
    assert last["value"] == {"meter_id": "m-4", "load_kw": 4.0, "price": "0.25", "note": None}
    assert (last["key"], last["format"], last["key_format"]) == ("m-4", "avro", "text")
    assert loads(records(client, topic, from_="-2")) == [3, 4]


def test_reading_begins_at_a_place_a_time_or_an_offset(
    client: Client, connection: Connection, topic: str
) -> None:
    for n in range(10):
        send(connection, topic, Reading(f"m-{n}", n), timestamp=LATELY + timedelta(seconds=n))
    assert loads(records(client, topic, from_="earliest", limit=3)) == [0, 1, 2]
    assert not excerpt(client, topic, from_="earliest", limit=3)["complete"]
    at = (LATELY + timedelta(seconds=7)).isoformat()
    assert loads(records(client, topic, from_=at)) == [7, 8, 9]
    assert records(client, topic, from_="latest") == []
    assert len(records(client, topic, from_="1066-10-14T00:00:00Z")) == 10
    of_one = records(client, topic, from_="earliest", partition=1)
    assert [record["offset"] for record in of_one] == list(range(len(of_one)))
    assert records(client, topic, partition=1, offset=1) == of_one[1:]


def test_records_are_found_by_key_and_by_a_field_far_behind_the_newest(
    client: Client, connection: Connection, topic: str
) -> None:
    send(connection, topic, Reading("needle", -1, note="a.b"))
    send(connection, topic, *(Reading(f"m-{n % 5}", n) for n in range(30_000)))
    assert loads(records(client, topic, key="needle")) == [-1]
    assert loads(records(client, topic, field="note", equals="a.b", from_="-1")) == [-1]
    assert loads(records(client, topic, field="load_kw", equals="29999.0", from_="earliest")) == [29999]
    assert excerpt(client, topic, field="note", equals="null", from_="-3", limit=3)["complete"]
    assert records(client, topic, field="no.such.field", equals="1") == []


def test_offsets_without_records_do_not_hide_older_records(
    client: Client, connection: Connection, unique: str
) -> None:
    with Admin(connection) as admin:
        admin.ensure([Topic(name=unique, value=str, partitions=1, defined_at=HERE)])
    with TransactionalProducer(connection, unique) as producer:
        for n in range(20):
            producer.begin()
            producer.send_bytes(unique, b"%d" % n)
            producer.commit()
    with Admin(connection) as admin:
        admin.await_stable([unique])
    assert [record["value"] for record in records(client, unique, from_="-15")] == list(range(5, 20))


def test_hostile_and_undecodable_bytes_are_shown_as_data(
    client: Client, connection: Connection, topic: str
) -> None:
    headers = [(SCRIPT, SCRIPT.encode()), ("binary", b"\xff\x00"), ("none", None)]
    send_bytes(connection, topic, SCRIPT.encode(), key=SCRIPT.encode(), headers=headers, partition=0)
    send_bytes(connection, topic, bytes(range(256)), key=b"\xff", partition=0)
    send_bytes(connection, topic, b"\x00\x00\xff\xff\xff{", partition=0)
    send_bytes(connection, topic, b'{"half": "\\ud800", "far": 1e400}', partition=0)
    send_bytes(connection, topic, b'{"half": "\\ud800"}', partition=0)
    send_bytes(connection, topic, None, key=b"gone", partition=0)
    script, binary, unknown, infinite, half, tombstone = records(client, topic)
    assert (script["key"], script["value"], script["format"]) == (SCRIPT, SCRIPT, "text")
    assert script["headers"] == [
        {"name": SCRIPT, "value": SCRIPT},
        {"name": "binary", "base64": "/wA="},
        {"name": "none", "value": None},
    ]
    assert (binary["format"], binary["key"], binary["key_format"]) == ("binary", "/w==", "binary")
    assert "is not registered" in unknown["error"]
    assert infinite["format"] == "text"
    assert (half["format"], half["value"]) == ("text", '{"half": "\\ud800"}')
    assert (tombstone["key"], tombstone["value"], tombstone["format"]) == ("gone", None, None)


def test_an_answer_stays_small_however_large_the_records_are(
    client: Client, connection: Connection, unique: str
) -> None:
    with Admin(connection) as admin:
        admin.ensure([Topic(name=unique, value=str, partitions=1, defined_at=HERE)])
    with Producer(connection) as producer:
        for n in range(20):
            producer.send_bytes(unique, b"%02d" % n + b"x" * 900_000)
    found = excerpt(client, unique)
    assert not found["complete"]
    assert 5 <= len(found["records"]) < 10
    assert [record["value"][:2] for record in found["records"]][-1] == "19"


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=0", 400),
        ("limit=1001", 400),
        ("limit=many", 400),
        ("partition=-1", 400),
        ("partition=2", 400),
        ("partition=99999999999999999999", 400),
        ("offset=1", 400),  # of which partition?
        ("partition=0&offset=-1", 400),
        ("partition=0&offset=9223372036854775807", 400),
        ("partition=0&offset=9223372036854775808", 400),
        ("partition=0&offset=0&from=earliest", 400),
        ("from=sometimes", 400),
        ("from=2026-01-01T00:00:00", 400),  # no time zone
        ("from=-" + "9" * 60, 200),
        ("from=-" + "9" * 6000, 400),
        ("from=0001-01-01T00:00:00%2B23:59", 200),
        ("from=9999-12-31T23:59:59-23:59", 200),
        ("from=1969-12-31T23:59:59.999Z", 200),
        ("from=%00", 400),
        ("field=a", 400),
        ("equals=a", 400),
        ("field=&equals=", 400),
        ("field=%00.%F0%9F%92%A9&equals=%ED%A0%80", 200),
        ("key=%00%FF", 200),
    ],
)
def test_no_question_about_records_breaks_the_server(
    client: Client, topic: str, query: str, status: int
) -> None:
    reply = client.get(f"/api/topics/{topic}/records?{query}")
    assert reply.status == status, reply.data
    if status != 200:
        assert reply.error["what"]


@pytest.mark.parametrize("path", ["", "/records", "/tail", "/form", "/skew"])
def test_an_unknown_topic_is_not_found(client: Client, path: str) -> None:
    reply = client.get(f"/api/topics/no-such-topic{path}")
    assert reply.status == 404
    assert reply.error["kind"] == "TopicMissingError"


@pytest.mark.parametrize("name", ["a%00b", "%F0%9F%92%A9", "a%20b", "x" * 250, ".."])
def test_a_name_that_no_topic_has_is_refused(client: Client, name: str) -> None:
    assert client.get(f"/api/topics/{name}/records").status in (400, 404)


# The tail


@contextmanager
def tail(client: Client, name: str, query: str = "") -> Iterator[Iterator[dict[str, Any]]]:
    """The events of a tail, which is open when the context is entered."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    try:
        headers = {"Authorization": f"Bearer {client.token}"}
        connection.request("GET", f"/api/topics/{name}/tail?{query}", headers=headers)
        response = connection.getresponse()
        assert response.status == 200
        assert response.readline().startswith(b":")
        yield (json.loads(line[6:]) for line in response if line.startswith(b"data: "))
    finally:
        connection.close()


def shown(events: Iterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """The records of events until so many have arrived, shown or skipped."""
    found: list[dict[str, Any]] = []
    arrived = 0
    while arrived < count:
        batch = next(events)
        found += batch["records"]
        arrived += len(batch["records"]) + batch["skipped"]
    return found


def test_records_are_shown_as_they_arrive(client: Client, connection: Connection, topic: str) -> None:
    send(connection, topic, Reading("before", 0))
    with tail(client, topic) as events:
        send(connection, topic, Reading("m-1", 1.5))
        assert loads(shown(events, 1)) == [1.5]
        send(connection, topic, Reading("m-2", 2.5))
        assert loads(shown(events, 1)) == [2.5]


def test_of_very_many_records_a_tail_shows_the_newest_and_counts_the_others(
    client: Client, connection: Connection, unique: str
) -> None:
    with Admin(connection) as admin:
        admin.ensure([Topic(name=unique, value=str, partitions=1, defined_at=HERE)])
    with tail(client, unique) as events:
        with Producer(connection) as producer:
            for n in range(20_000):
                producer.send_bytes(unique, b"%d" % n)
        found = shown(events, 20_000)
    assert len(found) < 20_000
    assert found[-1]["value"] == 19_999
    assert [record["offset"] for record in found] == sorted(record["offset"] for record in found)


def test_a_tail_shows_what_a_filter_selects(client: Client, connection: Connection, topic: str) -> None:
    with (
        tail(client, topic, "key=m-1") as by_key,
        tail(client, topic, "field=load_kw&equals=3.0") as by_field,
    ):
        send(connection, topic, *(Reading(f"m-{n % 2}", n) for n in range(4)))
        assert sorted(loads(shown(by_key, 2))) == [1, 3]
        assert loads(shown(by_field, 1)) == [3]


def test_a_tail_ends_with_its_server(connection: Connection, tmp_path: Path, topic: str) -> None:
    with open_console(tmp_path, connection=connection) as client:
        opened = tail(client, topic)
        events = opened.__enter__()
    assert list(events) == []
    opened.__exit__(None, None, None)


def test_a_tail_closes_its_consumer_when_the_page_is_left(
    client: Client, connection: Connection, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gearshift.console import records as module

    open_feeds: list[object] = []
    opening, closing = module._Feed.__init__, module._Feed.close

    def opened(self: Any, *given: Any) -> None:
        opening(self, *given)
        open_feeds.append(self)

    def closed(self: Any) -> None:
        closing(self)
        open_feeds.remove(self)

    monkeypatch.setattr(module._Feed, "__init__", opened)
    monkeypatch.setattr(module._Feed, "close", closed)
    with tail(client, topic) as events:
        send(connection, topic, Reading("m-1", 1.0))
        shown(events, 1)
        assert len(open_feeds) == 1
    eventually(lambda: not open_feeds)


# Producing


def test_a_record_is_sent_with_the_topics_schema(client: Client, connection: Connection, topic: str) -> None:
    form = client.get(f"/api/topics/{topic}/form").data
    assert [(each["name"], each["required"], each["default"]) for each in form["fields"]] == [
        ("meter_id", True, None),
        ("load_kw", True, None),
        ("price", False, "0.25"),
        ("note", False, None),
    ]
    assert (form["format"], form["key_field"]) == ("avro", None)
    sent = client.post(
        f"/api/topics/{topic}/records",
        {
            "key": "m-1",
            "value": {"meter_id": "m-1", "load_kw": 2.5, "price": "1.50"},
            "headers": {"trace": SCRIPT},
            "partition": 1,
        },
    )
    assert (sent.status, sent.data) == (200, {"partition": 1, "offset": 0})
    [record] = records(client, topic)
    assert record["value"] == {"meter_id": "m-1", "load_kw": 2.5, "price": "1.50", "note": None}
    assert (record["key"], record["headers"]) == ("m-1", [{"name": "trace", "value": SCRIPT}])


def test_the_key_of_a_declared_topic_is_its_key_field(
    connection: Connection, tmp_path: Path, topic: str
) -> None:
    app = gs.App("meters")
    app.topic(topic, value=Reading, key="meter_id")
    with open_console(tmp_path, FakeRun(app), connection=connection) as client:
        assert client.get(f"/api/topics/{topic}/form").data["key_field"] == "meter_id"
        sent = client.post(f"/api/topics/{topic}/records", {"value": {"meter_id": "m-9", "load_kw": 1}})
        assert sent.status == 200
        assert client.post(f"/api/topics/{topic}/records", {"key": "m-9", "value": None}).status == 200
    first, tombstone = list(read(connection, topic))
    assert first.key == b"m-9"
    assert (tombstone.key, tombstone.value, tombstone.partition) == (b"m-9", None, first.partition)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"value": {"meter_id": "m-1", "load_kw": "much"}}, "load_kw"),
        ({"value": {"meter_id": "m-1"}}, "load_kw"),
        ({"value": {"meter_id": "m-1", "load_kw": 1, "lod": 2}}, "lod"),
        ({"value": {"meter_id": "m-1", "load_kw": 1, "price": "1.234"}}, "price"),
        ({"value": {"meter_id": "\ud800", "load_kw": 1}}, "value"),
        ({"value": {"\ud800": 1}}, "value"),
        ({"value": [[]]}, "object"),
        ({"value": {"meter_id": "m-1", "load_kw": 10**400}}, "load_kw"),
        ({}, "value"),
        ({"value": None, "partition": 7}, "partition"),
        ({"value": None, "partition": -1}, "partition"),
        ({"value": None, "partition": 2**70}, "partition"),
        ({"value": None, "headers": {"\ud800": "x"}}, "headers"),
        ({"value": None, "headers": {"": "x"}}, "headers"),
        ({"value": None, "headers": {"a\0b": "x"}}, "headers"),
        ({"value": None, "headers": {"a": 7}}, "headers"),
    ],
)
def test_a_record_that_does_not_fit_is_refused_by_the_name_of_its_field(
    client: Client, topic: str, given: dict[str, Any], named: str
) -> None:
    reply = client.post(f"/api/topics/{topic}/records", given)
    assert reply.status == 400, reply.data
    assert named in reply.error["what"]
    assert records(client, topic) == []


def test_the_body_of_a_record_must_be_json(client: Client, topic: str) -> None:
    for body in ("", "{", "[1]", '"text"', "null", "[" * 100_000, '{"value": ' + "[" * 100_000):
        assert client.ask("POST", f"/api/topics/{topic}/records", body).status == 400
    for value in ('{"meter_id": "m", "load_kw": NaN}', "1e999", "9" * 5000):
        reply = client.ask("POST", f"/api/topics/{topic}/records", f'{{"value": {value}}}')
        assert reply.status == 400, reply.data


def test_kafkas_own_topics_and_those_without_a_schema_take_no_records(
    client: Client, connection: Connection, topic: str
) -> None:
    GroupOffsets(connection, topic).commit({(topic, 0): 0})
    assert client.post("/api/topics/__consumer_offsets/records", {"value": 1}).status == 400
    assert client.post(f"/api/topics/{topic}.dlq/records", {"value": 1}).status == 400
    assert client.get(f"/api/topics/{topic}.dlq/form").status == 404


def test_a_record_larger_than_its_topic_takes_is_not_sent(
    client: Client, connection: Connection, topic: str
) -> None:
    small = AdminClient(librdkafka(connection))
    [set_] = small.incremental_alter_configs(
        [
            ConfigResource(
                ConfigResource.Type.TOPIC,
                topic,
                incremental_configs=[
                    ConfigEntry(
                        "max.message.bytes",
                        "1000",
                        incremental_operation=AlterConfigOpType.SET,
                    )
                ],
            )
        ]
    ).values()
    set_.result()
    reply = client.post(f"/api/topics/{topic}/records", {"value": {"meter_id": "x" * 2000, "load_kw": 1}})
    assert (reply.status, reply.error["kind"]) == (400, "EncodeError")
    assert "1,000" in reply.error["what"]


# Groups


def test_groups_are_listed_with_their_lag_and_what_they_belong_to(
    connection: Connection, tmp_path: Path, topic: str
) -> None:
    app = gs.App("meters")
    readings = app.topic(topic, value=Reading)

    @app.delivery(readings, group_id=f"{topic}-sms")
    def text_owner(reading: Reading) -> None: ...

    send(connection, topic, *(Reading(f"m-{n}", n) for n in range(10)))
    for group_id in (f"{topic}-sms", f"{topic}-other"):
        offsets = GroupOffsets(connection, group_id)
        offsets.commit({(topic, 0): 0, (topic, 1): 0})
        offsets.close()
    with open_console(tmp_path, FakeRun(app), connection=connection) as client:
        found = {each["group_id"]: each for each in client.get("/api/groups").data}
    ours, other = found[f"{topic}-sms"], found[f"{topic}-other"]
    assert (ours["lag"], ours["topics"], ours["members"], ours["delivery"]) == (10, [topic], 0, "text_owner")
    assert (other["delivery"], other["pipeline"], other["state"]) == (None, None, "empty")


def test_a_group_is_found_whatever_characters_its_id_has(
    client: Client, connection: Connection, topic: str
) -> None:
    group_id = f"{topic}/reset <b>ü"
    offsets = GroupOffsets(connection, group_id)
    offsets.commit({(topic, 0): 0})
    offsets.close()
    found = client.get(f"/api/groups/{quote(group_id, safe='')}").data
    assert found["group_id"] == group_id
    assert [(each["partition"], each["committed"]) for each in found["lag"]] == [(0, 0), (1, None)]
    moved = client.post(
        f"/api/groups/{quote(group_id, safe='')}/reset", {"topic": topic, "to": "latest", "dry_run": True}
    )
    assert (moved.status, moved.data["done"]) == (200, False)


def test_the_offsets_of_a_group_are_reset_once_it_has_no_members(
    client: Client, connection: Connection, topic: str
) -> None:
    send(connection, topic, *(Reading(f"m-{n}", n) for n in range(10)))
    group_id = f"{topic}-sms"
    wanted = {"topic": topic, "to": "earliest"}
    consumer = Consumer(
        {
            **librdkafka(connection),
            "group.id": group_id,
            "client.id": "worker",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    eventually(lambda: consumer.poll(0.2) is not None)
    consumer.commit(asynchronous=False)
    [member] = client.get(f"/api/groups/{group_id}").data["members"]
    assert (member["client_id"], member["partitions"]) == ("worker", [[topic, 0], [topic, 1]])
    refused = client.post(f"/api/groups/{group_id}/reset", wanted)
    assert (refused.status, refused.error["kind"]) == (409, "DeliveryError")
    consumer.close()
    done = client.post(f"/api/groups/{group_id}/reset", wanted).data
    assert done["done"]
    assert [(move["partition"], move["after"]) for move in done["moves"]] == [(0, 0), (1, 0)]
    lag = client.get(f"/api/groups/{group_id}").data["lag"]
    assert sum(each["lag"] for each in lag) == 10


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"to": "earliest"}, 400),
        ({"topic": "a\0", "to": "earliest"}, 400),
        ({"topic": "no-such-topic", "to": "earliest"}, 404),
        ({"to": "yesterday", "topic": None}, 400),
        ({"to": "9" * 60}, 200),
        ({"to": "9" * 6000}, 400),
        ({"to": "0001-01-01T00:00:00+23:59"}, 200),
    ],
)
def test_a_reset_is_checked(
    client: Client, connection: Connection, topic: str, given: dict[str, Any], status: int
) -> None:
    offsets = GroupOffsets(connection, topic)
    offsets.commit({(topic, 0): 0})
    offsets.close()
    wanted = {"dry_run": True, **({"topic": topic} if status == 200 else {}), **given}
    assert client.post(f"/api/groups/{topic}/reset", wanted).status == status


@pytest.mark.parametrize("name", ["no-such-group", "%00", "%F0%9F%92%A9", "a/b/c", "%FF"])
def test_an_unknown_group_is_not_found(client: Client, name: str) -> None:
    assert client.get(f"/api/groups/{name}").status == 404
    assert client.post(f"/api/groups/{name}/reset", {"topic": "t", "to": "latest"}).status == 404


def test_the_group_of_a_pipeline_is_not_reset(connection: Connection, tmp_path: Path, topic: str) -> None:
    folder = tmp_path / "checkpoints" / "meters" / topic
    Ledger(LocalFolder(folder), "meters", topic).begin(Gear.BATCH, Gear.BATCH, "start", datetime.now(UTC))
    with Admin(connection) as admin:
        admin.mirror_group(f"meters.{topic}", {(topic, 0): 0})
    checkpoints = (tmp_path / "checkpoints").as_uri()
    with open_console(tmp_path, connection=connection, checkpoints=checkpoints) as client:
        reply = client.post(f"/api/groups/meters.{topic}/reset", {"topic": topic, "to": "latest"})
    assert reply.status == 409
    assert "mirrors" in reply.error["what"]


# Dead letters


def letter(topic: str, offset: int, **more: Any) -> DeadLetter:
    fields: dict[str, Any] = {
        "key": b"m-%d" % offset,
        "value": SCRIPT.encode(),
        "headers": ((SCRIPT, b"\xff"),),
        "app": "meters",
        "delivery": "text_owner",
        "group_id": "sms",
        "stage": "TASK_PUT",
        "exception": "gearshift.errors.PermanentError",
        "reason": f"no number {SCRIPT}",
        "stacktrace": f"Traceback\n{SCRIPT}",
        **more,
    }
    return DeadLetter(topic=topic, partition=0, offset=offset, **fields)


@pytest.fixture
def failed(connection: Connection, topic: str) -> str:
    """A topic with three dead letters."""
    send(connection, topic, *(Reading("m-1", n) for n in range(3)))
    with DeadLetters(connection) as writer:
        writer.write(
            [
                letter(topic, 0),
                letter(topic, 1),
                letter(topic, 2, reason="time out", value=b'{"n": 1}'),
            ]
        )
    return topic


def test_dead_letters_are_counted_by_cause_and_shown(client: Client, failed: str) -> None:
    [found] = [each for each in client.get("/api/dead-letters").data if each["topic"] == failed]
    assert (found["dead_letters"], found["open"]) == (f"{failed}.dlq", 3)
    assert sorted((cause["open"], cause["reason"]) for cause in found["causes"]) == [
        (1, "time out"),
        (2, f"no number {SCRIPT}"),
    ]
    page = client.get(f"/api/dead-letters/{failed}?limit=2").data
    assert (page["open"], len(page["letters"])) == (3, 2)
    [last] = client.get(f"/api/dead-letters/{failed}?only=offset=2&only=partition=0").data["letters"]
    assert (last["partition"], last["offset"], last["decoded"]) == (0, 2, {"n": 1})
    [first] = client.get(f"/api/dead-letters/{failed}.dlq?only=offset=0").data["letters"]
    assert first["stack"] == f"Traceback\n{SCRIPT}"
    assert first["headers"] == [{"name": SCRIPT, "base64": "/w=="}]
    assert (first["delivery"], first["group_id"], first["pipeline"], first["decoded"]) == (
        "text_owner",
        "sms",
        None,
        None,
    )


def test_dead_letters_are_replayed_and_discarded_once(client: Client, failed: str) -> None:
    only = {"only": ["reason=time out"]}
    planned = client.post(f"/api/dead-letters/{failed}/replay", {**only, "dry_run": True}).data
    assert (planned["letters"], planned["to_deliveries"], planned["done"]) == (1, {"sms": 1}, False)
    done = client.post(f"/api/dead-letters/{failed}/replay", only).data
    assert (done["letters"], done["to_topic"], done["done"]) == (1, 0, True)
    assert client.post(f"/api/dead-letters/{failed}/replay", only).data["letters"] == 0
    assert client.post(f"/api/dead-letters/{failed}/discard", {}).data == {
        "topic": failed,
        "letters": 2,
        "done": True,
    }
    assert client.get(f"/api/dead-letters/{failed}").data["open"] == 0
    [found] = [each for each in client.get("/api/dead-letters").data if each["topic"] == failed]
    assert (found["open"], found["causes"]) == (0, [])


def test_the_causes_follow_what_is_written_later(client: Client, connection: Connection, failed: str) -> None:
    def count() -> int:
        return next(each["open"] for each in client.get("/api/dead-letters").data if each["topic"] == failed)

    assert count() == 3
    assert count() == 3
    with DeadLetters(connection) as writer:
        writer.write([letter(failed, 9)])
    assert count() == 4


@pytest.mark.parametrize(
    "only", ["", "colour=red", "offset=-1", "offset=x", "offset=" + "9" * 5000, "\ud800=1"]
)
def test_a_filter_of_dead_letters_is_checked(client: Client, failed: str, only: str) -> None:
    asked = quote(only, errors="surrogatepass")
    assert client.get(f"/api/dead-letters/{failed}?only={asked}").status == 400
    for verb in ("replay", "discard"):
        reply = client.post(f"/api/dead-letters/{failed}/{verb}", {"only": [only]})
        assert reply.status == 400, reply.data
    assert client.get(f"/api/dead-letters/{failed}").data["open"] == 3


def test_a_topic_without_dead_letters_is_not_found(client: Client, unique: str) -> None:
    assert client.get(f"/api/dead-letters/{unique}").status == 404
    assert client.post(f"/api/dead-letters/{unique}/replay", {}).status == 404
    assert client.post(f"/api/dead-letters/{unique}/discard", {"dry_run": True}).status == 404


# Schemas


def record_schema(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Reading", "fields": list(fields)})


LOAD = {"name": "load_kw", "type": "double"}
NOTE = {"name": "note", "type": "string", "default": ""}


def register(connection: Connection, name: str, *texts: str) -> None:
    with SchemaRegistryClient(registry_client(connection)) as registry:
        for text in texts:
            registry.register_schema(name, Schema(text, "AVRO"))


@pytest.fixture
def subject(connection: Connection, unique: str) -> str:
    """A subject of two versions whose name has characters that URLs escape."""
    name = f"{unique} <b>ü%2F-value"
    register(connection, name, record_schema(LOAD), record_schema(LOAD, NOTE))
    return name


def test_subjects_are_listed_and_shown_with_what_changed(client: Client, topic: str) -> None:
    assert {"subject": f"{topic}-value", "versions": 1} in client.get("/api/schemas").data
    found = client.get(f"/api/schemas/{topic}-value").data
    assert found["compatibility"] == "BACKWARD"
    [version] = found["versions"]
    assert (version["version"], version["format"], version["changes"]) == (1, "avro", [])


def test_the_changes_of_a_version_name_the_field(client: Client, subject: str) -> None:
    found = client.get(f"/api/schemas/{quote(subject, safe='')}").data
    assert [version["changes"] for version in found["versions"]] == [[], ["field note was added"]]


@pytest.mark.parametrize(
    ("text", "compatible", "changes"),
    [
        (record_schema(LOAD), True, []),
        (record_schema(LOAD, NOTE), True, [("field note was added", False)]),
        (
            record_schema(LOAD, {"name": "note", "type": "string"}),
            False,
            [("field note was added without a default; give it a default", True)],
        ),
        (
            record_schema({**LOAD, "type": "string"}),
            False,
            [
                (
                    "field load_kw changed from double to string; keep double, or add a new field with a default",
                    True,
                )
            ],
        ),
    ],
)
def test_a_new_schema_is_checked_field_by_field(
    client: Client,
    connection: Connection,
    unique: str,
    text: str,
    compatible: bool,
    changes: list[tuple[str, bool]],
) -> None:
    register(connection, f"{unique}-value", record_schema(LOAD))
    found = client.post(f"/api/schemas/{unique}-value/check", {"text": text}).data
    assert (found["compatible"], found["level"]) == (compatible, "BACKWARD")
    assert [(each["what"], each["breaks"]) for each in found["changes"]] == changes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        '"no such type"',
        '{"type": "record"}',
        "[" * 5000,
        '{"type": "record", "name": "\\ud800", "fields": []}',
        "NaN",
        "9" * 5000,
        "\0",
    ],
)
def test_a_text_that_is_no_schema_is_refused(client: Client, topic: str, text: str) -> None:
    reply = client.post(f"/api/schemas/{topic}-value/check", {"text": text})
    assert (reply.status, reply.error["kind"]) == (400, "SchemaError")


@pytest.mark.parametrize("name", ["no-such-subject", "%00", "%F0%9F%92%A9", "a/b", "%3F%23", "%FF"])
def test_an_unknown_subject_is_not_found(client: Client, name: str) -> None:
    assert client.get(f"/api/schemas/{name}").status == 404
    assert client.post(f"/api/schemas/{name}/check", {"text": "{}"}).status == 404


def test_the_time_of_a_record_is_in_utc(client: Client, connection: Connection, topic: str) -> None:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    send_bytes(connection, topic, b"x", timestamp=max(at, LATELY))
    [record] = records(client, topic)
    assert record["timestamp"] == max(at, LATELY).isoformat(timespec="milliseconds").replace("+00:00", "Z")
