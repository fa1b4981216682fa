"""Change data capture for the page on speed: the orders of a shop's PostgreSQL, and a table that follows them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

import gearshift as gs


@dataclass
class Order:
    id: int
    restaurant: str
    total: float


app = gs.App("shop")
orders = app.cdc("shop", tables={"public.orders": Order}).topics["public.orders"]
current = app.table("orders", key="id", sequence_by="_position", deleted="_deleted")


@app.pipeline(source=orders, to=current, as_of="latest", freshness="10 seconds")
def keep_orders(orders: DataFrame) -> DataFrame:
    return orders
