"""Intervals that a person asks for run next, before those that are due; no Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import gearshift as gs
from gearshift import tables
from gearshift.calendars import Interval
from gearshift.errors import DefinitionError, QueryError
from gearshift.pipelines.context import Context
from gearshift.pipelines.intervals import scheduler
from gearshift.pipelines.intervals.log import Entry, Failure, Input, IntervalLog
from gearshift.pipelines.intervals.scheduler import IntervalSchedule
from gearshift.pipelines.intervals.selection import interval_from
from gearshift.storage.folders import open_folder
from tests.arrow_frames import ArrowFrame, declared

NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)


class Shop:
    """A pipeline with three days of sales, and a record of what runs."""

    def __init__(self, folder: Path) -> None:
        app = gs.App("shop")

        @app.pipeline(app.table("sales"), to=app.table("totals"), freshness="1 day", event_time="sold_at")
        def totals(sales: Any) -> Any:
            return sales

        self.graph = app.graph
        self.pipeline = app.graph.pipelines["totals"]
        self.ran: list[tuple[int, str]] = []
        self.broken: set[int] = set()
        self.before_each: Callable[[int], None] = lambda _: None
        self._folder = folder
        self._written = 0
        sales = ArrowFrame(
            {"sold_at": "timestamp"}, [(NOW.replace(hour=6) - timedelta(days=n),) for n in (1, 2, 3)]
        )
        tables.append(declared("sales"), self.table_uri(declared("sales")), sales, writer="w", batch_id=0)
        self.schedule = IntervalSchedule(cast("Context", self), self.pipeline)
        self.stopping = threading.Event()

    def table_uri(self, table: gs.Table) -> str:
        return (self._folder / table.name).as_uri()

    def folder_of(self, _: gs.Pipeline) -> str:
        return (self._folder / "log").as_uri()

    @property
    def log(self) -> IntervalLog:
        return IntervalLog(open_folder(self.folder_of(self.pipeline)))

    def run_interval(self, _: object, __: object, interval: Interval, why: str, ___: object) -> Entry:
        day = interval.start.day
        self.before_each(day)
        self.ran.append((day, why))
        if day in self.broken:
            failure = Failure(pipeline="totals", interval=interval, began=NOW, why=why, error="no")
            self.log.keep_failure(failure)
            raise QueryError("no")
        frame = ArrowFrame({"day": "long"}, [(day,)])
        commit = tables.append(
            declared("totals"), self.table_uri(declared("totals")), frame, writer="w", batch_id=self._written
        )
        [tally] = tables.tallies(
            self.table_uri(declared("sales")), "sold_at", [(interval.start, interval.end)], version=0
        )
        self._written += 1
        read = Input(table="sales", version=0, rows=tally.rows, digest=tally.digest)
        entry = Entry(
            pipeline="totals",
            interval=interval,
            rows=1,
            inputs={"sales": read},
            began=NOW,
            seconds=0.1,
            version=commit.version,
            why=why,
        )
        self.log.keep(entry)
        return entry

    def day(self, number: int) -> Interval:
        return interval_from(self.graph, "totals", datetime(2026, 3, number, tzinfo=UTC), NOW)

    def run_due(self) -> list[Entry]:
        return list(self.schedule.run(NOW, self.stopping))

    def run_requested(self) -> list[Entry]:
        return list(self.schedule.run_requested(NOW, self.stopping))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    made = Shop(tmp_path)
    monkeypatch.setattr(scheduler, "run_interval", made.run_interval)
    return made


def test_a_requested_interval_runs_again_and_says_why(shop: Shop) -> None:
    shop.run_due()
    assert shop.ran == [(28, "calendar"), (29, "calendar"), (30, "calendar")]
    shop.schedule.request(shop.day(29))
    assert shop.schedule.in_progress == (shop.day(29),)
    [entry] = shop.run_requested()
    assert (entry.why, shop.ran[-1]) == ("requested", (29, "requested"))
    assert shop.schedule.in_progress == ()
    kept = shop.log.of(shop.day(29))
    assert kept is not None
    assert kept.why == "requested"


def test_a_request_comes_before_intervals_that_are_due(shop: Shop) -> None:
    shop.before_each = lambda day: shop.schedule.request(shop.day(30)) if day == 28 else None
    shop.run_due()
    assert [day for day, _ in shop.ran] == [28]
    shop.before_each = lambda _: None
    shop.run_requested()
    shop.run_due()
    assert shop.ran[1:] == [(30, "requested"), (29, "calendar")]


def test_two_requests_of_one_interval_run_it_once_and_it_is_running_meanwhile(shop: Shop) -> None:
    shop.schedule.request(shop.day(29))
    shop.schedule.request(shop.day(29))
    seen: list[tuple[Interval, ...]] = []
    shop.before_each = lambda _: seen.append(shop.schedule.in_progress)
    shop.run_requested()
    assert shop.ran == [(29, "requested")]
    assert seen == [(shop.day(29),)]


def test_a_requested_interval_that_fails_is_recorded_and_waits_no_longer(shop: Shop) -> None:
    shop.run_due()
    shop.broken = {31}  # the open day, which is not due
    shop.schedule.request(shop.day(31))
    assert shop.run_requested() == []
    assert not shop.schedule.has_requests
    failure = shop.log.failure_of(shop.day(31))
    assert failure is not None
    assert failure.why == "requested"


def test_a_request_that_the_runners_stop_interrupts_is_not_lost_before_it_ends(shop: Shop) -> None:
    shop.schedule.request(shop.day(29))
    shop.before_each = lambda _: shop.stopping.set()
    shop.run_requested()
    assert shop.schedule.has_requests


@pytest.mark.parametrize(
    ("start", "what"),
    [
        (datetime(2026, 3, 29, 1, tzinfo=UTC), "no interval of totals begins at 2026-03-29T01"),
        (datetime(2026, 4, 1, tzinfo=UTC), "has not begun"),
        (datetime(1, 1, 1), "0001-01-01.* is outside of every calendar"),  # noqa: DTZ001
        (datetime(9999, 12, 31), "9999-12-31.* is outside of every calendar"),  # noqa: DTZ001
    ],
)
def test_an_unknown_interval_is_refused(shop: Shop, start: datetime, what: str) -> None:
    with pytest.raises(DefinitionError, match=what):
        interval_from(shop.graph, "totals", start, NOW)
