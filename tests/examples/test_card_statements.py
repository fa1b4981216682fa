"""The card-statements example: its tables equal the results of plain Python over the same transactions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gearshift import stack as local
from gearshift import tables
from gearshift.settings import load
from tests import stories
from tests.support import cluster_environ

if TYPE_CHECKING:
    from gearshift.stack import Stack
    from gearshift.testing import Run

story = stories.load("card_statements", "card_statements")
simulator = stories.load("card_statements", "simulator")
truth = stories.load("card_statements", "truth")


def test_every_number_of_the_story_is_the_one_of_plain_python(stack: Stack, tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GEARSHIFT_")}
    now = datetime.now(UTC)
    done = subprocess.run(
        [sys.executable, str(stories.EXAMPLES / "card_statements" / "demo.py"), "--folder", str(tmp_path)],
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
    final = truth.latest([*simulator.year(now), *simulator.corrections(now)])

    found = {(row["month"], row["card"]): row for row in tables.rows(f"{warehouse}/statements")}
    expected = truth.statements_of(final)
    assert {place: {name: row[name] for name in expected[place]} for place, row in found.items()} == expected
    assert tables.read_paths(f"{warehouse}/statements").rows == len(found)

    rows = tables.rows(f"{warehouse}/spending")
    assert {
        (r["month"], r["category"]): (r["amount"], r["transactions"], r["cards"]) for r in rows
    } == truth.spending_of(final)
    assert len({row["interval_start"] for row in rows}) == 12

    month = f"{simulator.months(now)[2]:%Y-%m}"
    before = truth.statements_of(simulator.year(now))
    changed = {card for of, card in expected if of == month and expected[of, card] != before.get((of, card))}
    assert set(re.findall(r"(card-\d\d): € [\d.]+ is now", done.stdout)) == changed
    assert "5 late rows were reported but not used" in done.stdout
    spent = sum((each.amount for each in final), Decimal(0))
    assert f"all statements: € {spent}, all spending: € {spent}" in done.stdout
    assert local.find(load({"home": tmp_path}, environ={})) is None


def test_the_latest_revision_stays_whichever_comes_first(gearshift_run: Run) -> None:
    now = datetime(2026, 7, 4, tzinfo=UTC)
    sent = [*simulator.corrections(now), *simulator.year(now)[:500]]
    results = gearshift_run(story.app, story.keep_transactions, {"card-transactions": sent}, repeated=0.02)
    results.assert_each(truth.latest(sent))
    assert results.gears == ("batch", "near-real-time")


def test_a_seed_makes_the_same_year_and_its_corrections() -> None:
    now = datetime(2026, 7, 4, tzinfo=UTC)
    made: list[Any] = simulator.year(now)
    assert made == simulator.year(now)
    assert len(truth.latest([*made, *simulator.corrections(now)])) == len(made) + 5
