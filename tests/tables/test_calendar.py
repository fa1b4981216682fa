"""Intervals as Spark runs them: each answers for its own time, and running it again replaces its result exactly."""

from __future__ import annotations

import re
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import tables
from gearshift.connection import Connection
from gearshift.errors import CheckError, DefinitionError, TableError, TransformError
from gearshift.pipelines.check.gears import Checker
from gearshift.pipelines.context import Context
from gearshift.pipelines.intervals.log import Entry, IntervalLog
from gearshift.pipelines.intervals.scheduler import IntervalSchedule
from gearshift.pipelines.intervals.selection import intervals_to_run, pipeline_of_intervals, survey_intervals
from gearshift.pipelines.intervals.states import State
from gearshift.pipelines.supervisor import Supervisor
from gearshift.runner import batches
from gearshift.schemas import Registry
from gearshift.settings import load
from gearshift.storage.folders import open_folder
from gearshift.topics import DeadLetters
from tests.arrow_frames import ArrowFrame, declared
from tests.command import GEARSHIFT
from tests.support import eventually

BERLIN = ZoneInfo("Europe/Berlin")
Sale = tuple[str, Decimal, datetime]
COLUMNS = {"item": "string", "price": "decimal(12,2)", "sold_at": "timestamp"}
DAY = "2026-10-25"  # of 25 hours, in Berlin


