"""A captured table of 100,000 rows, and three copies of it, while Kafka Connect is killed and PostgreSQL restarts."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any

from cassandra import ReadFailure, ReadTimeout
from pyspark.sql import DataFrame

import gearshift as gs
from gearshift import tables
from gearshift.destinations.cassandra.driver import ContactPoints, connect
from gearshift.runner.runner import Runner
from gearshift.settings import load
from tests.captured import COLUMNS, Changing, Order, Orders, kill_service
from tests.support import eventually

ROWS = 100_000
PER_SECOND = 200
SECONDS = 60.0


class Copies:
    """The three copies of a captured table: in the warehouse, in Cassandra and in PostgreSQL itself."""

    def __init__(self, source: Orders, warehouse: str, cassandra: Any) -> None:
        self._source, self._warehouse, self._cassandra = source, warehouse, cassandra

    def of_the_warehouse(self, where: str = "true") -> list[Order]:
        found = tables.sql(self._warehouse, f"SELECT {COLUMNS} FROM orders WHERE {where}")
        return [Order.of(row) for row in found.rows]

    def of_cassandra(self, where: str = "") -> list[Order]:
        (found,) = eventually(lambda: self._answers(f"SELECT {COLUMNS} FROM copies.orders {where}"))
        return [
            Order(*row[:5], row[5].replace(tzinfo=UTC), None if row[6] is None else row[6].date())
            for row in found
        ]

    def _answers(self, query: str) -> list[list[Any]]:
        """The rows, or no answer where the machine is too busy for the ten seconds that Cassandra gives a read."""
        try:
            return [list(self._cassandra.execute(query))]
        except (ReadFailure, ReadTimeout):
            return []

    def has(self, id_: int) -> bool:
        return (
            self._source.has(id_, "copies.orders")
            and bool(self.of_cassandra(f"WHERE id = {id_}"))
            and bool(self.of_the_warehouse(f"id = {id_}"))
        )

    def assert_equal(self, *, at_least: int) -> None:
        """Each has the very rows of the source, each once."""
        truth = sorted(self._source.rows(), key=_id)
        assert len(truth) >= at_least
        copies = {
            "warehouse": self.of_the_warehouse(),
            "Cassandra": self.of_cassandra(),
            "PostgreSQL": self._source.rows("copies.orders"),
        }
        # By name and id first: of a hundred thousand rows only those that differ are worth reading.
        wrong = {
            name: set(copy) ^ set(truth) for name, copy in copies.items() if sorted(copy, key=_id) != truth
        }
        assert not wrong, {name: sorted(rows, key=_id)[:5] for name, rows in wrong.items()}


def _id(order: Order) -> int:
    return order.id


def declared() -> gs.App:
    app = gs.App("food")
    orders = app.cdc("orders-db", tables={"public.orders": Order}).topics["public.orders"]
    current = app.table("orders", key="id", sequence_by="_position", deleted="_deleted")

    @app.pipeline(source=orders, to=current, as_of="latest", freshness="20 seconds")
    def keep_orders(orders: DataFrame) -> DataFrame:
        return orders

    @app.delivery(orders, to=gs.destinations.Cassandra(table="copies.orders", key="id"), commit="async")
    def to_cassandra(record: gs.Record[gs.Change[Order]]) -> gs.Change[Order]:
        return record.value

    @app.delivery(orders, to=gs.destinations.Postgres(table="copies.orders", key="id"), commit="async")
    def to_postgres(record: gs.Record[gs.Change[Order]]) -> gs.Change[Order]:
        return record.value

    return app


def test_table_and_copies_equal_the_source_through_kills_of_connect_and_restarts_of_postgres(
    tmp_path: Path,
) -> None:
    settings = load({"home": tmp_path / "home"}, folder=tmp_path, environ={})
    with Runner(declared(), settings) as runner:
        (capture,) = runner.captures.values()
        eventually(lambda: capture.error, every=0.2)
        assert "does not exist in the database" in str(capture.error)
        source = Orders(runner.stack.address("postgres"), rows=ROWS)
        uri = tables.table_uri(settings.warehouse_uri, "orders")
        eventually(lambda: tables.exists(uri) and tables.read_paths(uri).rows == ROWS, every=0.5)

        def changed(share: float) -> bool:
            return source.changes > PER_SECOND * SECONDS * share and not runner.stack.dead()

        with Changing(source, per_second=PER_SECOND, seconds=SECONDS):
            eventually(lambda: changed(0.1))
            kill_service(runner.stack, "connect")
            eventually(lambda: changed(0.4))
            runner.stack.stop_service("postgres")
            eventually(lambda: changed(0.6))
            kill_service(runner.stack, "connect")
            eventually(lambda: changed(0.8))
            kill_service(runner.stack, "postgres")

        eventually(lambda: not runner.stack.dead(), every=0.2)
        points = ContactPoints.read(runner.stack.address("cassandra"))
        cluster, session = connect(points, name="test of copies")
        try:
            copies = Copies(source, settings.warehouse_uri, session)
            last = source.close()
            eventually(lambda: copies.has(last), every=0.5)
            copies.assert_equal(at_least=int(ROWS * 0.9))

            source.truncate()
            last = source.close()
            eventually(lambda: copies.has(last), every=0.5)
            copies.assert_equal(at_least=1)
            assert [order.id for order in source.rows()] == [last]
        finally:
            cluster.shutdown()

        eventually(lambda: runner.status()["captures"][0]["running"], every=0.5)
        status = runner.status()
        (pipeline,) = status["pipelines"]
        assert (pipeline["dead_letters"], pipeline["gap"], pipeline["error"]) == (0, 0, None)
        assert [delivery["dead_letters"] for delivery in status["deliveries"]] == [0, 0]
