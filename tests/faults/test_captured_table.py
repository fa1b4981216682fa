"""A captured table of 100,000 rows that changes while Kafka Connect is killed and PostgreSQL restarts."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from pyspark.sql import DataFrame

import gearshift as gs
from gearshift import tables
from gearshift.runner.runner import Runner
from gearshift.settings import Settings, load
from tests.captured import Changing, Order, Orders, kill_service
from tests.support import eventually

ROWS = 100_000
PER_SECOND = 200
SECONDS = 20.0


def kept(settings: Settings) -> set[Order]:
    """What the table in the warehouse holds."""
    uri = tables.table_uri(settings.warehouse_uri, "orders")
    found = tables.rows(uri) if tables.exists(uri) else []
    return {
        Order(
            row["id"],
            row["restaurant"],
            row["amount"],
            row["status"],
            row["note"],
            row["placed_at"].astimezone(UTC),
        )
        for row in found
    }


def counted(settings: Settings) -> int:
    uri = tables.table_uri(settings.warehouse_uri, "orders")
    return tables.read_paths(uri).rows if tables.exists(uri) else 0


def test_the_upserted_table_equals_the_source_through_two_kills_of_connect_and_a_restart_of_postgres(
    tmp_path: Path,
) -> None:
    settings = load({"home": tmp_path / "home"}, folder=tmp_path, environ={})
    app = gs.App("food")
    orders = app.cdc("orders-db", tables={"public.orders": Order}).topics["public.orders"]
    current = app.table("orders", key="id", order_by="_position", deleted="_deleted")

    @app.pipeline(source=orders, to=current, as_of="latest", freshness="10 seconds")
    def keep_orders(orders: DataFrame) -> DataFrame:
        return orders

    with Runner(app, settings) as runner:
        (capture,) = runner.captures.values()
        eventually(lambda: capture.error, within=60, every=0.2)
        assert "has no table that the connector is to capture" in str(capture.error)
        source = Orders(runner.stack.address("postgres"), rows=ROWS)
        eventually(lambda: counted(settings) == ROWS, within=120, every=0.5)

        with Changing(source, per_second=PER_SECOND, seconds=SECONDS) as changing:
            eventually(lambda: source.changes > PER_SECOND * SECONDS * 0.1, within=60)
            kill_service(runner.stack, "connect")
            eventually(lambda: source.changes > PER_SECOND * SECONDS * 0.4, within=60)
            runner.stack.stop_service("postgres")
            eventually(lambda: source.changes > PER_SECOND * SECONDS * 0.7, within=60)
            eventually(lambda: not runner.stack.dead(), within=60)
            kill_service(runner.stack, "connect")
            changing.join()

        eventually(lambda: kept(settings) == source.rows(), within=120, every=1)
        eventually(lambda: runner.status()["captures"][0]["running"], within=60, every=0.5)
        assert len(source.rows()) > ROWS * 0.9
        (pipeline,) = runner.status()["pipelines"]
        assert (pipeline["dead_letters"], pipeline["gap"], pipeline["error"]) == (0, 0, None)
