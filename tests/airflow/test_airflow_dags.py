"""DAGs built from apps: what Airflow sees, and the import error if one cannot be built."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from gearshift.calendars import intervals_between
from gearshift.freshness import Freshness
from tests.airflow.conftest import Airflow, write_app

APP = """
import gearshift as gs

app = gs.App("chain", timezone="Europe/Berlin")
raw, clean, daily, monthly = (app.table(name) for name in ("raw", "clean", "daily", "monthly"))

@app.pipeline(source=daily, to=monthly, freshness="1 month", event_time="day")
def per_month(daily):
    return daily

@app.pipeline(source={"clean": clean, "raw": raw}, to=daily, freshness="1 day", event_time={"clean": "at"}, grace="2 hours")
def per_day(clean, raw):
    return clean

@app.pipeline(source=raw, to=clean, freshness="1 day", event_time="at")
def tidy(raw):
    return raw

@app.pipeline(source=raw, to=app.table("copies"), gear="batch", freshness="1 day")
def whole(raw):
    return raw
"""
DAG = """
from datetime import datetime
from airflow_provider_gearshift import gearshift_dag

dag = gearshift_dag({file!r}, start_date=datetime(2026, 3, 28){more})
"""
CIRCLE = """
import gearshift as gs

app = gs.App("circle")
hen, egg = app.table("hen"), app.table("egg")

@app.pipeline(source=hen, to=egg, freshness="1 day", event_time="at")
def lay(hen):
    return hen

@app.pipeline(source=egg, to=hen, freshness="1 day", event_time="at")
def hatch(egg):
    return egg
"""


def test_airflow_lists_the_provider(airflow: Airflow) -> None:
    listed = json.loads(airflow("providers", "list", "-o", "json").splitlines()[-1])
    (ours,) = (each for each in listed if each["package_name"] == "airflow-provider-gearshift")
    assert ours["version"] == "0.1.0"


def test_a_task_comes_after_those_that_write_what_it_reads(airflow: Airflow, tmp_path: Path) -> None:
    app = write_app(tmp_path / "app", APP)
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "chain.py").write_text(DAG.format(file=str(app), more=""), encoding="utf-8")
    found = airflow.python(Path(__file__).with_name("describe_dags.py"), str(dags), "40")
    chain = found["chain"]
    # A pipeline without intervals reads everything each time: Gearshift itself runs it.
    assert chain["tasks"] == {"tidy": ["per_day"], "per_day": ["per_month"], "per_month": []}
    assert chain["file"] == str(dags / "chain.py")
    # Days of 24, 23 and 24 hours, each run two hours after its end, in Berlin.
    assert chain["runs"][:3] == [
        ["2026-03-27T23:00:00+00:00", "2026-03-28T23:00:00+00:00", "2026-03-29T01:00:00+00:00"],
        ["2026-03-28T23:00:00+00:00", "2026-03-29T22:00:00+00:00", "2026-03-30T00:00:00+00:00"],
        ["2026-03-29T22:00:00+00:00", "2026-03-30T22:00:00+00:00", "2026-03-31T00:00:00+00:00"],
    ]
    start, end = (datetime(2026, month, 28, tzinfo=UTC) for month in (3, 5))
    days = intervals_between(Freshness(1, "day"), start, end, ZoneInfo("Europe/Berlin"))
    ours = [(each.start.astimezone(UTC).isoformat(), each.end.astimezone(UTC).isoformat()) for each in days]
    assert [(run[0], run[1]) for run in chain["runs"][1:]] == ours[:39]


def test_a_dag_that_cannot_be_made_says_why(airflow: Airflow, tmp_path: Path) -> None:
    app = str(write_app(tmp_path / "app", APP))
    dags = {
        "missing": DAG.format(file=str(tmp_path / "app" / "nowhere.py"), more=""),
        "command": DAG.format(file=app, more=", command='/no/such/gearshift'"),
        "other": DAG.format(file=app, more=", command='echo'"),
        "whole": DAG.format(
            file=str(write_app(tmp_path / "empty", "import gearshift as gs\napp = gs.App('empty')\n")),
            more="",
        ),
        "circle": DAG.format(file=str(write_app(tmp_path / "circle", CIRCLE)), more=""),
        "broken": DAG.format(
            file=str(write_app(tmp_path / "broken", "import gearshift as gs\nx = 1 / 0\n")), more=""
        ),
    }
    for name, text in dags.items():
        airflow.write_dag(name, text)
    try:
        output = airflow("dags", "list-import-errors", "--local", "-o", "json", code=1)
    finally:
        for name in dags:
            (airflow.dags / f"{name}.py").unlink()
    errors = {Path(each["filepath"]).stem: each["error"] for each in json.loads(output.splitlines()[-1])}
    assert "no such file" in errors["missing"] and "nowhere.py" in errors["missing"]
    assert "command '/no/such/gearshift' not found; set command=" in errors["command"]
    assert (
        "did not print JSON" in errors["other"]
        and "check that it is the gearshift command" in errors["other"]
    )
    assert "no pipeline of" in errors["whole"] and "has intervals" in errors["whole"]
    assert "hatch, lay in" in errors["circle"] and "form a cycle" in errors["circle"]
    assert "ZeroDivisionError" in errors["broken"] and "shop.py:2" in errors["broken"]
