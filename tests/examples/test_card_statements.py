"""The card-statements story: the tables it leaves are compared with plain Python over the same transactions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gearshift import stack as local
from gearshift import tables
from gearshift.settings import load
from tests.support import cluster_environ

ROOT = Path(__file__).parents[2]
STORY = ROOT / "examples" / "card_statements"
sys.path.insert(0, str(STORY))
from issuer import ZONE, CardTransaction, corrections, months, year  # noqa: E402  (a module of the story)

if TYPE_CHECKING:
    from gearshift.stack import Stack

CENT = Decimal("0.01")


def rounded(amount: Decimal) -> Decimal:
    return amount.quantize(CENT, ROUND_HALF_UP)


def latest(transactions: Iterable[CardTransaction]) -> list[CardTransaction]:
    found: dict[str, CardTransaction] = {}
    for each in transactions:
        if each.transaction_id not in found or found[each.transaction_id].revision < each.revision:
            found[each.transaction_id] = each
    return list(found.values())


def statements_of(transactions: list[CardTransaction]) -> dict[tuple[str, str], dict[str, Any]]:
    grouped: dict[tuple[str, str], list[CardTransaction]] = defaultdict(list)
    for each in transactions:
        grouped[f"{each.booked_at.astimezone(ZONE):%Y-%m}", each.card].append(each)
    made: dict[tuple[str, str], dict[str, Any]] = {}
    for (month, card), those in grouped.items():
        purchases = sum((each.amount for each in those if each.amount > 0), Decimal(0))
        refunds = sum((-each.amount for each in those if each.amount < 0), Decimal(0))
        cash = [each.amount for each in those if each.category == "cash"]
        fees = sum((max(rounded(amount * Decimal("0.04")), Decimal(3)) for amount in cash), Decimal(0))
        total = purchases - refunds + fees
        least = max(min(max(rounded(total * Decimal("0.025")), Decimal(10)), total), Decimal(0))
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


def test_every_number_of_the_story_is_the_one_of_plain_python(stack: Stack, tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GEARSHIFT_")}
    now = datetime.now(UTC)
    done = subprocess.run(
        [sys.executable, str(STORY / "demo.py"), "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=550,
        env={
            **clean,
            **cluster_environ(stack.connection),
        },
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    warehouse = load({"home": tmp_path}, environ={}).warehouse_uri
    truth = latest([*year(now), *corrections(now)])

    found = {(row["month"], row["card"]): row for row in tables.rows(f"{warehouse}/statements")}
    expected = statements_of(truth)
    assert {place: {name: row[name] for name in expected[place]} for place, row in found.items()} == expected
    assert tables.read_paths(f"{warehouse}/statements").rows == len(found)

    rows = tables.rows(f"{warehouse}/spending")
    assert {
        (r["month"], r["category"]): (r["amount"], r["transactions"], r["cards"]) for r in rows
    } == spending_of(truth)
    assert len({row["interval_start"] for row in rows}) == 12

    month = f"{months(now)[2]:%Y-%m}"
    before = statements_of(year(now))
    changed = {card for of, card in expected if of == month and expected[of, card] != before.get((of, card))}
    assert set(re.findall(r"(card-\d\d): € [\d.]+ is now", done.stdout)) == changed
    assert "5 late rows, told and not taken" in done.stdout
    spent = sum((each.amount for each in truth), Decimal(0))
    assert f"all statements: € {spent}, all spending: € {spent}" in done.stdout
    assert local.find(load({"home": tmp_path}, environ={})) is None
