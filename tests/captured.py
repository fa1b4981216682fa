"""A table of orders in PostgreSQL that changes while things break, for whoever has to end up with the same rows."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import psycopg

import gearshift as gs
from gearshift import stack as local

_COLUMNS = "id, restaurant, amount, status, note, placed_at"


@dataclass(frozen=True)
class Order:
    id: int
    restaurant: str
    amount: Annotated[Decimal, gs.DecimalOf(12, 2)]
    status: str
    note: str | None
    placed_at: datetime


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
                " status text NOT NULL, note text, placed_at timestamptz NOT NULL)"
            )
            database.execute(
                "INSERT INTO orders SELECT n, 'r' || n %% 300, n / 7.0, 'placed', CASE WHEN n %% 5 = 0 THEN 'ünder ' || n END,"
                " timestamptz '2026-03-01 12:00+02' + n * interval '1 second' FROM generate_series(1, %s) n",
                [rows],
            )

    def rows(self) -> set[Order]:
        """What the table holds now."""
        with psycopg.connect(self._dsn) as database:
            found = database.execute(f"SELECT {_COLUMNS} FROM orders").fetchall()
        return {Order(*row[:5], row[5].astimezone(UTC)) for row in found}

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
            database.execute(
                "INSERT INTO orders VALUES (%s, %s, %s, 'placed', NULL, now()) ON CONFLICT DO NOTHING",
                [self._last, f"r{id_ % 300}", Decimal(id_) / 4],
            )
        elif kind < 0.8:
            status = self._random.choice(("cooked", "on its way", "delivered"))
            database.execute(
                "UPDATE orders SET status = %s, note = %s WHERE id = %s", [status, f"by {self._last}", id_]
            )
        else:
            database.execute("DELETE FROM orders WHERE id = %s", [id_])


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
