"""Change capture through a running app: from PostgreSQL to tables and topics, and what goes wrong on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import psycopg
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import stack as local
from gearshift import tables
from gearshift.runner.runner import Runner
from gearshift.settings import Settings, load
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


@dataclass(frozen=True)
class Visits:
    customer: str
    orders: int


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

        status = runner.status()["captures"][0]
        assert status["running"], status
        assert [task["state"] for task in status["tasks"]] == ["running"]
