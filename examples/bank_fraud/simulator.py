"""A simulated bank: the transactions of sixty accounts, with labelled fraud among what only looks like it.

Three patterns are fraud: card testing (many tiny online payments within minutes), one or two large amounts abroad, and
account takeover (transfers from a new device that empty the account). Honest customers travel, buy furniture and apps,
get new phones and shop at night. Refunds and salaries are negative. The network delivers some transactions late, out of
order and twice; `bank_fraud.py` declares how many.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from transaction import Transaction

ACCOUNTS, DAYS = 60, 28
KINDS = {
    # kind: share of the payments, typical amount, whether it is made online
    "groceries": (34, 38, False),
    "restaurant": (18, 29, False),
    "fuel": (9, 55, False),
    "online": (22, 44, True),
    "parking": (9, 2, False),
    "furniture": (2, 850, False),
    "cash": (6, 90, False),
}


@dataclass
class Customer:
    """An account with its owner's habits."""

    account: str
    salary: int
    abroad_until: date = date.min
    balance: Decimal = Decimal(0)


@dataclass(order=True)
class _Planned:
    """A transaction of a day; `share` of the balance if it has no amount of its own."""

    at: datetime
    number: int
    customer: Customer = field(compare=False)
    kind: str = field(compare=False)
    amount: Decimal = field(compare=False, default=Decimal(0))
    share: Decimal = field(compare=False, default=Decimal(0))
    km: float = field(compare=False, default=0.0)
    is_abroad: bool = field(compare=False, default=False)
    is_new_device: bool = field(compare=False, default=False)
    is_fraud: bool = field(compare=False, default=False)


def last_weeks(today: date) -> date:
    """The Monday on which four whole weeks before this one begin.

    >>> last_weeks(date(2026, 11, 18))
    datetime.date(2026, 10, 19)
    """
    return today - timedelta(days=today.weekday() + DAYS)


def simulate(seed: int = 7, *, first: date = date(2024, 3, 4), days: int = DAYS) -> Iterator[Transaction]:
    """The transactions of these days in the order of their time, the same for a seed."""
    chance = random.Random(f"bank {seed}")
    customers = [
        Customer(f"NL{number:02}BANK{chance.randrange(10**9):09}", chance.randint(19, 52) * 100)
        for number in range(ACCOUNTS)
    ]
    for day in range(days):
        planned: list[_Planned] = []
        for customer in customers:
            planned += _honest(customer, first + timedelta(days=day), day, chance)
        planned += _frauds(customers, first + timedelta(days=day), chance)
        for number, each in enumerate(sorted(planned)):
            yield _booked(f"{each.at:%Y%m%d}-{number:05}", each, chance)


def _booked(name: str, planned: _Planned, chance: random.Random) -> Transaction:
    customer, amount = planned.customer, planned.amount
    if planned.share:
        amount = max(Decimal("0.01"), (customer.balance * planned.share).quantize(Decimal("0.01")))
    before, customer.balance = customer.balance, customer.balance - amount
    return Transaction(
        name,
        customer.account,
        f"{planned.kind}-{chance.randrange(40):02}",
        planned.kind,
        amount,
        planned.at,
        before,
        round(planned.km, 1),
        planned.is_abroad,
        planned.is_new_device,
        planned.is_fraud,
    )


def _at(day: date, chance: random.Random, begin: float = 7, end: float = 23) -> datetime:
    """A moment of a day; some payments are made at night."""
    hour = chance.uniform(0, 6) if chance.random() < 0.03 else chance.triangular(begin, end, 17)
    return datetime.combine(day, time(), UTC) + timedelta(milliseconds=round(hour * 3_600_000))


def _cents(amount: float) -> Decimal:
    return Decimal(max(1, round(amount * 100))).scaleb(-2)


def _honest(customer: Customer, day: date, number: int, chance: random.Random) -> Iterator[_Planned]:
    midnight = datetime.combine(day, time(), UTC)
    if number == 0:
        yield _Planned(midnight, 0, customer, "opening", -_cents(chance.uniform(500, 9_000)))
    if number % 14 == 4:
        yield _Planned(midnight + timedelta(hours=6), 0, customer, "salary", -Decimal(customer.salary) / 2)
    if customer.abroad_until < day and chance.random() < 0.015:
        customer.abroad_until = day + timedelta(days=chance.randint(2, 6))
    travels = customer.abroad_until >= day
    for place in range(chance.choice((1, 2, 3, 3, 4, 5, 6))):
        kind = chance.choices(list(KINDS), [share for share, _, _ in KINDS.values()])[0]
        _, usual, is_online = KINDS[kind]
        amount = _cents(usual * chance.lognormvariate(0, 0.6) * (1.6 if travels else 1))
        if is_online and chance.random() < 0.05:
            amount = Decimal("0.99")  # an app
        km = 0.0 if is_online else chance.expovariate(1 / 9) + (1_400 if travels else 0)
        new = is_online and chance.random() < 0.02
        at = _at(day, chance)
        yield _Planned(at, 1 + place, customer, kind, amount, Decimal(0), km, travels and not is_online, new)
        if kind == "online" and chance.random() < 0.04:
            yield _Planned(at + timedelta(hours=2), 1 + place, customer, "refund", -amount)
    if chance.random() < 0.06:
        new = chance.random() < 0.05
        amount = _cents(chance.uniform(100, 1_900))
        yield _Planned(_at(day, chance, 9, 21), 90, customer, "transfer", amount, is_new_device=new)


def _frauds(customers: list[Customer], day: date, chance: random.Random) -> Iterator[_Planned]:
    for pattern, likely in _FRAUDS:
        if chance.random() < likely:
            yield from pattern(chance.choice(customers), day, chance)


def _card_testing(customer: Customer, day: date, chance: random.Random) -> Iterator[_Planned]:
    at = _at(day, chance)
    for number in range(chance.randint(7, 14)):
        at += timedelta(seconds=chance.uniform(4, 40))
        yield _Planned(at, 200 + number, customer, "online", _cents(chance.uniform(0.3, 1.9)), is_fraud=True)


def _abroad(customer: Customer, day: date, chance: random.Random) -> Iterator[_Planned]:
    at, km = _at(day, chance), chance.uniform(900, 9_000)
    for number in range(chance.randint(1, 2)):
        at += timedelta(minutes=chance.uniform(2, 50))
        kind, amount = chance.choice(("online", "furniture", "cash")), _cents(chance.uniform(280, 2_400))
        yield _Planned(at, 300 + number, customer, kind, amount, Decimal(0), km, True, is_fraud=True)


def _takeover(customer: Customer, day: date, chance: random.Random) -> Iterator[_Planned]:
    at = _at(day, chance)
    shares = chance.choice((("0.6", "0.9", "1"), ("1",), ("0.8", "1")))
    for number, share in enumerate(shares):
        at += timedelta(minutes=chance.uniform(1, 5))
        yield _Planned(
            at, 400 + number, customer, "transfer", share=Decimal(share), is_new_device=True, is_fraud=True
        )


_FRAUDS = ((_card_testing, 0.6), (_abroad, 0.9), (_abroad, 0.9), (_abroad, 0.9), (_takeover, 0.8))
"""The patterns, and how likely each is on a day."""
