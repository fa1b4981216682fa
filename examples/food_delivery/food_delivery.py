"""The food-delivery story: from the app's database to three promises, without a word to the app.

`shop.py` is the app: it writes to PostgreSQL and knows of nothing else. Each committed change goes to Kafka. In
real-time every restaurant's open orders and the late ones are kept in Cassandra, where a screen in the kitchen would
read them; each minute spent waiting is in a table some seconds later; and when a day is over, a batch over its orders
makes revenue and best sellers. `gearshift run examples/food_delivery/food_delivery.py` runs it on the database of your settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

import gearshift as gs

Money = Annotated[Decimal, gs.DecimalOf(10, 2)]


@dataclass
class Order:
    id: int
    restaurant: str
    dish: str
    quantity: int
    amount: Money
    status: str
    placed_at: datetime
    promised_at: datetime
    changed_at: datetime


@dataclass
class StatusChange:
    """An order was in a status since one instant and until another."""

    order_id: int
    status: str
    restaurant: str
    since: datetime
    until: datetime


@dataclass
class Rider:
    id: int
    name: str
    order_id: int | None
    trips: int
    changed_at: datetime


@dataclass
class OrderState:
    """How an order is, as of the commit that made it so."""

    restaurant: str
    order_id: int
    dish: str
    quantity: int
    status: str
    is_open: bool
    promised_at: datetime
    at: datetime


@dataclass
class LateOrder:
    restaurant: str
    order_id: int
    status: str
    minutes_late: int
    at: datetime


app = gs.App("food-delivery")
database = app.cdc(
    "food-db",
    tables={"public.orders": Order, "public.status_changes": StatusChange, "public.riders": Rider},
    before=True,  # an order that is withdrawn is deleted, and the kitchen must know which restaurant had it
)
orders, status_changes, riders = database.topics.values()
order_states = app.topic("order-states", value=OrderState, key="restaurant")
late_orders = app.topic("late-orders", value=LateOrder, key="restaurant")

orders_now = app.table("orders", key="id", order_by="_position", deleted="_deleted")
stage_minutes = app.table("stage_minutes", key=("order_id", "stage"))
daily_revenue = app.table("daily_revenue")
best_sellers = app.table("best_sellers")


@app.pipeline(source=orders, to=order_states, freshness="1 second")
def follow_orders(orders: DataFrame) -> DataFrame:
    """Each order as it is now; one that was withdrawn is no longer open."""
    row = F.coalesce("after", "before")
    is_open = F.col("after").isNotNull() & (row["status"] != "delivered")
    return orders.select(
        row["restaurant"].alias("restaurant"),
        row["id"].alias("order_id"),
        row["dish"].alias("dish"),
        row["quantity"].alias("quantity"),
        row["status"].alias("status"),
        is_open.alias("is_open"),
        row["promised_at"].alias("promised_at"),
        F.col("source_time").alias("at"),
    )


@app.pipeline(source=orders, to=late_orders, freshness="1 second")
def find_late_orders(orders: DataFrame) -> DataFrame:
    """An order that something happens to after it was promised to be there."""
    late_by = F.unix_seconds("after.changed_at") - F.unix_seconds("after.promised_at")
    return orders.where(late_by > 0).select(
        "after.restaurant",
        F.col("after.id").alias("order_id"),
        "after.status",
        F.floor(late_by / 60).alias("minutes_late"),
        F.col("source_time").alias("at"),
    )


@app.delivery(
    order_states,
    to=gs.destinations.Cassandra(table="food.open_orders", key=("restaurant", "order_id"), event_time="at"),
    commit="async",
)
def show_open_orders(record: gs.Record[OrderState]) -> OrderState | gs.destinations.Delete:
    """The kitchen's screen: a row comes with the order and goes when it is delivered or withdrawn."""
    order = record.value
    if order.is_open:
        return order
    return gs.destinations.Delete(restaurant=order.restaurant, order_id=order.order_id, at=order.at)


@app.delivery(
    late_orders,
    to=gs.destinations.Cassandra(table="food.late_orders", key=("restaurant", "order_id"), event_time="at"),
    commit="async",
)
def warn_of_late_orders(record: gs.Record[LateOrder]) -> LateOrder:
    """One row an order, however often it is late."""
    return record.value


@app.delivery(riders, to=gs.destinations.Cassandra(table="food.riders", key="id"), commit="async")
def copy_riders(record: gs.Record[gs.Change[Rider]]) -> gs.Change[Rider]:
    """A copy of the app's table, straight from the changes: those who go home go from it too."""
    return record.value


@app.pipeline(source=status_changes, to=stage_minutes, freshness="10 seconds")
def measure_stages(status_changes: DataFrame) -> DataFrame:
    """How long each order waited in each status."""
    return status_changes.where("after is not null").select(
        "after.order_id",
        F.col("after.status").alias("stage"),
        "after.restaurant",
        ((F.unix_seconds("after.until") - F.unix_seconds("after.since")) / 60).alias("minutes"),
    )


@app.pipeline(source=orders, to=orders_now, freshness="10 seconds", as_of="latest")
def keep_orders(orders: DataFrame) -> DataFrame:
    """The orders as they are, for whoever has questions."""
    return orders


@app.pipeline(source=orders_now, to=daily_revenue, freshness="1 day", by="placed_at")
def sum_revenue(orders: DataFrame, interval: gs.Interval) -> DataFrame:
    """What each restaurant earned in a day, with what it delivered."""
    return (
        orders.where("status = 'delivered'")
        .groupBy("restaurant")
        .agg(F.count("*").alias("orders"), F.sum("amount").cast("decimal(12,2)").alias("revenue"))
        .withColumn("day", F.lit(interval.start.date()))
    )


@app.pipeline(source=orders_now, to=best_sellers, freshness="1 day", by="placed_at")
def rank_dishes(orders: DataFrame, interval: gs.Interval) -> DataFrame:
    """The dish that each restaurant delivered most of in a day, and the runner-up."""
    sold = (
        orders.where("status = 'delivered'")
        .groupBy("restaurant", "dish")
        .agg(F.sum("quantity").alias("sold"))
        .withColumn("day", F.lit(interval.start.date()))
    )
    by_sales = Window.partitionBy("restaurant").orderBy(F.desc("sold"), "dish")
    return sold.withColumn("place", F.row_number().over(by_sales)).where("place <= 2")
