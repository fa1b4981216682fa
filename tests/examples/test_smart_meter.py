"""The smart-meter story: its functions as plain functions, and the whole of it as a newcomer sees it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gearshift import stack as local
from gearshift import tables
from gearshift.pipelines.session import open_session
from gearshift.runner.loading import load_app
from gearshift.settings import Settings, load
from gearshift.stack.artifacts import jars

ROOT = Path(__file__).parents[2]
STORY = ROOT / "examples" / "smart_meter"


@pytest.fixture
def spark(settings: Settings) -> SparkSession:
    app = load_app(STORY / "smart_meter.py")
    return open_session(
        app.graph, settings, jars("spark", cache=settings.cache), log_file=settings.home / "spark.log"
    )


def test_a_bill_is_exact_to_the_cent(spark: SparkSession) -> None:
    from smart_meter import monthly_bills

    day = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
    night = datetime(2024, 2, 29, 23, 0, tzinfo=UTC)
    rows = [("m1", 3.0, day)] * 60 + [("m1", 1.5, night)] * 120 + [("m2", 0.1, day)]
    frame = spark.createDataFrame(rows, "meter_id string, load_kw double, read_at timestamp")
    bills = {row.meter_id: row for row in monthly_bills(frame).collect()}
    assert (bills["m1"].month, bills["m1"].kwh) == ("2024-02", Decimal("6.000000"))
    assert bills["m1"].amount == Decimal("1.68")  # 3 kWh at 0.32 and 3 kWh at 0.24
    assert (bills["m2"].amount, bills["m2"].readings) == (Decimal("0.00"), 1)


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
    said = done.stdout
    assert re.search(r"SMS to \+31612340\d{3}: meter-\d+: load is [2-9]\.\d\d kW", said)
    for before, after in (
        ("real-time", "near-real-time"),
        ("near-real-time", "batch"),
        ("batch", "near-real-time"),
        ("near-real-time", "real-time"),
    ):
        assert f"{before} → {after}" in said
    assert "no gap" in said
    texts = re.search(r"([\d,]+) text messages, 0 of them sent twice", said)
    assert texts
    assert int(texts[1].replace(",", "")) >= 50
    assert re.search(r"60 bills, € \d+\.\d\d in all", said)
    assert re.search(r"The whole story took \d+ s", said)
    assert "Traceback" not in said + done.stderr
    settings = load({"home": folder}, environ={})
    assert local.find(settings) is None
    [(kept, distinct)] = tables.sql(
        settings.warehouse_uri, "select count(*), count(distinct (meter_id, read_at)) from readings_history"
    ).rows
    assert kept == distinct > 1000
