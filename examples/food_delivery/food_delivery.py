"""Food delivery: one database, three kinds of freshness, without changing the application.

`simulator.py` is the application: it only writes to PostgreSQL. Each committed change goes to Kafka. In real-time, each
restaurant's open orders and late orders are written to Cassandra, for the screens in the kitchens; minutes per stage
are in a table some seconds later; at the end of a day, a batch over its orders computes revenue and best sellers.
`gearshift run food_delivery.py` runs it on the database of your settings.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from rows import LateOrder, Order, OrderState, Rider, StatusChange

import gearshift as gs

app = gs.App("food-delivery")
database = app.cdc(
    "food-db",
    tables={"public.orders": Order, "public.status_changes": StatusChange, "public.riders": Rider},
    before=True,  # a cancelled order is deleted, and the kitchen has to know its restaurant
)
orders, status_changes, riders = database.topics.values()
order_states = app.topic("order-states", value=OrderState, key="restaurant")
late_orders = app.topic("late-orders", value=LateOrder, key="restaurant")

orders_now = app.table("orders", key="id", sequence_by="_position", deleted="_deleted")
stage_minutes = app.table("stage_minutes", key=("order_id", "stage"))
daily_revenue = app.table("daily_revenue")
best_sellers = app.table("best_sellers")

app.board(
    "kitchens",
    gs.TableView(
        order_states,
        columns=("restaurant", "order_id", "dish", "quantity", "status", "promised_at"),
        key="order_id",
        where={"is_open": True},
    ),
    gs.Feed(
        late_orders, text="{restaurant}: order {order_id} is {minutes_late} minutes late", level="warning"
    ),
)


@app.pipeline(source=orders, to=order_states, freshness="1 second")
def follow_orders(orders: DataFrame) -> DataFrame:
    """The current state of each order; a cancelled one is no longer open."""
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
    """Orders that change after their promised delivery time."""
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
    """The kitchen's screen: one row per order until it is delivered or cancelled."""
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
    """One row per late order."""
    return record.value


@app.delivery(riders, to=gs.destinations.Cassandra(table="food.riders", key="id"), commit="async")
def copy_riders(record: gs.Record[gs.Change[Rider]]) -> gs.Change[Rider]:
    """A copy of the riders table, made from its changes; deleted rows are deleted here too."""
    return record.value


@app.pipeline(source=status_changes, to=stage_minutes, freshness="10 seconds")
def measure_stages(status_changes: DataFrame) -> DataFrame:
    """How long each order spent in each status."""
    return status_changes.where("after is not null").select(
        "after.order_id",
        F.col("after.status").alias("stage"),
        "after.restaurant",
        ((F.unix_seconds("after.until") - F.unix_seconds("after.since")) / 60).alias("minutes"),
    )


@app.pipeline(source=orders, to=orders_now, freshness="10 seconds", as_of="latest")
def keep_orders(orders: DataFrame) -> DataFrame:
    """The current orders, for queries."""
    return orders


@app.pipeline(source=orders_now, to=daily_revenue, freshness="1 day", event_time="placed_at")
def sum_revenue(orders: DataFrame, interval: gs.Interval) -> DataFrame:
    """Each restaurant's revenue from delivered orders in a day."""
    return (
        orders.where("status = 'delivered'")
        .groupBy("restaurant")
        .agg(F.count("*").alias("orders"), F.sum("amount").cast("decimal(12,2)").alias("revenue"))
        .withColumn("day", F.lit(interval.start.date()))
    )


@app.pipeline(source=orders_now, to=best_sellers, freshness="1 day", event_time="placed_at")
def rank_dishes(orders: DataFrame, interval: gs.Interval) -> DataFrame:
    """Each restaurant's two best-selling dishes of a day."""
    sold = (
        orders.where("status = 'delivered'")
        .groupBy("restaurant", "dish")
        .agg(F.sum("quantity").alias("sold"))
        .withColumn("day", F.lit(interval.start.date()))
    )
    by_sales = Window.partitionBy("restaurant").orderBy(F.desc("sold"), "dish")
    return sold.withColumn("place", F.row_number().over(by_sales)).where("place <= 2")
