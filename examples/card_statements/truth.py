"""The same statements and spending in plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from simulator import ZONE, CardTransaction

CENT = Decimal("0.01")


def _rounded(amount: Decimal) -> Decimal:
    return amount.quantize(CENT, ROUND_HALF_UP)


def latest(transactions: Iterable[CardTransaction]) -> list[CardTransaction]:
    """The transactions in their latest revision."""
    found: dict[str, CardTransaction] = {}
    for each in transactions:
        if each.transaction_id not in found or found[each.transaction_id].revision < each.revision:
            found[each.transaction_id] = each
    return list(found.values())


def statements_of(transactions: list[CardTransaction]) -> dict[tuple[str, str], dict[str, Any]]:
    """The statements by month and card."""
    grouped: dict[tuple[str, str], list[CardTransaction]] = defaultdict(list)
    for each in transactions:
        grouped[f"{each.booked_at.astimezone(ZONE):%Y-%m}", each.card].append(each)
    made: dict[tuple[str, str], dict[str, Any]] = {}
    for (month, card), those in grouped.items():
        purchases = sum((each.amount for each in those if each.amount > 0), Decimal(0))
        refunds = sum((-each.amount for each in those if each.amount < 0), Decimal(0))
        cash = [each.amount for each in those if each.category == "cash"]
        fees = sum((max(_rounded(amount * Decimal("0.04")), Decimal(3)) for amount in cash), Decimal(0))
        total = purchases - refunds + fees
        least = max(min(max(_rounded(total * Decimal("0.025")), Decimal(10)), total), Decimal(0))
        following = date(int(month[:4]), int(month[5:]), 28) + timedelta(days=4)
        made[month, card] = {
            "purchases": purchases,
            "refunds": refunds,
            "fees": fees,
            "total": total,
            "least_payment": least,
            "pay_by": following.replace(day=1) + timedelta(days=21),
            "transactions": len(those),
        }
    return made


def spending_of(transactions: list[CardTransaction]) -> dict[tuple[str, str], tuple[Decimal, int, int]]:
    """Amount, transactions and cards by month and category."""
    grouped: dict[tuple[str, str], list[CardTransaction]] = defaultdict(list)
    for each in transactions:
        grouped[f"{each.booked_at.astimezone(ZONE):%Y-%m}", each.category].append(each)
    return {
        place: (
            sum((each.amount for each in those), Decimal(0)),
            len(those),
            len({each.card for each in those}),
        )
        for place, those in grouped.items()
    }
