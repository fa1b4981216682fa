"""Change capture through a running app: from PostgreSQL to tables and topics, and what goes wrong on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import psycopg
import pytest
from pydantic import SecretStr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import stack as local
from gearshift import tables
from gearshift.errors import DatabaseUnreachableError, WrongPasswordError
from gearshift.runner.checking import check_app
from gearshift.runner.runner import Runner
from gearshift.settings import Settings, load
from gearshift.stack import postgres
from gearshift.topics import Producer, read
from tests.flow import values
from tests.support import eventually


@dataclass(frozen=True)
class Order:
    id: int
    customer: str
    amount: Annotated[Decimal, gs.DecimalOf(12, 2)]
    status: str
    note: str | None


@dataclass(frozen=True)
class Move:
    id: int
    op: str
    was: str | None
    now: str | None


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return load(
        {
            "home": tmp_path_factory.mktemp("cdc"),
            "services": "postgres,connect",
            "checkpoint_interval": "5 seconds",
        },
        environ={},
    )


@pytest.fixture(scope="module")
def stack(settings: Settings) -> Iterator[local.Stack]:
    with local.up(settings) as running:
        yield running


@pytest.fixture(scope="module")
def database(stack: local.Stack) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(stack.address("postgres"), autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE orders (id int PRIMARY KEY, customer varchar(20) NOT NULL, amount numeric(10,2) NOT NULL,"
            " status text NOT NULL, note text)"
        )
        connection.execute(
            "INSERT INTO orders SELECT n, 'c' || n % 10, n * 1.25, 'placed', NULL FROM generate_series(1, 500) n"
        )
        yield connection


def truth(database: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    return database.execute("SELECT id, customer, amount, status, note FROM orders ORDER BY id").fetchall()


def kept(settings: Settings) -> list[tuple[Any, ...]]:
    uri = tables.table_uri(settings.warehouse_uri, "orders")
    if not tables.exists(uri):
        return []
    found = tables.sql(
        settings.warehouse_uri, "SELECT id, customer, amount, status, note FROM orders ORDER BY id"
    )
    return [tuple(row) for row in found.rows]


def test_a_captured_table_is_kept_row_for_row_through_every_kind_of_change(
    stack: local.Stack, settings: Settings, database: psycopg.Connection[Any]
) -> None:
    app = gs.App("food")
    orders = app.cdc("orders-db", tables={"public.orders": Order}, before=True).topics["public.orders"]
    current = app.table("orders", key="id", order_by="_position", deleted="_deleted")
    moves = app.topic("moves", value=Move, key="id")

    @app.pipeline(source=orders, to=current, as_of="latest", freshness="10 seconds")
    def keep_orders(orders: DataFrame) -> DataFrame:
        return orders

    @app.pipeline(source=orders, to=moves, gear="real-time")
    def follow(orders: DataFrame) -> DataFrame:
        moved = orders.where(F.col("op").isin("u", "d"))
        return moved.select(
            F.coalesce("after.id", "before.id").alias("id"),
            "op",
            F.col("before.status").alias("was"),
            F.col("after.status").alias("now"),
        )

    with Runner(app, settings) as runner:
        eventually(lambda: kept(settings) == truth(database), within=90, every=0.5)
        database.execute("UPDATE orders SET status = 'cooked', amount = amount + 0.01 WHERE id <= 50")
        database.execute("DELETE FROM orders WHERE id BETWEEN 40 AND 60")
        database.execute("UPDATE orders SET id = id + 1000 WHERE id = 1")
        database.execute("INSERT INTO orders VALUES (45, 'back', -0.01, 'placed', 'again')")
        eventually(lambda: kept(settings) == truth(database), within=60, every=0.5)
        found = eventually(
            lambda: len(seen := values(stack.connection, moves)) >= 50 + 21 + 1 and seen, within=60, every=0.5
        )
        assert found[0] == Move(1, "u", "placed", "cooked")
        assert Move(60, "d", "placed", None) in found

        database.execute("TRUNCATE orders")
        database.execute(
            "INSERT INTO orders SELECT n, 'new', 1, 'placed', NULL FROM generate_series(30, 70) n"
        )
        eventually(lambda: kept(settings) == truth(database), within=60, every=0.5)

        with Producer(stack.connection) as producer:
            for bad in (b"garbage", b'{"op":"c","after":{"id":"seven"}}', b'{"op":"x"}'):
                producer.send_bytes(orders.name, bad)
        letters = eventually(
            lambda: len(found := list(read(stack.connection, orders.dead_letters))) >= 6 and found,
            within=60,
            every=0.5,
        )
        reasons = {
            (letter.header("__connect.errors.exception.message") or b"").decode() for letter in letters
        }
        assert any("after.id is no bigint" in reason for reason in reasons), reasons

        database.execute("ALTER TABLE orders ADD COLUMN tip numeric NOT NULL DEFAULT 0")
        database.execute("ALTER TABLE orders ALTER id TYPE bigint, ALTER customer TYPE text")
        database.execute("INSERT INTO orders VALUES (5000000000, %s, 2, 'placed', NULL, 3)", ["long " * 20])
        database.execute("ALTER TABLE orders DROP COLUMN note")
        database.execute("INSERT INTO orders VALUES (72, 'x', 2, 'placed', 4)")
        database.execute("ALTER TABLE orders ADD COLUMN note text")
        eventually(lambda: kept(settings) == truth(database), within=60, every=0.5)

        (status,) = runner.status()["captures"]
        assert status["running"], status
        assert [task["state"] for task in status["tasks"]] == ["running"]

        database.execute("ALTER TABLE orders RENAME COLUMN status TO state")
        database.execute(
            "INSERT INTO orders (id, customer, amount, state, tip) VALUES (73, 'x', 2, 'placed', 4)"
        )
        told = eventually(lambda: runner.status()["pipelines"][0]["error"], within=60, every=0.5)
        assert "the source table has no column status any more" in told
        database.execute("ALTER TABLE orders RENAME COLUMN state TO status")


def test_a_second_reader_of_the_slot_is_told_in_the_status_and_shows_no_password(
    stack: local.Stack, settings: Settings, database: psycopg.Connection[Any]
) -> None:
    app = gs.App("food")
    app.cdc("orders_db", tables={"public.orders": Order})  # the same slot as orders-db has
    with Runner(app, settings) as runner:
        told = eventually(lambda: runner.status()["captures"][0]["error"], within=60, every=0.5)
        assert "another connector reads the replication slot gearshift_food_orders_db" in told
        eventually(lambda: runner.status()["captures"][0]["restarts"], within=60, every=0.5)
        shown = json.dumps(runner.status())
        runner.captures["orders_db"].delete()
    password = postgres.passwords(settings.home / "stack" / "postgres").read_text().strip().rpartition(":")[2]
    assert password not in shown


def test_a_wrong_password_stops_the_app_before_anything_flows(
    stack: local.Stack, settings: Settings, database: psycopg.Connection[Any]
) -> None:
    app = gs.App("locked")
    app.cdc("orders-db", tables={"public.orders": Order})
    address = stack.address("postgres").partition("?")[0].replace("gearshift@", "gearshift:hunter2@")
    wrong = settings.model_copy(update={"postgres": SecretStr(address)})
    with pytest.raises((WrongPasswordError, DatabaseUnreachableError)) as told, Runner(app, wrong):
        pass
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (lambda rows: rows.where(F.col("status") == "placed"), "say it as a deletion"),
        (
            lambda rows: rows.groupBy("id").agg(F.max("_position").alias("_position")),
            "aggregate over that table",
        ),
    ],
)
def test_what_would_be_out_of_date_is_refused_by_check(
    settings: Settings, wrong: Callable[[DataFrame], DataFrame], hint: str
) -> None:
    app = gs.App("checked")
    orders = app.cdc("orders-db", tables={"public.orders": Order}).topics["public.orders"]
    current = app.table("orders", key="id", order_by="_position", deleted="_deleted")

    @app.pipeline(source=orders, to=current, as_of="latest", freshness="10 seconds")
    def keep_orders(orders: DataFrame) -> DataFrame:
        return wrong(orders)

    (report,) = check_app(app, settings)
    assert hint in report["error"]["hint"], report
