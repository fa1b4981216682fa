"""Copies of a captured table in other stores, while what brings the changes is killed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg

import gearshift as gs
from gearshift import stack as local
from gearshift.delivery.worker import Worker
from gearshift.destinations.cassandra_driver import ContactPoints, connect
from gearshift.settings import Settings, load
from gearshift.sources.cdc import Capture
from tests.support import eventually


@dataclass(frozen=True)
class Order:
    id: int
    customer: str
    amount: Decimal
    placed_at: datetime
    day: date | None


app = gs.App("copies")
capture = app.cdc("shop", tables={"public.orders": Order})
(changes,) = capture.topics.values()


@app.delivery(changes, to=gs.destinations.Cassandra(table="copies.orders", key="id"), commit="async")
def to_cassandra(record: gs.Record[gs.Change[Order]]) -> gs.Change[Order]:
    return record.value


@app.delivery(changes, to=gs.destinations.Postgres(table="copies.orders", key="id"), commit="async")
def to_postgres(record: gs.Record[gs.Change[Order]]) -> gs.Change[Order]:
    return record.value


@contextmanager
def delivering(name: str, stack: local.Stack, settings: Settings) -> Iterator[Worker]:
    worker = Worker(app.graph.deliveries[name], app.name, stack.connection, settings=settings)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(60)


def kill(stack: local.Stack, name: str) -> None:
    (pid,) = [service.pid.number for service in stack.services if service.name == name]
    os.killpg(pid, signal.SIGKILL)


def rows(stack: local.Stack, table: str) -> dict[int, Order]:
    with psycopg.connect(stack.address("postgres")) as database:
        found = database.execute(f"SELECT id, customer, amount, placed_at, day FROM {table}".encode())
        return {row[0]: Order(*row[:3], row[3].astimezone(UTC), row[4]) for row in found.fetchall()}


def rows_in_cassandra(session: Any) -> dict[int, Order]:
    found = session.execute("SELECT id, customer, amount, placed_at, day FROM copies.orders")
    return {
        row.id: Order(
            row.id, row.customer, row.amount, row.placed_at.replace(tzinfo=UTC), row.day and row.day.date()
        )
        for row in found
    }


def change(stack: local.Stack, rounds: range) -> None:
    for n in rounds:
        place = (n * 37) % 500
        with psycopg.connect(stack.address("postgres")) as database:
            database.execute("UPDATE orders SET amount = amount + 1 WHERE mod(id, 50) = %s", (n % 50,))
            # Gone, back and changed in one transaction: all of it has one commit time.
            database.execute("DELETE FROM orders WHERE id = %s", (place,))
            database.execute("INSERT INTO orders VALUES (%s, 'back', %s, '2026-03-03Z', NULL)", (place, n))
            database.execute("UPDATE orders SET customer = 'again' WHERE id = %s", (place,))
            database.execute("DELETE FROM orders WHERE id = %s", (place + 1,))


def test_a_copy_equals_its_table_row_for_row_whatever_is_killed(tmp_path: Path) -> None:
    settings = load({"home": tmp_path, "services": "postgres,connect,cassandra"}, environ={})
    with ExitStack() as opened:
        stack = opened.enter_context(local.up(settings))
        with psycopg.connect(stack.address("postgres")) as database:
            database.execute(
                "CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL,"
                " amount numeric(12,2) NOT NULL, placed_at timestamptz NOT NULL, day date)"
            )
            # Cassandra's timestamps end at the millisecond.
            database.execute(
                "INSERT INTO orders SELECT n, 'Ann ' || n, n, '2026-03-01 10:00:00.123Z', '2026-03-01'"
                " FROM generate_series(1, 500) n"
            )
        running = Capture(capture, settings, stack.connection)
        opened.callback(running.close)
        running.open()
        workers = [opened.enter_context(delivering(name, stack, settings)) for name in app.graph.deliveries]
        eventually(lambda: all(worker.counts.delivered >= 500 for worker in workers), within=60, every=0.3)
        change(stack, range(20))
        kill(stack, "connect")
        change(stack, range(20, 30))
        stack.start_service("connect")
        change(stack, range(30, 40))
        kill(stack, "postgres")
        stack.start_service("postgres")
        change(stack, range(40, 50))
        kill(stack, "connect")
        stack.start_service("connect")
        change(stack, range(50, 60))

        cluster, session = connect(ContactPoints.read(stack.address("cassandra")), name="test of copies")
        opened.callback(cluster.shutdown)

        def copied() -> bool:
            source = rows(stack, "orders")
            return rows(stack, "copies.orders") == source == rows_in_cassandra(session)

        eventually(copied, within=90, every=0.5)
        assert len(rows(stack, "orders")) > 400

        with psycopg.connect(stack.address("postgres")) as database:
            database.execute("TRUNCATE orders")
            database.execute("INSERT INTO orders VALUES (7, 'Cy', 1, '2026-03-02Z', NULL)")
        eventually(copied, within=60, every=0.3)
        assert rows_in_cassandra(session).keys() == {7}
        assert all(worker.counts.dead_letters == 0 for worker in workers)
