"""A topic that somebody else owns: read and written as it is, and never changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from threading import Thread
from typing import Any

import fastavro
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from pyspark.sql import DataFrame

import gearshift as gs
from gearshift.connection import Connection
from gearshift.delivery.worker import Worker
from gearshift.errors import (
    GearshiftError,
    IncompatibleSchemaError,
    SchemaError,
    TopicError,
    TopicMissingError,
)
from gearshift.runner.checking import check_app
from gearshift.runner.registering import make_topics
from gearshift.runner.runner import Runner
from gearshift.schemas import Registry, pack
from gearshift.settings import Settings
from gearshift.topics import Admin, Producer
from tests.flow import values
from tests.support import eventually, librdkafka, registry_client


@dataclass
class Order:
    id: int
    customer: str
    note: str | None = None


@dataclass
class Strict:
    id: int
    customer: str
    paid: bool


@dataclass
class Written:
    id: int
    customer: str


ORDERS = {
    "type": "record",
    "name": "OrderPlaced",
    "namespace": "shop.events",
    "fields": [{"name": "id", "type": "long"}, {"name": "customer", "type": "string"}],
}
NEWER = {
    **ORDERS,
    "fields": [*ORDERS["fields"], {"name": "source", "type": "string", "default": "web"}],  # type: ignore[misc]
}


@pytest.fixture
def client(connection: Connection) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient(registry_client(connection)) as client:
        yield client


@pytest.fixture
def owned(connection: Connection, client: SchemaRegistryClient, unique: str) -> str:
    """A topic with two versions of a schema, and settings of its own."""
    admin: Any = AdminClient(librdkafka(connection))
    admin.create_topics([NewTopic(unique, 3, 1, config={"retention.ms": "86400000"})])[unique].result()
    client.register_schema(f"{unique}-value", Schema(json.dumps(ORDERS), "AVRO"))
    client.register_schema(f"{unique}-value", Schema(json.dumps(NEWER), "AVRO"))
    client.set_compatibility(f"{unique}-value", "FULL_TRANSITIVE")
    return unique


def as_it_is(connection: Connection, client: SchemaRegistryClient, name: str) -> dict[str, Any]:
    """All that an owner has set."""
    client.clear_caches()
    with Admin(connection) as admin:
        topics = [topic for topic in admin.names() if topic.startswith(name) and not topic.endswith(".dlq")]
    subjects = [subject for subject in client.get_subjects() if subject.startswith(name)]
    return {
        "topics": topics,
        "versions": {subject: client.get_versions(subject) for subject in subjects},
        "levels": {subject: client.get_compatibility(subject) for subject in subjects},
        "default": client.get_compatibility(),
    }


def declare(app: gs.App, connection: Connection) -> None:
    with Admin(connection) as admin, Registry(connection) as registry:
        make_topics(app.graph, app.graph.topics.values(), admin, registry)


def read_by(app: gs.App, topic: gs.Topic) -> None:
    @app.delivery(topic, group_id=f"{topic.name}-readers")
    def reader(order: gs.Record[Any]) -> None: ...


def send(
    connection: Connection, client: SchemaRegistryClient, name: str, orders: list[dict[str, Any]]
) -> None:
    """Records as the owner's own producer writes them."""
    newest = client.get_latest_version(f"{name}-value")
    assert newest.schema_id is not None and newest.schema.schema_str is not None
    parsed = fastavro.parse_schema(json.loads(newest.schema.schema_str))
    with Producer(connection) as producer:
        for order in orders:
            out = BytesIO()
            fastavro.schemaless_writer(out, parsed, order)
            producer.send_bytes(name, pack(newest.schema_id, out.getvalue()), key=str(order["id"]).encode())


