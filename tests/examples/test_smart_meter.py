"""The smart-meter example: its functions as plain functions, and the demo as a newcomer sees it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import asdict, astuple
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gearshift import stack as local
from gearshift import tables
from gearshift.settings import load
from tests import stories

if TYPE_CHECKING:
    from gearshift.testing import Run, Transform

STORY = stories.EXAMPLES / "smart_meter"
story = stories.load("smart_meter", "smart_meter")
simulator = stories.load("smart_meter", "simulator")
truth = stories.load("smart_meter", "truth")


def stored(readings: list[Any]) -> list[dict[str, Any]]:
    """The readings as rows of the history."""
    return [{**asdict(reading), "day": reading.read_at.date()} for reading in readings]


def test_a_bill_is_exact_to_the_cent(gearshift_transform: Transform) -> None:
    day = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
    night = datetime(2024, 2, 29, 23, 0, tzinfo=UTC)
    rows = [("m1", 3.0, day)] * 60 + [("m1", 1.5, night)] * 120 + [("m2", 0.1, day)]
    history = [story.MeterReading(*row) for row in rows]
    made = gearshift_transform(story.app, story.monthly_bills, {"readings_history": stored(history)})
    bills = {row["meter_id"]: row for row in made}
    assert (bills["m1"]["month"], bills["m1"]["kwh"]) == ("2024-02", Decimal("6.000000"))
    assert bills["m1"]["amount"] == Decimal("1.68")  # 3 kWh at 0.32 and 3 kWh at 0.24
    assert (bills["m2"]["amount"], bills["m2"]["readings"]) == (Decimal("0.00"), 1)
    assert {tuple(row.values()) for row in made} == {astuple(bill) for bill in truth.bills(history)}


@pytest.fixture(scope="module")
def readings() -> list[Any]:
    """The last hour of a month and the first of the next one, in which day becomes night."""
    return list(islice(simulator.simulate(datetime(2024, 2, 29, 21, 30, tzinfo=UTC)), 4 * 60 * 60))


def test_a_seed_makes_the_same_readings(readings: list[Any]) -> None:
    begin = datetime(2024, 2, 29, 21, 30, 59, tzinfo=UTC)
    assert list(islice(simulator.simulate(begin), len(readings))) == readings
    assert list(islice(simulator.simulate(begin, seed=8), len(readings))) != readings


def test_the_alerts_are_those_of_plain_python_in_every_gear(gearshift_run: Run, readings: list[Any]) -> None:
    results = gearshift_run(
        story.app,
        story.load_alerts,
        {"meter-readings": readings},
        late=0.05,
        repeated=0.02,
        disorder=timedelta(minutes=10),
    )
    expected = [story.LoadAlert(*astuple(reading)) for reading in truth.alerts(readings)]
    results.assert_each(expected, key=("meter_id", "read_at"))
    assert results.gears == ("batch", "near-real-time", "real-time")
    assert len(expected) > 100


def test_the_bills_are_those_of_plain_python_to_the_cent(gearshift_run: Run, readings: list[Any]) -> None:
    results = gearshift_run(story.app, story.monthly_bills, {"readings_history": stored(readings)})
    expected = truth.bills(readings)
    results.assert_each(expected, key=("meter_id", "month"))
    assert len(expected) == 2 * simulator.METERS


def test_the_demo_tells_its_story_and_ends_by_itself(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = subprocess.run(
        [sys.executable, str(STORY / "demo.py"), "--folder", str(folder)],
        capture_output=True,
        text=True,
        timeout=400,
        env={name: value for name, value in os.environ.items() if not name.startswith("GEARSHIFT_")},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    output = done.stdout
    assert re.search(r"SMS to \+31612340\d{3}: meter-\d+: load is [2-9]\.\d\d kW", output)
    for before, after in (
        ("real-time", "near-real-time"),
        ("near-real-time", "batch"),
        ("batch", "near-real-time"),
        ("near-real-time", "real-time"),
    ):
        assert f"{before} → {after}" in output
    assert "no gap" in output
    texts = re.search(r"([\d,]+) text messages, 0 of them sent twice", output)
    assert texts
    assert int(texts[1].replace(",", "")) >= 50
    assert re.search(r"60 bills, € \d+\.\d\d in all", output)
    assert re.search(r"The whole story took \d+ s", output)
    assert "Traceback" not in output + done.stderr
    settings = load({"home": folder}, environ={})
    assert local.find(settings) is None
    [(kept, distinct)] = tables.sql(
        settings.warehouse_uri, "select count(*), count(distinct (meter_id, read_at)) from readings_history"
    ).rows
    assert kept == distinct > 1000
