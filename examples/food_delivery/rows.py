"""The rows of the shop's database, as its changes bring them, and the values of the topics made from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import gearshift as gs

Money = Annotated[Decimal, gs.DecimalOf(10, 2)]


@dataclass
class Order:
    id: int
    restaurant: str
    dish: str
    quantity: int
    amount: Money
    status: str
    placed_at: datetime
    promised_at: datetime
    changed_at: datetime


@dataclass
class StatusChange:
    """The time that an order was in a status."""

    order_id: int
    status: str
    restaurant: str
    since: datetime
    until: datetime


@dataclass
class Rider:
    id: int
    name: str
    order_id: int | None
    trips: int
    changed_at: datetime


@dataclass
class OrderState:
    """The state of an order as of a commit."""

    restaurant: str
    order_id: int
    dish: str
    quantity: int
    status: str
    is_open: bool
    promised_at: datetime
    at: datetime


@dataclass
class LateOrder:
    restaurant: str
    order_id: int
    status: str
    minutes_late: int
    at: datetime