def test_reading_somebody_elses_topic_changes_nothing(
    connection: Connection, client: SchemaRegistryClient, owned: str
) -> None:
    app = gs.App(owned)
    read_by(app, app.topic(owned, value=Order, external=True))
    before = as_it_is(connection, client, owned)
    declare(app, connection)
    assert as_it_is(connection, client, owned) == before
    assert before["levels"] == {f"{owned}-value": "FULL_TRANSITIVE"}
    with Admin(connection) as admin:
        assert admin.require([f"{owned}.dlq"])[f"{owned}.dlq"].partitions == 3


def test_what_cannot_be_read_is_named_with_its_field(
    connection: Connection, client: SchemaRegistryClient, owned: str
) -> None:
    app = gs.App(owned)
    topic = app.topic(owned, value=Strict, external=True)
    read_by(app, topic)
    before = as_it_is(connection, client, owned)
    with pytest.raises(IncompatibleSchemaError) as raised:
        declare(app, connection)
    assert "cannot be read as Strict: field paid: is missing" in str(raised.value)
    assert raised.value.line == topic.defined_at.line
    assert as_it_is(connection, client, owned) == before


def test_a_topic_that_does_not_exist_is_not_made(connection: Connection, unique: str) -> None:
    app = gs.App(unique)
    app.topic(f"{unique}-mine", value=Order)
    read_by(app, app.topic(f"{unique}-theirs", value=Order, external=True))
    with pytest.raises(TopicMissingError, match=r"is declared with external=True.*ask its owner"):
        declare(app, connection)
    with Admin(connection) as admin:
        assert [name for name in admin.names() if name.startswith(unique)] == []
        admin.ensure([gs.App(unique).topic(f"{unique}-theirs", value=Order)])
    with pytest.raises(SchemaError, match="has no schema for"):
        declare(app, connection)


def test_more_partitions_than_there_are_cannot_be_declared(connection: Connection, owned: str) -> None:
    app = gs.App(owned)
    read_by(app, app.topic(owned, value=Order, external=True, partitions=5))
    with pytest.raises(TopicError, match="the topic has 3 partitions and the app declares 5"):
        declare(app, connection)


def test_a_target_takes_what_one_of_its_versions_describes(
    connection: Connection, client: SchemaRegistryClient, owned: str
) -> None:
    before = as_it_is(connection, client, owned)
    with Producer(connection) as producer:
        producer.send(gs.App(owned).topic(owned, value=Written, external=True), Written(7, "Ada"))
    with Producer(connection) as producer, pytest.raises(IncompatibleSchemaError) as raised:
        producer.send(gs.App(owned).topic(owned, value=Strict, external=True), Strict(7, "Ada", True))
    newest = client.get_latest_version(f"{owned}-value").schema_id
    assert f"declare the fields of schema {newest}" in str(raised.value)
    assert "it has the fields id, customer, source, but Strict has id, customer, paid" in str(raised.value)
    assert as_it_is(connection, client, owned) == before


def test_a_setting_of_an_owner_stays_though_the_topic_is_not_declared_as_external(
    connection: Connection, client: SchemaRegistryClient, owned: str
) -> None:
    before = as_it_is(connection, client, owned)
    registry = Registry(connection)
    with registry, pytest.raises(IncompatibleSchemaError, match="declare the topic with external=True"):
        registry.register(gs.App(owned).topic(owned, value=Strict))
    assert as_it_is(connection, client, owned) == before


def test_a_level_is_set_only_for_a_new_subject_that_needs_another_than_the_default(
    connection: Connection, client: SchemaRegistryClient, unique: str
) -> None:
    app = gs.App(unique)
    with Registry(connection) as registry:
        registry.register(app.topic(f"{unique}-a", value=Order))
        registry.register(app.topic(f"{unique}-b", value=Order, compatibility="FULL"))
    with pytest.raises(Exception, match="does not have subject-level compatibility"):
        client.get_compatibility(f"{unique}-a-value")
    assert client.get_compatibility(f"{unique}-b-value") == "FULL"


