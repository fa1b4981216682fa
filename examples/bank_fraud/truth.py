"""The same balances, bursts, rules and judgements in plain Python, without Spark."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from transaction import Transaction

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WINDOW = timedelta(minutes=10)


def distinct(transactions: Iterable[Transaction]) -> list[Transaction]:
    """The transactions without repetitions, in the order of their time."""
    found = {each.transaction_id: each for each in transactions}
    return sorted(found.values(), key=lambda each: (each.at, each.transaction_id))


def balances(transactions: Iterable[Transaction]) -> list[dict[str, Any]]:
    """The balance of each account."""
    cents: dict[str, int] = defaultdict(int)
    count: dict[str, int] = defaultdict(int)
    for each in distinct(transactions):
        cents[each.account] -= int(each.amount * 100)
        count[each.account] += 1
    return [
        {"account": account, "balance": Decimal(cents[account]).scaleb(-2), "transactions": count[account]}
        for account in cents
    ]


def bursts(transactions: Iterable[Transaction]) -> list[dict[str, Any]]:
    """The windows with too many or too large payments, each as it is in the end."""
    windows: dict[tuple[str, datetime], list[Decimal]] = defaultdict(list)
    for each in distinct(transactions):
        if each.amount > 0:
            windows[each.account, _window(each)].append(each.amount)
    return [
        {"account": account, "since": since, "payments": len(amounts), "amount": sum(amounts)}
        for (account, since), amounts in windows.items()
        if _is_too_much(amounts)
    ]


def by_rules(transactions: Iterable[Transaction]) -> dict[str, bool]:
    """Whether a rule would have stopped each transaction when it was made."""
    windows: dict[tuple[str, datetime], list[Decimal]] = defaultdict(list)
    found: dict[str, bool] = {}
    for each in distinct(transactions):
        until_now = windows[each.account, _window(each)]
        if each.amount > 0:
            until_now.append(each.amount)
        found[each.transaction_id] = is_suspicious(each) or (each.amount > 0 and _is_too_much(until_now))
    return found


def is_suspicious(each: Transaction) -> bool:
    """Whether a transaction is suspicious by itself."""
    return (each.is_abroad and each.amount >= 400) or (each.is_new_device and each.amount >= 1_000)


def features(each: Transaction) -> list[float]:
    """The numbers that the model sees, without the kind."""
    amount = max(float(each.amount), 0.0)
    log_amount = math.log1p(amount)
    is_tiny = 0 < amount < 2
    return [
        log_amount,
        float(is_tiny),
        float(is_tiny and each.kind == "online"),
        float(each.is_abroad),
        each.is_abroad * log_amount,
        float(each.is_new_device),
        each.is_new_device * log_amount,
        float(each.at.astimezone(UTC).hour < 6),
        float(each.amount > 0 and each.amount == each.balance_before),
        math.log1p(each.distance_km or 0.0),
    ]


def scorer(
    kinds: Sequence[str], weights: Sequence[float], intercept: float
) -> Callable[[Transaction], float]:
    """The probability of fraud by a logistic regression, whose weights end with those of the known kinds and others."""

    def score(each: Transaction) -> float:
        kind = kinds.index(each.kind) if each.kind in kinds else len(kinds)
        one_hot = [float(place == kind) for place in range(len(kinds) + 1)]
        inputs = [*features(each), *one_hot]
        return 1 / (1 + math.exp(-intercept - sum(w * x for w, x in zip(weights, inputs, strict=True))))

    return score


def judged(held_back: Iterable[Transaction], alarms: Mapping[str, bool]) -> dict[str, Any]:
    """The confusion of alarms and reported frauds, with precision and recall."""
    transactions = distinct(held_back)
    found = sum(alarms[each.transaction_id] and each.is_fraud for each in transactions)
    false_alarms = sum(alarms[each.transaction_id] and not each.is_fraud for each in transactions)
    missed = sum(not alarms[each.transaction_id] and each.is_fraud for each in transactions)
    return {
        "found": found,
        "false_alarms": false_alarms,
        "missed": missed,
        "precision": found / (found + false_alarms) if found + false_alarms else None,
        "recall": found / (found + missed) if found + missed else None,
    }


def f1(judgement: Mapping[str, Any]) -> Fraction:
    """The harmonic mean of precision and recall; 0 where nothing is found."""
    found = judgement["found"]
    return (
        Fraction(2 * found, 2 * found + judgement["false_alarms"] + judgement["missed"])
        if found
        else Fraction(0)
    )


def auc(held_back: Iterable[Transaction], scores: Mapping[str, float]) -> float:
    """The chance that a fraud has a higher score than an honest transaction; equal scores count half."""
    transactions = distinct(held_back)
    frauds = [scores[each.transaction_id] for each in transactions if each.is_fraud]
    honest = [scores[each.transaction_id] for each in transactions if not each.is_fraud]
    wins = sum((fraud > other) + (fraud == other) / 2 for fraud in frauds for other in honest)
    return wins / (len(frauds) * len(honest))


def _window(each: Transaction) -> datetime:
    return EPOCH + (each.at - EPOCH) // WINDOW * WINDOW


def _is_too_much(amounts: Sequence[Decimal]) -> bool:
    return len(amounts) >= 5 or (len(amounts) >= 2 and sum(amounts) >= 4_000)
