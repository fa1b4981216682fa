"""Every number of the demo twice: as stored, and as computed by the shop's database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from gearshift import tables
from gearshift.errors import TableError

TRUTH = {
    "open orders": """
        SELECT restaurant, id, status FROM orders WHERE status <> 'delivered'""",
    "late orders": """
        SELECT orders.restaurant, id, floor(extract(epoch FROM max(until) - promised_at) / 60)::bigint
        FROM orders JOIN status_changes ON order_id = id
        WHERE until > promised_at GROUP BY orders.restaurant, id""",
    "riders": """
        SELECT id, name, order_id, trips FROM riders""",
    "minutes per stage": """
        WITH steps AS (
            SELECT order_id, status_changes.status, until,
                coalesce(lag(until) OVER (PARTITION BY order_id ORDER BY until), placed_at) AS began
            FROM status_changes JOIN orders ON id = order_id
        )
        SELECT status, count(*), sum(extract(epoch FROM until - began))::bigint FROM steps GROUP BY status""",
    "revenue": """
        SELECT (placed_at AT TIME ZONE 'UTC')::date, restaurant, count(*), sum(amount)
        FROM orders WHERE status = 'delivered' GROUP BY 1, 2""",
    "best sellers": """
        SELECT day, restaurant, dish, sold, place FROM (
            SELECT (placed_at AT TIME ZONE 'UTC')::date AS day, restaurant, dish, sum(quantity) AS sold,
                rank() OVER (
                    PARTITION BY (placed_at AT TIME ZONE 'UTC')::date, restaurant
                    ORDER BY sum(quantity) DESC, dish
                ) AS place
            FROM orders WHERE status = 'delivered' GROUP BY 1, 2, 3
        ) AS ranked WHERE place <= 2""",
}
IN_CASSANDRA = {
    "open orders": "SELECT restaurant, order_id, status FROM food.open_orders",
    "late orders": "SELECT restaurant, order_id, minutes_late FROM food.late_orders",
    "riders": "SELECT id, name, order_id, trips FROM food.riders",
}
IN_TABLES = {
    "minutes per stage": "SELECT stage, count(*), round(sum(minutes) * 60)::bigint FROM stage_minutes GROUP BY stage",
    "revenue": "SELECT day, restaurant, orders, revenue FROM daily_revenue",
    "best sellers": "SELECT day, restaurant, dish, sold, place FROM best_sellers",
}

Rows = set[tuple[Any, ...]]


def must_be(dsn: str, what: str) -> Rows:
    """The rows computed by the shop's database."""
    with psycopg.connect(dsn) as database:
        return set(database.execute(TRUTH[what].encode()).fetchall())


def found(what: str, ask_cassandra: Callable[[str], Any], warehouse: str) -> Rows:
    """The stored rows; none while the table does not exist."""
    if what in IN_CASSANDRA:
        return {tuple(row) for row in ask_cassandra(IN_CASSANDRA[what])}
    try:
        return {tuple(row) for row in tables.sql(warehouse, IN_TABLES[what]).rows}
    except TableError:
        return set()
