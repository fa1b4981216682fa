"""`gearshift batch list` and `ledger` show every interval, and the cause of a failed one, without Spark."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gearshift import tables
from gearshift.calendars import interval_at
from gearshift.freshness import Freshness
from gearshift.pipelines.intervals.log import Failure, IntervalLog
from gearshift.settings import load
from gearshift.storage.folders import open_folder
from tests.arrow_frames import ArrowFrame, declared
from tests.command import GEARSHIFT

APP = """
import gearshift as gs

app = gs.App("shop")
sales = app.table("sales")

@app.pipeline(source=sales, to=app.table("totals"), freshness="1 month", event_time="sold_at", since="2026-02-01")
def totals(sales):
    return sales
"""
Gearshift = Callable[..., str]


@pytest.fixture
def gearshift(tmp_path: Path) -> Gearshift:
    """The command in a folder with sales of three months, the first before the start of the calendar."""
    (tmp_path / "shop.py").write_text(APP, encoding="utf-8")
    settings = load({"home": tmp_path / ".gearshift"}, folder=tmp_path, environ={})
    rows = [("pen", datetime(2026, month, 5, tzinfo=UTC)) for month in (1, 2, 3)]
    frame = ArrowFrame({"item": "string", "sold_at": "timestamp"}, rows)
    tables.overwrite(declared("sales"), tables.table_uri(settings.warehouse_uri, "sales"), frame)
    interval = interval_at(Freshness(1, "month"), rows[1][1], UTC)
    failure = Failure(
        pipeline="totals",
        interval=interval,
        began=datetime.now(UTC),
        why="calendar",
        error="the disk is full",
    )
    log = IntervalLog(open_folder(f"{settings.checkpoints_uri}/shop/totals"))
    log.keep_failure(failure)
    log.keep_failure(failure)

    def run(*words: str) -> str:
        return subprocess.run(
            [GEARSHIFT, *words], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
        ).stdout

    return run


def test_the_list_begins_where_the_calendar_does_and_says_why_an_interval_failed(
    gearshift: Gearshift,
) -> None:
    first, second, *_ = json.loads(gearshift("batch", "list", "shop.py", "-o", "json"))
    assert (first["start"], first["state"], first["error"], first["tries"]) == (
        "2026-02-01T00:00:00+00:00",
        "failed",
        "the disk is full",
        2,
    )
    assert (second["start"], second["state"], second["error"]) == ("2026-03-01T00:00:00+00:00", "due", None)
    output = gearshift("batch", "list", "shop.py")
    assert "totals 2026-02-01T00:00:00+00:00, 2 times: the disk is full" in output


def test_the_ledger_has_what_failed_too(gearshift: Gearshift) -> None:
    [ledger] = json.loads(gearshift("ledger", "-o", "json"))
    [failed] = ledger["failed_intervals"]
    assert (failed["start"], failed["tries"], failed["error"]) == (
        "2026-02-01T00:00:00+00:00",
        2,
        "the disk is full",
    )
    assert "failed, 2 times: the disk is full" in gearshift("ledger", "totals")