@pytest.mark.parametrize(
    ("theirs", "value", "reason"),
    [
        (
            {"type": "object", "properties": {"id": {"type": "integer"}, "tags": {"type": "array"}}},
            Written,
            "customer",
        ),
        (
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "customer": {"type": "string"},
                    "tags": {"type": "array"},
                    "any": True,
                    "pair": {"prefixItems": [{"type": "string"}, {"type": "number"}]},
                },
                "required": ["id", "customer"],
            },
            Written,
            None,
        ),
        (
            {
                "type": "object",
                "properties": {"id": {"type": "string"}, "customer": {"type": "string"}},
                "required": ["id", "customer"],
            },
            Written,
            "field id is written as string, not integer",
        ),
    ],
)
def test_somebody_elses_json_is_told_apart_too(
    connection: Connection,
    client: SchemaRegistryClient,
    unique: str,
    theirs: dict[str, Any],
    value: type[Any],
    reason: str | None,
) -> None:
    with Admin(connection) as admin:
        admin.ensure([gs.App(unique).topic(unique, value=Order)], dead_letters=False)
    client.register_schema(f"{unique}-value", Schema(json.dumps(theirs), "JSON"))
    app = gs.App(unique)
    read_by(app, app.topic(unique, value=value, external=True, format="json"))
    if reason is None:
        declare(app, connection)
    else:
        with pytest.raises(IncompatibleSchemaError, match=reason):
            declare(app, connection)


def test_a_delivery_reads_somebody_elses_topic_once_from_all_its_partitions(
    connection: Connection, client: SchemaRegistryClient, owned: str
) -> None:
    app = gs.App(owned)
    orders = app.topic(owned, value=Order, key="id", external=True)  # it has three partitions
    handled: list[int] = []

    @app.delivery(orders, group_id=f"{owned}-group", once_by=("id",))
    def note(order: gs.Record[Order]) -> None:
        handled.append(order.value.id)

    declare(app, connection)
    worker = Worker(app.graph.deliveries["note"], app.name, connection)
    thread = Thread(target=worker.run)
    thread.start()
    try:
        send(connection, client, owned, [{"id": n, "customer": "Ada", "source": "shop"} for n in range(60)])
        eventually(lambda: len(handled) >= 60)
    finally:
        worker.stop()
        thread.join(60)
    assert sorted(handled) == list(range(60))
    with Admin(connection) as admin:
        once = app.graph.deliveries["note"].once_topic
        assert admin.require([once])[once].partitions == 3


def test_an_app_reads_somebody_elses_topic_and_check_says_what_it_cannot(
    connection: Connection, client: SchemaRegistryClient, owned: str, settings: Settings
) -> None:
    app = gs.App(owned)
    orders = app.topic(owned, value=Order, key="id", external=True)
    copies = app.topic(f"copies-{owned}", value=Order)
    before = as_it_is(connection, client, owned)

    @app.pipeline(source=orders, to=copies, gear="near-real-time", freshness="10 seconds")
    def copy(orders: DataFrame) -> DataFrame:
        return orders

    with Runner(app, settings):
        send(connection, client, owned, [{"id": n, "customer": "Ada", "source": "shop"} for n in range(20)])
        eventually(lambda: {each.id for each in values(connection, copies)} == set(range(20)), every=0.5)
    now = as_it_is(connection, client, owned)
    assert (now["versions"], now["levels"]) == (before["versions"], before["levels"])

    wrong = gs.App(f"{owned}-wrong")
    strict = wrong.topic(owned, value=Strict, external=True)
    wrong.pipeline(source=strict, to=wrong.table("kept"), freshness="1 minute")(_kept)
    (report,) = check_app(wrong, settings)
    assert "field paid: is missing" in report["error"]["what"]
    with pytest.raises(GearshiftError, match="field paid: is missing"), Runner(wrong, settings):
        pass


def _kept(orders: DataFrame) -> DataFrame:
    return orders
