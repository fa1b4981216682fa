"""A transaction as the bank books it, and what the pipelines make of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import gearshift as gs

Money = Annotated[Decimal, gs.DecimalOf(18, 2)]
Total = Annotated[Decimal, gs.DecimalOf(28, 2)]


@dataclass(frozen=True)
class Transaction:
    """Money that leaves an account for a counterparty or, where the amount is negative, arrives from it."""

    transaction_id: str
    account: str
    counterparty: str
    kind: str
    amount: Money
    at: datetime
    balance_before: Money | None = None  # None where the bank's system did not say
    distance_km: float | None = None  # from the customer's home
    is_abroad: bool = False
    is_new_device: bool = False
    is_fraud: bool = False  # what the customer reported in the days after: for training and judging only


@dataclass(frozen=True)
class Scored:
    """A transaction with the probability that it is fraud, and the version of the model that says so."""

    transaction_id: str
    account: str
    amount: Money
    at: datetime
    version: str
    score: float | None
    is_suspicious: bool


@dataclass(frozen=True)
class Burst:
    """Too many or too large payments of an account within one window."""

    account: str
    since: datetime
    payments: int
    amount: Total


@dataclass(frozen=True)
class Alert:
    """What an investigator looks at."""

    account: str
    reason: str
    subject: str
    at: datetime


@dataclass(frozen=True)
class Balance:
    """The balance of an account after so many transactions."""

    account: str
    balance: Total
    transactions: int
