"""The card issuer: a year of seeded transactions, and corrections that arrive long after their month."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated
from zoneinfo import ZoneInfo

import gearshift as gs

ZONE = ZoneInfo("Europe/Amsterdam")
CARDS = 40
PER_CARD = 80
CATEGORIES = ("groceries", "travel", "restaurants", "health", "clothes", "energy", "cash")
Money = Annotated[Decimal, gs.DecimalOf(12, 2)]


@dataclass(frozen=True)
class CardTransaction:
    """A card transaction; a higher revision replaces the one with the same id."""

    transaction_id: str
    card: str
    category: str
    amount: Money  # negative for a refund
    booked_at: datetime
    revision: int = 0


def months(until: datetime) -> list[datetime]:
    """The starts of the twelve months before `until` and of its own month, in the issuer's time zone."""
    last = until.astimezone(ZONE)
    index = last.year * 12 + last.month - 1
    return [datetime(n // 12, n % 12 + 1, 1, tzinfo=ZONE) for n in range(index - 12, index + 1)]


def year(until: datetime) -> list[CardTransaction]:
    """All transactions of those twelve months, the same on every machine."""
    chance = random.Random(2024)
    starts = [start.astimezone(UTC) for start in months(until)]
    length = int((starts[-1] - starts[0]).total_seconds())
    found: list[CardTransaction] = []
    for number in range(CARDS * PER_CARD):
        category = chance.choice(CATEGORIES)
        cents = chance.randint(150, 25_000)
        is_refund = category != "cash" and chance.random() < 0.05
        found.append(
            CardTransaction(
                transaction_id=f"t{number:05}",
                card=f"card-{number % CARDS:02}",
                category=category,
                amount=Decimal(-cents if is_refund else cents).scaleb(-2),
                booked_at=starts[0] + timedelta(seconds=chance.randrange(length)),
            )
        )
    for number, start in enumerate(starts[:-1]):
        # The last microsecond before a month and its first; in UTC both are in the previous month.
        for side, moment in enumerate((start - timedelta(microseconds=1), start)):
            if side or number:
                found.append(
                    CardTransaction(f"edge-{number:02}-{side}", "card-00", "travel", Decimal("10.01"), moment)
                )
    return found


def corrections(until: datetime) -> list[CardTransaction]:
    """Late corrections of the third month: forgotten transactions and wrong amounts."""
    first, after = (start.astimezone(UTC) for start in months(until)[2:4])
    of_the_month = [each for each in year(until) if first <= each.booked_at < after]
    wrong = [replace(each, amount=each.amount + Decimal("1.11"), revision=1) for each in of_the_month[:3]]
    forgotten = [
        CardTransaction(
            f"late-{number}", f"card-{number:02}", "health", Decimal("99.95"), first + timedelta(days=number)
        )
        for number in range(5)
    ]
    return [*wrong, *forgotten]
