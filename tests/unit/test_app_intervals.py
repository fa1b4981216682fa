"""Declarations of pipelines with intervals, and the errors of invalid ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

import gearshift as gs
from gearshift.errors import DefinitionError
from gearshift.freshness import Gear


@dataclass
class Sale:
    item: str


def declare(
    transform: Callable[..., Any] | None = None, *, source: Any = None, to: Any = None, **how: Any
) -> gs.Pipeline:
    def totals(sales: Any) -> Any:
        return sales

    function = transform or totals
    app = gs.App("shop")
    tables = {name: app.table(name) for name in ("sales", "prices", "totals")}
    tables["keyed"] = app.table("keyed", key="item")
    tables["cut"] = app.table("cut", partition_by="interval_start")
    topics = {"sold": app.topic("sold", value=Sale)}
    known: dict[str, Any] = {**tables, **topics}
    chosen = (
        known[source or "sales"] if not isinstance(source, dict) else {k: known[v] for k, v in source.items()}
    )
    app.pipeline(source=chosen, to=known[to or "totals"], **how)(function)
    return app.graph.pipelines[function.__name__]


def test_event_time_names_the_column_that_the_one_source_is_cut_by() -> None:
    pipeline = declare(freshness="1 month", event_time="sold_at", grace="2 hours", allowed_lateness="7 days")
    assert pipeline.gear is Gear.BATCH
    assert pipeline.intervals is not None
    assert pipeline.intervals.event_time == {"sales": "sold_at"}
    assert (pipeline.intervals.grace, pipeline.intervals.allowed_lateness) == (
        timedelta(hours=2),
        timedelta(days=7),
    )
    assert not pipeline.intervals.is_parameter


def test_a_transform_may_take_the_interval_and_a_source_may_stay_whole() -> None:
    def totals(sales: Any, prices: Any, interval: gs.Interval) -> Any:
        return sales

    pipeline = declare(
        totals,
        source={"sales": "sales", "prices": "prices"},
        freshness="1 day",
        event_time={"sales": "sold_at"},
    )
    assert list(pipeline.sources) == ["sales", "prices"]
    assert pipeline.intervals is not None
    assert pipeline.intervals.is_parameter
    assert pipeline.intervals.allowed_lateness is None


@pytest.mark.parametrize("since", ["2026-03-29", date(2026, 3, 29), datetime(2026, 3, 29, tzinfo=UTC)])
def test_since_is_a_date_or_a_time(since: Any) -> None:
    intervals = declare(freshness="1 day", event_time="sold_at", since=since).intervals
    assert intervals is not None
    assert intervals.since == datetime(2026, 3, 29, tzinfo=UTC)
    assert declare(freshness="1 day", event_time="sold_at").intervals.since is None  # type: ignore[union-attr]


def test_since_without_an_offset_is_a_time_of_the_apps_zone() -> None:
    app = gs.App("shop", timezone="Europe/Berlin")
    app.pipeline(
        source=app.table("sales"),
        to=app.table("totals"),
        freshness="1 day",
        event_time="at",
        since="2026-07-01",
    )(lambda_named("totals"))
    intervals = app.graph.pipelines["totals"].intervals
    assert intervals is not None and intervals.since is not None
    assert intervals.since.isoformat() == "2026-07-01T00:00:00+02:00"


def test_cron_is_a_calendar_with_and_without_intervals() -> None:
    assert str(declare(cron="0 6 * * mon-fri").calendar) == "0 6 * * mon-fri"
    pipeline = declare(cron="@daily", event_time="sold_at")
    assert (str(pipeline.calendar), pipeline.gear) == ("0 0 * * *", Gear.BATCH)
    assert str(declare(freshness="2 weeks", event_time="sold_at").calendar) == "2 weeks"


def two_sources(sales: Any, prices: Any) -> Any:
    return sales


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"freshness": "1 day", "allowed_lateness": "7 days"}, "has allowed_lateness= without event_time="),
        ({"freshness": "1 day", "grace": "1 hour"}, "has grace= without event_time="),
        ({"freshness": "1 day", "since": "2026-01-01"}, "has since= without event_time="),
        ({"freshness": "1 day", "event_time": "sold_at", "since": "may"}, "has since='may'"),
        ({"freshness": "1 day", "event_time": "sold_at", "since": 2026}, "has since=2026"),
        (
            {"freshness": "1 day", "event_time": "sold_at", "since": "0800-01-01"},
            "outside of the years 1000 to 9000",
        ),
        ({"event_time": "sold_at"}, "neither freshness nor gear"),
        ({"freshness": "1 minute", "event_time": "sold_at"}, "has event_time= and gear near-real-time"),
        ({"freshness": "1 day", "cron": "@daily"}, "two calendars: freshness='1 day' and cron='@daily'"),
        ({"gear": "near-real-time", "event_time": "sold_at"}, "has event_time= and gear near-real-time"),
        ({"gear": "real-time", "cron": "@daily"}, "has cron= and gear real-time"),
        ({"cron": "every day"}, "pipeline totals: invalid cron expression 'every day'"),
        (
            {"freshness": "1 day", "event_time": "sold_at", "source": "sold"},
            "cannot cut topic sold into intervals",
        ),
        ({"freshness": "1 day", "event_time": "sold_at", "to": "sold"}, "writes intervals to topic sold"),
        (
            {"freshness": "1 day", "event_time": "sold_at", "to": "sales"},
            "reads intervals of table sales and writes to it",
        ),
        (
            {"freshness": "1 day", "event_time": "sold_at", "to": "keyed"},
            "but its rows replace each other by key",
        ),
        (
            {"freshness": "1 day", "event_time": "sold_at", "to": "cut"},
            "is already partitioned by interval_start",
        ),
        (
            {"freshness": "1 day", "event_time": "sold_at", "allowed_lateness": "soon"},
            "allowed_lateness: 'soon' is not a duration",
        ),
        (
            {"freshness": "1 day", "event_time": "at", "allowed_lateness": "1 hour", "grace": "2 hours"},
            "shorter than grace",
        ),
        (
            {"freshness": "1 day", "event_time": {"sale": "sold_at"}},
            "event_time= for unknown source 'sale'",
        ),
        ({"freshness": "1 day", "event_time": {}}, "an empty event_time="),
    ],
)
def test_what_cannot_be_cut_or_replaced_is_refused(how: dict[str, Any], what: str) -> None:
    with pytest.raises(DefinitionError, match=what) as caught:
        declare(**how)
    assert caught.value.file is not None
    assert caught.value.file.endswith("test_app_intervals.py")


def test_with_two_sources_event_time_names_one() -> None:
    with pytest.raises(DefinitionError, match="has event_time='sold_at' and 2 sources") as caught:
        declare(
            two_sources,
            source={"sales": "sales", "prices": "prices"},
            freshness="1 day",
            event_time="sold_at",
        )
    assert "event_time={'sales': 'sold_at'}" in (caught.value.hint or "")


def test_a_table_of_intervals_has_one_writer() -> None:
    app = gs.App("shop")
    sales, totals = app.table("sales"), app.table("totals")
    app.pipeline(source=sales, to=totals, freshness="1 day", event_time="sold_at")(lambda_named("first"))
    with pytest.raises(DefinitionError, match="pipelines first and second write table totals"):
        app.pipeline(source=sales, to=totals, freshness="1 day")(lambda_named("second"))


def lambda_named(name: str) -> Callable[[Any], Any]:
    def transform(sales: Any) -> Any:
        return sales

    transform.__name__ = name
    return transform
