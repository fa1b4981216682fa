"""Intervals through the console's API: their states, how often tables are read for them, and requests."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import gearshift as gs
from gearshift import tables
from gearshift.console.routes import intervals
from gearshift.pipelines.intervals.selection import interval_from
from tests.arrow_frames import ArrowFrame, declared
from tests.consoles import Client, FakeRun, open_console

YESTERDAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)


class Shop(FakeRun):
    """A running app with a pipeline of days."""

    def __init__(self) -> None:
        app = gs.App("shop")
        sales = app.table("sales")

        @app.pipeline(sales, to=app.table("totals"), freshness="1 day", event_time="sold_at")
        def totals(sales: Any) -> Any:
            return sales

        @app.pipeline(sales, to=app.table("copies"), freshness="1 day")
        def copies(sales: Any) -> Any:
            return sales

        super().__init__(app, pipelines=[{"name": "totals", "intervals_in_progress": []}, {"name": "copies"}])

    def run_interval(self, pipeline: str, start: datetime) -> dict[str, Any]:
        found = interval_from(self.app.graph, pipeline, start, datetime.now(UTC))
        self.given["pipelines"][0]["intervals_in_progress"].append(found.key)
        return {"pipeline": pipeline, "start": found.start.isoformat(), "end": found.end.isoformat()}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    uri = tables.table_uri((tmp_path / "warehouse").as_uri(), "sales")
    frame = ArrowFrame({"sold_at": "timestamp"}, [(YESTERDAY + timedelta(hours=6),)])
    tables.append(declared("sales"), uri, frame, writer="w", batch_id=0)
    with open_console(tmp_path, Shop(), warehouse=(tmp_path / "warehouse").as_uri()) as client:
        yield client


def states(client: Client) -> list[tuple[str, str]]:
    return [(each["start"], each["state"]) for each in client.get("/api/intervals").data]


def test_intervals_are_listed_with_their_states(client: Client) -> None:
    today = YESTERDAY + timedelta(days=1)
    assert states(client) == [(YESTERDAY.isoformat(), "due"), (today.isoformat(), "open")]
    assert client.get("/api/intervals").data[0] == {
        "pipeline": "totals",
        "start": YESTERDAY.isoformat(),
        "end": today.isoformat(),
        "state": "due",
        "late_rows": 0,
        "error": None,
        "tries": 0,
        **dict.fromkeys(("rows", "inputs", "began", "seconds", "version", "why")),
    }


def test_many_pages_share_one_survey(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    surveyed: list[object] = []
    survey = intervals.survey_intervals

    def counted(*given: Any) -> Any:
        surveyed.append(given)
        return survey(*given)

    monkeypatch.setattr(intervals, "survey_intervals", counted)
    assert len({tuple(states(client)) for _ in range(10)}) == 1
    assert len(surveyed) == 1


def test_a_requested_interval_is_running_until_its_run_ends(client: Client) -> None:
    response = client.post("/api/pipelines/totals/intervals", {"start": YESTERDAY.isoformat()})
    today = YESTERDAY + timedelta(days=1)
    assert (response.status, response.data) == (
        202,
        {"pipeline": "totals", "start": YESTERDAY.isoformat(), "end": today.isoformat()},
    )
    assert states(client)[0] == (YESTERDAY.isoformat(), "running")


@pytest.mark.parametrize(
    ("pipeline", "start", "status", "what"),
    [
        ("copies", "2026-01-01", 404, "has no intervals"),
        ("nothing", "2026-01-01", 404, "unknown pipeline"),
        ("totals", "2026-01-01T00:30", 404, "no interval of totals begins"),
        ("totals", "0001-01-01T00:00:00+14:00", 404, "is outside of every calendar"),
        ("totals", "9999-12-31T23:59:59-14:00", 404, "is outside of every calendar"),
        ("totals", "3026-01-01", 404, "has not begun"),
        ("totals", "soon", 400, "start"),
        ("totals", None, 400, "start"),
        ("totals", 1e300, 400, "start"),
        ("totals", 1767225600, 400, "ISO 8601"),
    ],
)
def test_what_cannot_run_is_refused(
    client: Client, pipeline: str, start: Any, status: int, what: str
) -> None:
    response = client.post(f"/api/pipelines/{pipeline}/intervals", {"start": start})
    assert (response.status, what in response.error["what"]) == (status, True), response.error


def test_without_an_app_there_are_no_intervals(tmp_path: Path) -> None:
    with open_console(tmp_path) as client:
        response = client.get("/api/intervals")
    assert (response.status, response.error["kind"]) == (404, "RunnerError")
