"""A table of orders in PostgreSQL that changes while things break, for whoever has to end up with the same rows."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any

import psycopg

import gearshift as gs
from gearshift import stack as local

COLUMNS = "id, restaurant, amount, status, note, placed_at, day"

# Cassandra's times end at the millisecond.
_INSERT = (
    "INSERT INTO orders VALUES (%s, %s, %s, 'placed', NULL, date_trunc('milliseconds', now()), NULL)"
    " ON CONFLICT DO NOTHING"
)


@dataclass(frozen=True)
class Order:
    id: int
    restaurant: str
    amount: Annotated[Decimal, gs.DecimalOf(12, 2)]
    status: str
    note: str | None
    placed_at: datetime
    day: date | None

    @classmethod
    def of(cls, row: Any) -> Order:
        """The order of a row that has its columns in this order, whatever zone its time is told in."""
        return cls(*row[:5], row[5].astimezone(UTC), row[6])


class Orders:
    """The table, made with its rows in one transaction, and changed at a rate while it is entered."""

    def __init__(self, dsn: str, *, rows: int, seed: int = 7) -> None:
        self.changes = 0
        self._dsn = dsn
        self._last = rows
        self._random = random.Random(seed)
        with psycopg.connect(dsn) as database:
            database.execute(
                "CREATE TABLE orders (id bigint PRIMARY KEY, restaurant text NOT NULL, amount numeric(12,2) NOT NULL,"
                " status text NOT NULL, note text, placed_at timestamptz NOT NULL, day date)"
            )
            database.execute(
                "INSERT INTO orders SELECT n, 'r' || n %% 300, n / 7.0, 'placed', CASE WHEN n %% 5 = 0 THEN 'ünder ' || n END,"
                " timestamptz '2026-03-01 12:00:00.123+02' + n * interval '1 second', date '2026-03-01' + n %% 400"
                " FROM generate_series(1, %s) n",
                [rows],
            )

    def rows(self, table: str = "orders") -> list[Order]:
        """What the table, or a copy of it in the same database, holds now."""
        with psycopg.connect(self._dsn) as database:
            return [Order.of(row) for row in database.execute(f"SELECT {COLUMNS} FROM {table}".encode())]

    def has(self, id_: int, table: str) -> bool:
        """Whether a copy of the table has a row."""
        with psycopg.connect(self._dsn) as database:
            return bool(database.execute(f"SELECT 1 FROM {table} WHERE id = %s".encode(), [id_]).fetchone())

    def close(self) -> int:
        """Insert the last row of all; whoever has it has seen whatever came before."""
        self._last += 1
        with psycopg.connect(self._dsn) as database:
            database.execute(_INSERT, [self._last, "last", 0])
        return self._last

    def truncate(self) -> None:
        """Take all rows away at once."""
        with psycopg.connect(self._dsn) as database:
            database.execute("TRUNCATE orders")

    def change(self, *, per_second: float, seconds: float) -> None:
        """Insert, update and delete rows at a rate, through whatever restarts of the database come."""
        began, number = time.monotonic(), 0
        total = int(per_second * seconds)
        while number < total:
            try:
                with psycopg.connect(self._dsn, autocommit=True, connect_timeout=5) as database:
                    while number < total:
                        time.sleep(max(0.0, began + number / per_second - time.monotonic()))
                        self._change_one(database)
                        number += 1
                        self.changes += 1
            except psycopg.OperationalError:
                time.sleep(0.2)  # it restarts

    def _change_one(self, database: psycopg.Connection[Any]) -> None:
        kind, id_ = self._random.random(), self._random.randint(1, self._last)
        if kind < 0.3:
            self._last += 1
            database.execute(_INSERT, [self._last, f"r{id_ % 300}", Decimal(id_) / 4])
        elif kind < 0.8:
            status = self._random.choice(("cooked", "on its way", "delivered"))
            database.execute(
                "UPDATE orders SET status = %s, note = %s WHERE id = %s", [status, f"by {self._last}", id_]
            )
        elif kind < 0.95:
            database.execute("DELETE FROM orders WHERE id = %s", [id_])
        else:
            # Gone, back and changed in one transaction: all of it has one commit time.
            with database.transaction():
                database.execute("DELETE FROM orders WHERE id = %s", [id_])
                database.execute(_INSERT, [id_, "back", 1])
                database.execute("UPDATE orders SET restaurant = 'again' WHERE id = %s", [id_])


class Changing(threading.Thread):
    """Changes of a table in a thread; entering starts them, and leaving waits for their end."""

    def __init__(self, orders: Orders, *, per_second: float, seconds: float) -> None:
        super().__init__(name="changing", daemon=True)
        self._orders, self._per_second, self._seconds = orders, per_second, seconds
        self._error: BaseException | None = None

    def __enter__(self) -> Changing:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.join(self._seconds + 120)
        assert not self.is_alive(), "the changes did not end"
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        try:
            self._orders.change(per_second=self._per_second, seconds=self._seconds)
        except BaseException as error:
            self._error = error


def kill_service(stack: local.Stack, name: str) -> None:
    """`kill -9` of a service with all its processes."""
    (pid,) = [service.pid.number for service in stack.services if service.name == name]
    os.killpg(pid, signal.SIGKILL)
