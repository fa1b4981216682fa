"""What app.cdc declares and rejects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import gearshift as gs
from gearshift.errors import DefinitionError


@dataclass
class Order:
    id: int


def test_each_table_is_a_topic_in_debeziums_envelope() -> None:
    app = gs.App("food")
    capture = app.cdc("orders-db", tables={"public.orders": Order, "public.riders": Order}, partitions=3)
    assert [topic.name for topic in capture.topics.values()] == [
        "orders-db.public.orders",
        "orders-db.public.riders",
    ]
    topic = capture.topics["public.orders"]
    assert (topic.value, topic.envelope, topic.format, topic.partitions) == (Order, "debezium", "json", 3)
    assert capture.connector == "food.orders-db"
    assert capture.slot == "gearshift_food_orders_db"
    assert app.graph.captures == {"orders-db": capture}
    assert topic.defined_at.file.endswith("test_app_cdc.py")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tables": {}}, r"has no tables .*; set tables="),
        ({"tables": ["public.orders"]}, r"has no tables .*; set tables="),
        ({"tables": {"orders": Order}}, r"'orders' is not a qualified table name .*; write schema.table"),
        ({"tables": {"public.orders": int}}, "row type of public.orders is not a dataclass"),
        ({"tables": {"public.orders": Order}, "partitions": 0}, "at least one partition"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_write(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        gs.App("food").cdc("orders-db", **arguments)


def test_a_name_is_taken_once_also_by_a_topic() -> None:
    app = gs.App("food")
    app.topic("shop.public.orders", value=Order)
    with pytest.raises(DefinitionError, match=r"topic shop\.public\.orders is declared twice"):
        app.cdc("shop", tables={"public.orders": Order})
    app.cdc("orders-db", tables={"public.orders": Order})
    with pytest.raises(DefinitionError, match="orders-db is declared twice"):
        app.cdc("orders-db", tables={"public.orders": Order})


def test_a_password_is_refused_unseen_and_a_reference_to_one_is_kept() -> None:
    tables = {"public.orders": Order}
    with pytest.raises(DefinitionError, match="is not a reference") as refused:
        gs.App("food").cdc("orders-db", tables=tables, password="hunter2")
    assert "hunter2" not in str(refused.value)
    capture = gs.App("food").cdc("orders-db", tables=tables, password="${env:ORDERS_DB_PASSWORD}")
    assert capture.password == "${env:ORDERS_DB_PASSWORD}"


def test_a_delivery_of_changes_keeps_order_by_their_key_and_needs_no_once_by() -> None:
    app = gs.App("food")
    (topic,) = app.cdc("orders-db", tables={"public.orders": Order}).topics.values()

    @app.delivery(topic, parallelism=4)
    def look(record: gs.Record[gs.Change[Order]]) -> None: ...

    assert app.graph.deliveries["look"].parallelism == 4
    with pytest.raises(DefinitionError, match="has once_by, but topic orders-db"):

        @app.delivery(topic, once_by="id")
        def twice(record: gs.Record[gs.Change[Order]]) -> None: ...


def rows(orders: Any) -> Any:
    return orders


def test_rows_as_they_are_now_go_to_a_table_that_can_keep_them() -> None:
    app = gs.App("food")
    orders = app.cdc("orders-db", tables={"public.orders": Order}).topics["public.orders"]
    current = app.table("orders", key="id", sequence_by="_position", deleted="_deleted")
    app.pipeline(source=orders, to=current, as_of="latest", freshness="10 seconds")(rows)
    seen = app.graph.pipelines["rows"].topics["orders"]
    assert (seen.name, seen.as_of, orders.as_of) == (orders.name, "latest", None)


@pytest.mark.parametrize(
    ("source", "table", "as_of", "message"),
    [
        ("captured", {"key": "id"}, "latest", r"sequence_by='_position', deleted='_deleted'"),
        ("captured", {}, "latest", r"declare it with key="),
        ("captured", {"key": "id"}, "yesterday", r"as_of='yesterday' .*; use as_of='latest'"),
        ("plain", {"key": "id"}, "latest", r"0 captured tables among its sources"),
    ],
)
def test_rows_as_they_are_now_are_refused_where_they_cannot_be(
    source: str, table: dict[str, Any], as_of: Any, message: str
) -> None:
    app = gs.App("food")
    captured = app.cdc("orders-db", tables={"public.orders": Order}).topics["public.orders"]
    topics = {"captured": captured, "plain": app.topic("plain", value=Order)}
    declare = app.pipeline(
        source=topics[source], to=app.table("orders", **table), as_of=as_of, freshness="10 seconds"
    )
    with pytest.raises(DefinitionError, match=message):
        declare(rows)


def test_only_a_connector_writes_an_envelope() -> None:
    app = gs.App("food")
    orders = app.cdc("orders-db", tables={"public.orders": Order}).topics["public.orders"]
    plain = app.topic("plain", value=Order)
    with pytest.raises(DefinitionError, match="which a connector fills"):
        app.pipeline(source=plain, to=orders, freshness="1 second")(rows)
    for format_, registered in (("json", False), ("avro", True)):
        own = app.topic(f"mine.{format_}.orders", value=Order, format=format_, envelope="debezium")
        assert (own.envelope, own.is_registered) == ("debezium", registered)


@pytest.mark.parametrize(
    ("partitions", "parallelism", "split"), [(3, 1, "with 3 partitions"), (1, 2, "parallelism=2")]
)
def test_a_copy_that_a_truncate_could_find_out_of_order_is_refused(
    partitions: int, parallelism: int, split: str
) -> None:
    app = gs.App("food")
    (orders,) = app.cdc("orders-db", tables={"public.orders": Order}, partitions=partitions).topics.values()

    def copy(record: gs.Record[gs.Change[Order]]) -> gs.Change[Order]:
        return record.value

    store = gs.destinations.Cassandra(table="food.orders", key="id")
    with pytest.raises(
        DefinitionError, match=f"{split}: a truncate has no key.*keep the copy in an app.table"
    ):
        app.delivery(orders, to=store, parallelism=parallelism)(copy)
    app.delivery(orders, parallelism=parallelism)(copy)  # no copy, no order to keep
