"""An app over a captured table of meals, and over changes in Avro that somebody else's connector writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any

import psycopg
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import tables
from gearshift.settings import Settings


@dataclass(frozen=True)
class Meal:
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
class Shopping:
    id: int
    customer: str
    amount: Decimal
    tip: int = 5


@dataclass(frozen=True)
class Kitchen:
    """The app, its topics, and what its delivery took."""

    app: gs.App
    meals: gs.Topic
    moves: gs.Topic
    shop: gs.Topic
    delivered: list[gs.Change[Shopping]] = field(default_factory=list[gs.Change[Shopping]])


def declared() -> Kitchen:
    """Meals as they are now in a table and their moves in a topic; shopping in a table, and delivered."""
    app = gs.App("meals")
    # A truncate comes on one of the partitions only: a table knows by the place in the log what it took away.
    captured = app.cdc("meals-db", tables={"public.meals": Meal}, before=True, partitions=3)
    kitchen = Kitchen(
        app,
        meals=captured.topics["public.meals"],
        moves=app.topic("moves", value=Move, key="id"),
        shop=app.topic("shop.public.orders", value=Shopping, envelope="debezium"),
    )

    def table(name: str) -> gs.Table:
        return app.table(name, key="id", sequence_by="_position", deleted="_deleted")

    @app.pipeline(source=kitchen.meals, to=table("meals"), as_of="latest", freshness="10 seconds")
    def keep_meals(meals: DataFrame) -> DataFrame:
        return meals

    @app.pipeline(source=kitchen.meals, to=kitchen.moves, gear="real-time")
    def follow(meals: DataFrame) -> DataFrame:
        moved = meals.where(F.col("op").isin("u", "d"))
        return moved.select(
            F.coalesce("after.id", "before.id").alias("id"),
            "op",
            F.col("before.status").alias("was"),
            F.col("after.status").alias("now"),
        )

    @app.pipeline(source=kitchen.shop, to=table("shopping"), as_of="latest", freshness="10 seconds")
    def keep_shopping(shop: DataFrame) -> DataFrame:
        return shop

    @app.delivery(kitchen.shop)
    def take(record: gs.Record[gs.Change[Shopping]]) -> None:
        kitchen.delivered.append(record.value)

    return kitchen


def served(database: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    """The meals in the database."""
    return database.execute("SELECT id, customer, amount, status, note FROM meals ORDER BY id").fetchall()


def kept(settings: Settings) -> list[tuple[Any, ...]] | None:
    """The meals in the warehouse; None before the first batch."""
    return _rows(settings, "meals", "id, customer, amount, status, note")


def bought(settings: Settings) -> list[tuple[Any, ...]] | None:
    """The shopping in the warehouse."""
    return _rows(settings, "shopping", "id, customer, amount, tip")


def _rows(settings: Settings, table: str, columns: str) -> list[tuple[Any, ...]] | None:
    if not tables.exists(tables.table_uri(settings.warehouse_uri, table)):
        return None
    found = tables.sql(settings.warehouse_uri, f"SELECT {columns} FROM {table} ORDER BY id")
    return [tuple(row) for row in found.rows]
