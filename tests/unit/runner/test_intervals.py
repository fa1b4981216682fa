"""The intervals that a user requests, and the errors for invalid ones."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

import gearshift as gs
from gearshift.errors import DefinitionError
from gearshift.pipelines.intervals.selection import intervals_to_run, pipeline_of_intervals


def shop(freshness: str = "1 day") -> gs.App:
    app = gs.App("shop", timezone="Europe/Berlin")
    sales = app.table("sales")

    @app.pipeline(source=sales, to=app.table("totals"), freshness=freshness, event_time="sold_at")
    def totals(sales: Any) -> Any:
        return sales

    @app.pipeline(source=sales, to=app.table("copies"), freshness="1 day")
    def copies(sales: Any) -> Any:
        return sales

    return app


def asked(start: str, end: str, app: gs.App | None = None) -> list[str]:
    graph = (app or shop()).graph
    bounds = (datetime.fromisoformat(text) for text in (start, end))
    return [interval.key for interval in intervals_to_run(graph, graph.pipelines["totals"], *bounds)]


def test_times_without_an_offset_are_the_apps_and_an_interval_that_began_before_is_left_out() -> None:
    assert asked("2026-03-28T12:00", "2026-03-30T12:00") == [
        "2026-03-29T00:00:00+01:00",
        "2026-03-30T00:00:00+02:00",
    ]
    assert asked("2026-03-28T23:00Z", "2026-03-29T22:00+00:00") == ["2026-03-29T00:00:00+01:00"]


@pytest.mark.parametrize(
    ("start", "end", "what"),
    [
        ("2026-01-02", "2026-01-01", "--to 2026-01-01.* is not after --from 2026-01-02"),
        ("2026-01-01T01:00", "2026-01-01T02:00", "no interval of totals begins from"),
        ("0001-01-01", "2026-01-01", "0001-01-01.* is outside of every calendar"),
        ("2026-01-01", "9999-12-31", "to 9999-12-31.* is outside of every calendar"),
        ("1001-01-01", "2026-01-01", "more than 100,000 intervals of totals"),
    ],
)
def test_invalid_intervals_are_refused(start: str, end: str, what: str) -> None:
    with pytest.raises(DefinitionError, match=what):
        asked(start, end)


def test_a_pipeline_without_intervals_is_refused_with_a_hint() -> None:
    with pytest.raises(DefinitionError, match="copies has no intervals") as caught:
        pipeline_of_intervals(shop().graph, "copies")
    assert caught.value.hint == "declare the column with the event time: event_time='booked_at'"
    with pytest.raises(DefinitionError, match="no pipeline 'total'") as caught:
        pipeline_of_intervals(shop().graph, "total")
    assert caught.value.hint == "those with intervals are totals"