def every_ten_minutes(start: datetime, end: datetime) -> list[Sale]:
    """A sale every ten minutes of real time."""
    first, count = start.astimezone(UTC), int((end.timestamp() - start.timestamp()) // 600)
    return [
        ("pen" if n % 3 else "ink", Decimal(n % 700).scaleb(-2), first + timedelta(minutes=10 * n))
        for n in range(count)
    ]


def leap_year() -> list[Sale]:
    """Two sales a day in 2028, one of them in the last minute, and none in August."""
    found: list[Sale] = []
    for n in range(366):
        midnight = datetime(2028, 1, 1) + timedelta(days=n)  # noqa: DTZ001
        for item, moment in (("pen", midnight), ("ink", midnight + timedelta(hours=23, minutes=59))):
            if moment.month != 8:
                found.append((item, Decimal(n).scaleb(-2), moment.replace(tzinfo=BERLIN).astimezone(UTC)))
    return found


class Warehouse:
    """The tables and pipelines that all tests of this file share, and the one Spark they run on."""

    def __init__(self, folder: Path) -> None:
        self.app = gs.App("calendar", timezone="Europe/Berlin")
        self.settings = load({"home": folder}, folder=folder, environ={})
        self.tables = {
            name: self.app.table(name)
            for name in (
                "year",
                "days",
                "prices",
                "monthly",
                "daily",
                "hourly",
                "shifts",
                "broken",
                "odd",
                "clicks",
                "by_day",
                "by_week",
                "visits",
                "visits_a_day",
                "visits_a_week",
                "visits_a_fortnight",
                "calls",
                "calls_a_day",
            )
        }
        self.jammed: set[int] = set()
        """The days of the month on which nothing can be counted."""

    def uri(self, name: str) -> str:
        return tables.table_uri(self.settings.warehouse_uri, name)

    def write(self, name: str, rows: list[Sale]) -> None:
        tables.overwrite(declared(name), self.uri(name), ArrowFrame(COLUMNS, rows))

    def rows(self, name: str) -> list[dict[str, Any]]:
        return sorted(
            tables.rows(self.uri(name)), key=lambda row: (row["interval_start"], row.get("item", ""))
        )


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    made = Warehouse(tmp_path_factory.mktemp("calendar"))
    app, table = made.app, made.tables
    made.write("year", leap_year())
    autumn = every_ten_minutes(datetime(2026, 10, 24, tzinfo=BERLIN), datetime(2026, 10, 27, tzinfo=BERLIN))
    spring = every_ten_minutes(datetime(2026, 3, 28, tzinfo=BERLIN), datetime(2026, 3, 31, tzinfo=BERLIN))
    made.write("days", autumn + spring)
    prices = ArrowFrame({"item": "string", "tax": "decimal(12,2)"}, [("pen", Decimal("0.10"))])
    tables.overwrite(declared("prices"), made.uri("prices"), prices)

    @app.pipeline(source=table["year"], to=table["monthly"], freshness="1 month", event_time="sold_at")
    def monthly(year: DataFrame, interval: gs.Interval) -> DataFrame:
        days = (interval.end.date() - interval.start.date()).days
        return year.groupBy("item").agg(
            F.sum("price").alias("total"), F.count("*").alias("sales"), F.lit(days).alias("days")
        )

    @app.pipeline(source=table["days"], to=table["daily"], freshness="1 day", event_time="sold_at")
    def daily(days: DataFrame) -> DataFrame:
        return days.groupBy().agg(F.count("*").alias("sales"))

    @app.pipeline(source=table["days"], to=table["hourly"], freshness="1 hour", event_time="sold_at")
    def hourly(days: DataFrame) -> DataFrame:
        return days.groupBy("item").agg(F.count("*").alias("sales"))

    @app.pipeline(
        source={"days": table["days"], "prices": table["prices"]},
        to=table["shifts"],
        cron="0 6,14,22 * * *",
        event_time={"days": "sold_at"},
    )
    def shifts(days: DataFrame, prices: DataFrame) -> DataFrame:
        return days.join(prices, "item").agg(F.count("*").alias("taxed"), F.sum("tax").alias("tax"))

    @app.pipeline(source=table["days"], to=table["broken"], freshness="1 day", event_time="sold_at")
    def broken(days: DataFrame, interval: gs.Interval) -> DataFrame:
        if interval.start.day == 25:
            raise ValueError("no Sundays")
        return days.limit(1)

    @app.pipeline(source=table["days"], to=table["odd"], freshness="1 day", event_time="sold_at")
    def odd(days: DataFrame) -> DataFrame:
        return days.withColumn("interval_start", F.lit("now"))

    @app.pipeline(
        source=table["clicks"],
        to=table["by_day"],
        freshness="1 day",
        event_time="sold_at",
        allowed_lateness="9 days",
    )
    def by_day(clicks: DataFrame) -> DataFrame:
        return clicks.groupBy().agg(F.count("*").alias("n"), F.min("sold_at").alias("first"))

    @app.pipeline(
        source=table["by_day"], to=table["by_week"], freshness="1 week", event_time="first", grace="1 day"
    )
    def by_week(by_day: DataFrame) -> DataFrame:
        return by_day.agg(F.sum("n").alias("n"))

    def counted(rows: DataFrame, interval: gs.Interval) -> DataFrame:
        if interval.start.day in made.jammed:
            raise ValueError(f"the counter is jammed on day {interval.start.day}")
        return rows.agg(F.count("*").alias("n"), F.lit(interval.start).alias("day"))

    @app.pipeline(source=table["visits"], to=table["visits_a_day"], freshness="1 day", event_time="sold_at")
    def visits_a_day(visits: DataFrame, interval: gs.Interval) -> DataFrame:
        return counted(visits, interval)

    @app.pipeline(source=table["calls"], to=table["calls_a_day"], freshness="1 day", event_time="sold_at")
    def calls_a_day(calls: DataFrame, interval: gs.Interval) -> DataFrame:
        return counted(calls, interval)

    @app.pipeline(
        source=table["visits_a_day"], to=table["visits_a_week"], freshness="1 week", event_time="day"
    )
    def visits_a_week(visits_a_day: DataFrame) -> DataFrame:
        return visits_a_day.agg(F.sum("n").alias("n"), F.min("day").alias("day"))

    @app.pipeline(
        source=table["visits_a_week"], to=table["visits_a_fortnight"], freshness="2 weeks", event_time="day"
    )
    def visits_a_fortnight(visits_a_week: DataFrame) -> DataFrame:
        return visits_a_week.agg(F.sum("n").alias("n"))

    return made


@pytest.fixture(scope="module")
def context(warehouse: Warehouse) -> Iterator[Context]:
    with batches.opened(warehouse.app, warehouse.settings) as opened:
        yield opened


def run(context: Context, pipeline: str, start: str, end: str) -> list[Entry]:
    chosen = pipeline_of_intervals(context.graph, pipeline)
    bounds = (datetime.fromisoformat(text) for text in (start, end))
    intervals = intervals_to_run(context.graph, chosen, *bounds)
    return list(batches.run_all(context, chosen, intervals, "test"))


def test_twelve_months_run_twice_give_identical_tables(warehouse: Warehouse, context: Context) -> None:
    truth: dict[tuple[str, str], list[Decimal]] = defaultdict(list)
    for item, price, sold_at in leap_year():
        truth[f"{sold_at.astimezone(BERLIN):%Y-%m}", item].append(price)
    entries = run(context, "monthly", "2028-01-01", "2029-01-01")
    first = warehouse.rows("monthly")
    assert {(row["interval_start"][:7], row["item"]): (row["total"], row["sales"]) for row in first} == {
        place: (sum(prices), len(prices)) for place, prices in truth.items()
    }
    assert {row["interval_start"]: row["days"] for row in first}["2028-02-01T00:00:00+01:00"] == 29
    assert [entry.rows for entry in entries] == [2] * 7 + [0] + [2] * 4  # August has no sales
    assert [entry.inputs["year"].rows for entry in entries][:3] == [62, 58, 62]
    run(context, "monthly", "2028-01-01", "2029-01-01")
    assert warehouse.rows("monthly") == first


def test_a_month_whose_rows_go_away_has_no_result_any_more_and_no_other_month_changes(
    warehouse: Warehouse, context: Context
) -> None:
    run(context, "monthly", "2028-02-01", "2028-04-01")
    before = warehouse.rows("monthly")
    kept = [sale for sale in leap_year() if sale[2].astimezone(BERLIN).month != 2]
    warehouse.write("year", [*kept, ("cap", Decimal("7.77"), datetime(2028, 3, 3, tzinfo=UTC))])
    [entry] = run(context, "monthly", "2028-02-01", "2028-03-01")
    assert (entry.rows, entry.inputs["year"].rows) == (0, 0)
    others = [row for row in before if not row["interval_start"].startswith("2028-02")]
    assert warehouse.rows("monthly") == others  # March has its late row only when March runs
    warehouse.write("year", leap_year())
    run(context, "monthly", "2028-02-01", "2028-03-01")
    assert warehouse.rows("monthly") == before


def test_days_have_the_rows_of_23_24_and_25_hours(warehouse: Warehouse, context: Context) -> None:
    run(context, "daily", "2026-03-28", "2026-03-31")
    run(context, "daily", "2026-10-24", "2026-10-27")
    assert {row["interval_start"]: row["sales"] for row in warehouse.rows("daily")} == {
        "2026-03-28T00:00:00+01:00": 144,
        "2026-03-29T00:00:00+01:00": 138,
        "2026-03-30T00:00:00+02:00": 144,
        "2026-10-24T00:00:00+02:00": 144,
        "2026-10-25T00:00:00+02:00": 150,
        "2026-10-26T00:00:00+01:00": 144,
    }


def test_the_hour_that_comes_twice_has_two_results_and_the_skipped_one_none(
    warehouse: Warehouse, context: Context
) -> None:
    run(context, "hourly", f"{DAY}T02:00+02:00", f"{DAY}T03:00+01:00")
    run(context, "hourly", "2026-03-29T01:00", "2026-03-29T04:00")
    found: dict[str, int] = defaultdict(int)
    for row in warehouse.rows("hourly"):
        found[row["interval_start"]] += row["sales"]
    assert found == {
        "2026-03-29T01:00:00+01:00": 6,
        "2026-03-29T03:00:00+02:00": 6,
        f"{DAY}T02:00:00+02:00": 6,
        f"{DAY}T02:00:00+01:00": 6,
    }


def test_shifts_by_cron_take_a_source_whole_beside_the_one_that_is_cut(
    warehouse: Warehouse, context: Context
) -> None:
    night, morning = run(context, "shifts", "2026-10-24T22:00", f"{DAY}T14:00")
    assert (night.interval.end - night.interval.start) == timedelta(hours=9)  # the hour came twice
    assert (night.inputs["days"].rows, morning.inputs["days"].rows) == (54, 48)
    assert (night.inputs["prices"].rows, night.inputs["prices"].digest) == (1, None)
    truth = [n for n in range(3 * 150) if n % 3 and 22 * 6 <= n < 22 * 6 + 54]
    assert warehouse.rows("shifts")[0]["taxed"] == len(truth)
    assert warehouse.rows("shifts")[0]["tax"] == Decimal("0.10") * len(truth)


def test_an_interval_that_fails_leaves_the_others_and_what_it_had(
    warehouse: Warehouse, context: Context
) -> None:
    with pytest.raises(TransformError, match="the transform raised ValueError: no Sundays") as caught:
        run(context, "broken", "2026-10-24", "2026-10-27")
    assert caught.value.file is not None
    assert [row["interval_start"][:10] for row in warehouse.rows("broken")] == ["2026-10-24"]


def test_what_cannot_be_is_refused_before_it_runs(context: Context) -> None:
    checker = Checker(context)
    with pytest.raises(CheckError, match="returns a column interval_start, which Gearshift adds"):
        checker.report(context.graph.pipelines["odd"])
    assert checker.report(context.graph.pipelines["shifts"]).working == ["batch"]
    run(context, "daily", "2026-10-24", "2026-10-25")
    for zone, freshness in (("Asia/Tokyo", "1 day"), ("Europe/Berlin", "1 hour")):
        other = gs.App("calendar", timezone=zone)

        @other.pipeline(
            source=other.table("days"), to=other.table("daily"), freshness=freshness, event_time="sold_at"
        )
        def daily(days: DataFrame) -> DataFrame:
            return days

        moved = Context(
            spark=context.spark,
            settings=context.settings,
            graph=other.graph,
        )
        with pytest.raises(TableError, match=f"that does not belong to {freshness} in {zone}"):
            run(moved, "daily", "2026-10-24", "2026-10-25")


def test_the_scheduler_runs_what_is_over_then_what_follows_from_it_and_again_what_came_late(
    warehouse: Warehouse, context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    def scheduled(name: str, now: datetime) -> list[tuple[str, int, str]]:
        schedule = IntervalSchedule(context, context.graph.pipelines[name])
        is_due = schedule.next_run(now) <= now
        ran = [
            (entry.interval.key[5:10], entry.inputs[next(iter(entry.inputs))].rows, entry.why)
            for entry in schedule.run(now, threading.Event())
        ]
        assert is_due == bool(ran)
        assert schedule.next_run(now) > now  # nothing is left to do
        return ran

    def click(*days: int) -> None:
        rows = [("pen", Decimal(1), datetime(2026, 6, day, 12, tzinfo=BERLIN)) for day in days]
        batch = 0 if not tables.exists(warehouse.uri("clicks")) else 1
        frame = ArrowFrame(COLUMNS, rows)
        tables.append(declared("clicks"), warehouse.uri("clicks"), frame, writer="w", batch_id=batch)

    click(5, 5, 7, 8)  # a Friday, the Sunday after and Monday
    sunday = datetime(2026, 6, 7, 23, tzinfo=BERLIN)
    tuesday, wednesday = (datetime(2026, 6, day, 0, tzinfo=BERLIN) for day in (9, 10))
    assert scheduled("by_day", sunday) == [("06-05", 2, "calendar"), ("06-06", 0, "calendar")]
    assert scheduled("by_week", tuesday) == []  # Sunday is not there yet
    assert scheduled("by_day", tuesday) == [("06-07", 1, "calendar"), ("06-08", 1, "calendar")]
    assert scheduled("by_week", datetime(2026, 6, 8, 23, tzinfo=BERLIN)) == []  # its grace is not over
    assert scheduled("by_week", tuesday) == [("06-01", 2, "calendar")]  # a day without clicks has no first
    click(6, 6, 8)
    assert scheduled("by_day", wednesday) == [
        ("06-06", 2, "late rows"),
        ("06-08", 2, "late rows"),
        ("06-09", 0, "calendar"),
    ]
    assert scheduled("by_week", wednesday) == [("06-01", 3, "late rows")]
    assert [row["n"] for row in warehouse.rows("by_week")] == [5]
    tables.overwrite(declared("clicks"), warehouse.uri("clicks"), ArrowFrame(COLUMNS, []))
    assert scheduled("by_day", datetime(2026, 7, 1, tzinfo=BERLIN)) == []
    assert "too late for the closed interval 2026-06-05T00:00:00+02:00" in caplog.text


def visit(warehouse: Warehouse, *days: int) -> None:
    rows = [("pen", Decimal(1), datetime(2026, 6, day, 12, tzinfo=BERLIN)) for day in days]
    warehouse.write("visits", rows)


def test_an_interval_that_fails_keeps_only_those_waiting_that_are_made_of_it(
    warehouse: Warehouse, context: Context
) -> None:
    visit(warehouse, 6, 7, 7, 8, 10, 14)
    monday = datetime(2026, 6, 15, tzinfo=BERLIN)
    schedules = {
        name: IntervalSchedule(context, context.graph.pipelines[name])
        for name in ("visits_a_day", "visits_a_week", "visits_a_fortnight")
    }
    days = schedules["visits_a_day"]

    def scheduled(name: str, after: float) -> list[tuple[str, str]]:
        ran = schedules[name].run(monday + timedelta(seconds=after), threading.Event())
        return [(entry.interval.key[5:10], entry.why) for entry in ran]

    def failed() -> list[tuple[str, int]]:
        seen = survey_intervals(
            warehouse.app, warehouse.settings, context.graph.pipelines["visits_a_day"], monday
        )
        assert seen is not None
        found = [(status.interval.key[5:10], status.failure) for status in seen.of(State.FAILED)]
        return [(day, failure.tries) for day, failure in found if failure is not None]

    warehouse.jammed = {6, 9}
    assert scheduled("visits_a_day", 0) == [(f"06-{n:02}", "calendar") for n in (7, 8, 10, 11, 12, 13, 14)]
    assert failed() == [("06-06", 1), ("06-09", 1)]
    assert days.error is not None and "the counter is jammed on day 6" in days.error
    assert days.error.endswith("; 1 more failed")
    # It is tried again a little later, and not at once.
    assert monday < days.next_run(monday) < monday + timedelta(minutes=1)
    warehouse.jammed = {6}
    assert scheduled("visits_a_day", 0) == []
    assert scheduled("visits_a_day", 60) == [("06-09", "retry")]
    assert failed() == [("06-06", 2)]
    # The week that lacks the 6th waits for it, and the two weeks that lack that week; the other week does not.
    assert scheduled("visits_a_week", 61) == [("06-08", "calendar")]
    assert scheduled("visits_a_fortnight", 61) == []
    warehouse.jammed = set()
    assert scheduled("visits_a_day", 120) == [("06-06", "retry")]
    assert (failed(), days.error) == ([], None)
    assert scheduled("visits_a_week", 121) == [("06-01", "calendar")]
    assert [row["n"] for row in warehouse.rows("visits_a_week")] == [3, 3]
    assert scheduled("visits_a_fortnight", 121) != []


@pytest.fixture
def supervisor(context: Context) -> Iterator[Callable[[bool], Supervisor]]:
    """What keeps the pipeline of calls running, with the scheduler or without."""
    with ExitStack() as closing:
        connection = Connection(
            bootstrap_servers="127.0.0.1:9", registry_url="http://127.0.0.1:9"
        )  # never used
        registry = closing.enter_context(Registry(connection))
        letters = closing.enter_context(DeadLetters(connection))

        def made(scheduler: bool) -> Supervisor:
            settings = context.settings.model_copy(update={"scheduler": scheduler})
            pipeline = context.graph.pipelines["calls_a_day"]
            opened = Supervisor(replace(context, settings=settings), pipeline, registry, letters)
            closing.callback(opened.close)
            opened.open()
            return opened

        yield made


def calls_a_day(warehouse: Warehouse) -> dict[date, int]:
    return {row["day"].astimezone(BERLIN).date(): row["n"] for row in warehouse.rows("calls_a_day")}


def test_without_the_scheduler_intervals_run_only_when_somebody_says_so(
    warehouse: Warehouse, context: Context, supervisor: Callable[[bool], Supervisor]
) -> None:
    yesterday = datetime.now(BERLIN) - timedelta(days=1)
    warehouse.write("calls", [("pen", Decimal(1), yesterday)] * 4)
    running = supervisor(False)
    left = "left to gearshift batch run"
    eventually(lambda: running.condition.state == left)
    assert running.condition.next_run is None
    assert not tables.exists(warehouse.uri("calls_a_day"))
    start, end = (f"{yesterday + timedelta(days=n):%Y-%m-%d}" for n in (0, 1))
    [entry] = run(context, "calls_a_day", start, end)
    assert (entry.why, calls_a_day(warehouse)) == ("test", {yesterday.date(): 4})
    assert (running.condition.state, running.ledger.runs) == (left, [])


def test_a_runner_shows_what_failed_and_goes_on(
    warehouse: Warehouse, supervisor: Callable[[bool], Supervisor]
) -> None:
    days = [datetime.now(BERLIN) - timedelta(days=n) for n in (1, 2, 3)]
    warehouse.write("calls", [("pen", Decimal(1), day) for day in days])
    warehouse.jammed = {days[1].day}
    running = supervisor(True)

    def error() -> str | None:
        [*failures] = running.ledger.failed_intervals
        return running.condition.error if [each.tries for each in failures] == [2] else None

    shown = eventually(error)
    assert f"jammed on day {days[1].day}" in shown
    assert set(calls_a_day(warehouse)) == {days[0].date(), days[2].date()}
    assert running.ledger.runs[0].error is not None
    warehouse.jammed = set()
    eventually(lambda: running.condition.state == "waiting")
    assert (running.condition.error, running.ledger.failed_intervals) == (None, [])
    assert set(calls_a_day(warehouse)) == {day.date() for day in days}


def test_a_requested_interval_runs_again_in_the_running_app(
    warehouse: Warehouse, supervisor: Callable[[bool], Supervisor]
) -> None:
    today = datetime.now(BERLIN).replace(hour=0, minute=0, second=0, microsecond=0)
    yesterday = today - timedelta(days=1)
    warehouse.write("calls", [("pen", Decimal(1), yesterday + timedelta(hours=n)) for n in range(3)])
    running = supervisor(True)

    def counted() -> int | None:
        known = tables.exists(warehouse.uri("calls_a_day")) and running.condition.state == "waiting"
        return calls_a_day(warehouse).get(yesterday.date()) if known else None

    eventually(lambda: counted() == 3)
    version = tables.read_paths(warehouse.uri("calls_a_day")).version
    requested = running.run_interval(yesterday)
    assert requested in running.intervals_in_progress
    eventually(lambda: not running.intervals_in_progress and running.condition.state == "waiting")
    entry = IntervalLog(open_folder(running.context.folder_of(running.pipeline))).of(requested)
    assert entry is not None
    assert (entry.why, entry.version > version) == ("requested", True)
    assert "requested" in [run.why for run in running.ledger.runs]
    assert calls_a_day(warehouse)[yesterday.date()] == 3
    with pytest.raises(DefinitionError, match="has not begun"):
        running.run_interval(today + timedelta(days=1))


APP = """
import gearshift as gs

app = gs.App("shop", timezone="Europe/Berlin")
sales = app.table("sales")

@app.pipeline(source=sales, to=app.table("totals"), freshness="1 day", event_time="sold_at")
def totals(sales):
    return sales
"""


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (("--from", "2026-01-01T01:00", "--to", "2026-01-01T02:00"),
         "(?s)no interval of totals begins.*the one around it is 2026-01-01T00:00:00\\+01:00 to 2026-01-02"),
        (("--from", "may", "--to", "2026-01-02"), "'may' is not an ISO 8601 time"),
    ],
)  # fmt: skip
def test_wrong_use_is_said_and_exits_with_2(tmp_path: Path, bounds: tuple[str, ...], said: str) -> None:
    (tmp_path / "shop.py").write_text(APP, encoding="utf-8")
    done = subprocess.run(
        [GEARSHIFT, "batch", "run", "shop.py", "totals", *bounds],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert re.search(said, done.stderr), done.stderr
