"""The app that the browser looks at: orders and their delays, in all gears, with a board and a delivery.

It is read by `gearshift run`, so it stands alone. NAME and GATEWAY come from the environment.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs

NAME = os.environ.get("SHOP_NAME", "shop")
GATEWAY = os.environ.get("SHOP_GATEWAY", "http://127.0.0.1:1")
HOSTILE_MARK = "<script>document.title='taken'</script>"


@dataclass
class Order:
    order_id: str
    shop: str
    amount: int
    ordered_at: datetime


app = gs.App(NAME, timezone="Europe/Amsterdam")
orders = app.topic(f"{NAME}-orders", value=Order, key="shop", partitions=2)
large = app.topic(f"{NAME}-large", value=Order, key="shop")
kept = app.table("kept")
daily = app.table("daily")

app.board(
    "orders",
    gs.Number(large, title="Large orders"),
    gs.Series(orders, title="Orders per second"),
    gs.Leaderboard(orders, by="amount", label="shop", title="Latest amounts"),
    gs.Feed(large, text="{shop} ordered for {amount}", at="ordered_at", level="warning", title="Large"),
    gs.TableView(daily, columns=("shop", "orders", "amount"), title="By day"),
)


@app.source(to=orders, rate=40, seed=4)
def ordering(chance: random.Random) -> Iterator[Order]:
    """Orders of the last three days, some from a shop with an unpleasant name."""
    start = datetime.now(UTC) - timedelta(days=3)
    shops = ["north", "south", "ümlaut & co", HOSTILE_MARK]
    for number in range(10**9):
        at = start + timedelta(minutes=7 * (number % 600))
        yield Order(f"o-{number}", chance.choice(shops), chance.randrange(100), at)


@app.pipeline(source=orders, to=large, freshness="1 second")
def large_orders(orders: DataFrame) -> DataFrame:
    """What a person should see."""
    return orders.where(F.col("amount") >= 90)


@app.pipeline(source=orders, to=kept, freshness="10 seconds")
def keep_orders(orders: DataFrame) -> DataFrame:
    """Every order."""
    return orders


@app.pipeline(source=kept, to=daily, freshness="1 day", event_time="ordered_at")
def orders_by_day(kept: DataFrame) -> DataFrame:
    """Sales of each shop and day."""
    return kept.groupBy("shop").agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))


@app.delivery(large, group_id=f"{NAME}-calls", to=gs.destinations.Webhook(GATEWAY))
def call(order: gs.Record[Order]) -> dict[str, object]:
    """Tell the shop."""
    return {"shop": order.value.shop, "amount": order.value.amount}
