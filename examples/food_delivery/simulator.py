"""The shop: an application that writes orders, riders and status changes to PostgreSQL, without knowing of Kafka.

It simulates two days of business from a seed. Its clock runs `factor` times as fast as real time and skips the night.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import psycopg

TABLES = """
CREATE TABLE riders (
    id integer PRIMARY KEY, name text NOT NULL, order_id bigint, trips integer NOT NULL,
    changed_at timestamptz NOT NULL
);
CREATE TABLE orders (
    id bigint PRIMARY KEY, restaurant text NOT NULL, dish text NOT NULL, quantity integer NOT NULL,
    amount numeric(10, 2) NOT NULL, status text NOT NULL, placed_at timestamptz NOT NULL,
    promised_at timestamptz NOT NULL, changed_at timestamptz NOT NULL
);
CREATE TABLE status_changes (
    order_id bigint, status text, restaurant text NOT NULL, since timestamptz NOT NULL, until timestamptz NOT NULL,
    PRIMARY KEY (order_id, status)
);
"""
MENUS = {
    "Bella Napoli": {"margherita": "9.50", "diavola": "12.00", "tiramisu": "6.50"},
    "Golden Wok": {"chow mein": "11.20", "spring rolls": "5.80", "mapo tofu": "12.40"},
    "Curry Leaf": {"dal": "8.90", "biryani": "13.50", "naan": "3.20"},
    "Taco Libre": {"al pastor": "4.60", "quesadilla": "7.90", "churros": "5.10"},
    "Le Bistro": {"steak frites": "19.80", "onion soup": "8.40", "creme brulee": "7.20"},
}
SLOW = {"Le Bistro": 1.6, "Curry Leaf": 1.25}
RIDERS = ("Ada", "Ben", "Cleo", "Dev", "Ema", "Finn", "Gus", "Hana")
STAGES = {"placed": 3.0, "cooking": 14.0, "ready": 5.0, "on the way": 11.0}
"""The stages of an order with their mean duration in minutes; after the last one it is delivered."""
PROMISE = timedelta(minutes=45)
OPENS, CLOSES, ENDS = timedelta(hours=11), timedelta(hours=23), timedelta(hours=19, minutes=30)
"""Times of day; the second day ends during dinner, with open orders."""

Statement = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, order=True)
class Event:
    """The statements of one transaction."""

    at: datetime
    number: int
    statements: tuple[Statement, ...]


def business(orders: int, *, seed: int = 7, today: datetime | None = None) -> list[Event]:
    """All events of the two days before today, in order."""
    chance = random.Random(seed)
    midnight = (today or datetime.now(UTC)).replace(hour=0, minute=0, second=0, microsecond=0)
    days = (midnight - timedelta(days=2), midnight - timedelta(days=1))
    found: list[tuple[datetime, list[Statement]]] = []
    for day in days:
        found += _shifts(day)
    for number in range(1, orders + 1):
        found += _order(number, days[number * 2 > orders], chance)
    ended = days[1] + ENDS
    ordered = sorted((at, place, tuple(what)) for place, (at, what) in enumerate(found) if at <= ended)
    return [Event(at, place, what) for at, place, what in ordered]


def _shifts(day: datetime) -> Iterator[tuple[datetime, list[Statement]]]:
    for rider, name in enumerate(RIDERS):
        came = day + OPENS - timedelta(minutes=len(RIDERS) - rider)
        row = (rider, name, came)
        yield came, [("INSERT INTO riders VALUES (%s, %s, NULL, 0, %s)", row)]
        yield day + CLOSES + timedelta(minutes=rider), [("DELETE FROM riders WHERE id = %s", (rider,))]


def _order(number: int, day: datetime, chance: random.Random) -> Iterator[tuple[datetime, list[Statement]]]:
    restaurant = chance.choice(list(MENUS))
    dish = chance.choices(list(MENUS[restaurant]), weights=(5, 3, 2))[0]
    quantity = chance.choice((1, 1, 2, 3))
    amount = Decimal(MENUS[restaurant][dish]) * quantity
    hour = chance.gauss(12.7, 0.6) if chance.random() < 0.4 else chance.gauss(19.0, 1.0)
    at = day + timedelta(seconds=round(min(max(hour, 11.1), 21.5) * 3600))
    placed, promised = at, at + PROMISE
    yield (
        at,
        [
            (
                "INSERT INTO orders VALUES (%s, %s, %s, %s, %s, 'placed', %s, %s, %s)",
                (number, restaurant, dish, quantity, amount, placed, promised, at),
            )
        ],
    )
    if chance.random() < 0.06:
        yield at + timedelta(seconds=45), [("DELETE FROM orders WHERE id = %s", (number,))]
        return
    rider = chance.randrange(len(RIDERS))
    names = [*STAGES, "delivered"]
    for status, following in pairwise(names):
        minutes = STAGES[status] * chance.uniform(0.6, 1.5)
        minutes *= SLOW.get(restaurant, 1.0) if status == "cooking" else 1.0
        since, at = at, at + timedelta(seconds=round(minutes * 60))
        statements: list[Statement] = [
            ("UPDATE orders SET status = %s, changed_at = %s WHERE id = %s", (following, at, number)),
            (
                "INSERT INTO status_changes VALUES (%s, %s, %s, %s, %s)",
                (number, status, restaurant, since, at),
            ),
        ]
        if following == "on the way":
            statements.append(
                ("UPDATE riders SET order_id = %s, changed_at = %s WHERE id = %s", (number, at, rider))
            )
        if following == "delivered":
            statements.append(
                (
                    "UPDATE riders SET order_id = NULL, trips = trips + 1, changed_at = %s WHERE id = %s",
                    (at, rider),
                )
            )
        yield at, statements


class Shop:
    """Writes the events to the database in a background thread."""

    def __init__(
        self,
        dsn: str,
        *,
        orders: int,
        factor: float,
        on_order: Callable[[str, int], None] = lambda _restaurant, _id: None,
    ) -> None:
        self.done = 0
        self.events = business(orders)
        self.error: Exception | None = None
        self._dsn = dsn
        self._factor = factor
        self._on_order = on_order
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="food app", daemon=True)

    def __enter__(self) -> Shop:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(30)

    @property
    def closed(self) -> bool:
        """Whether all events have been written."""
        return self.done == len(self.events)

    def _run(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as database:
                self._write(database)
        except psycopg.Error as error:
            self.error = error

    def _write(self, database: psycopg.Connection[Any]) -> None:
        due, clock = time.monotonic(), self.events[0].at
        for event in self.events:
            # Skip hours without business, and do not catch up after a delay.
            pause = min(event.at - clock, timedelta(minutes=30)).total_seconds() / self._factor
            due = max(due, time.monotonic()) + pause
            clock = event.at
            if self._closing.wait(max(0.0, due - time.monotonic())):
                return
            with database.transaction():
                for statement, values in event.statements:
                    database.execute(statement.encode(), values)
            self.done += 1
            statement, values = event.statements[0]
            if statement.startswith("INSERT INTO orders"):
                self._on_order(values[1], values[0])


def create(dsn: str) -> None:
    """Create the tables, which must exist before they can be captured."""
    with psycopg.connect(dsn) as database:
        database.execute(TABLES)
