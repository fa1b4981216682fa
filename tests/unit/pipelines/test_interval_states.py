"""Which intervals are open, due, done, late or too late, from the rows of real tables; no Spark."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import gearshift as gs
from gearshift import tables
from gearshift.calendars import Interval, interval_at
from gearshift.errors import CheckError
from gearshift.pipelines.intervals.bounds import bounds
from gearshift.pipelines.intervals.log import Entry, Failure, Input, IntervalLog
from gearshift.pipelines.intervals.states import State, Survey, survey
from gearshift.storage.folders import LocalFolder
from gearshift.storage.location import local_path
from tests.arrow_frames import ArrowFrame, declared

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 3, 31, 12, tzinfo=BERLIN)


class Shop:
    """Sales by the day in Berlin, the recorded runs, and a clock that a test sets."""

    def __init__(self, folder: Path, **how: Any) -> None:
        app = gs.App("shop", timezone="Europe/Berlin")

        def totals(sales: Any) -> Any:
            return sales

        how = how if "cron" in how else {"freshness": "1 day", **how}
        app.pipeline(source=app.table("sales"), to=app.table("totals"), event_time="sold_at", **how)(totals)
        self.pipeline = app.graph.pipelines["totals"]
        self.log = IntervalLog(LocalFolder(folder / "log"))
        self._folder = folder
        self._batches = 0
        self._runs = 0

    def uri(self, table: gs.Table) -> str:
        return (self._folder / table.name).as_uri()

    def sell(self, *rows: tuple[str, datetime | None], kind: str = "timestamp") -> None:
        frame = ArrowFrame({"item": "string", "sold_at": kind}, rows)
        sales = self.pipeline.tables["sales"]
        tables.append(declared("sales"), self.uri(sales), frame, writer="w", batch_id=self._batches)
        self._batches += 1

    def drop(self) -> None:
        """Remove the table of sales; the next sale creates it again."""
        folder = local_path(self.uri(self.pipeline.tables["sales"]))
        assert folder is not None
        shutil.rmtree(folder)
        self._batches = 0

    def survey(self, now: datetime = NOON) -> Survey:
        return survey(self.pipeline, BERLIN, self.uri, self.log, now)

    def states(self, now: datetime = NOON) -> dict[str, str]:
        return {status.interval.key[5:16]: str(status.state) for status in self.survey(now).statuses}

    def sell_with(self, columns: dict[str, Any], *rows: tuple[Any, ...]) -> None:
        """Write sales with additional columns."""
        frame = ArrowFrame({"item": "string", "sold_at": "timestamp", **columns}, rows)
        uri = self.uri(self.pipeline.tables["sales"])
        tables.append(declared("sales"), uri, frame, writer="w", batch_id=self._batches)
        self._batches += 1

    def run(self, start: datetime, *, began: datetime = NOON, digest: str | None = None) -> None:
        """Record a run of the interval at a time, as if it had run over the current rows."""
        interval = interval_at(self.pipeline.calendar, start, BERLIN)
        sales = self.uri(self.pipeline.tables["sales"])
        version = tables.read_paths(sales).version
        [tally] = tables.tallies(sales, "sold_at", [bounds("timestamp", interval)])
        target = declared("totals", "interval_start")
        frame = ArrowFrame({"n": "long", "interval_start": "string"}, [(tally.rows, interval.key)])
        where = [{"interval_start": interval.key}]
        commit = tables.replace_partitions(target, self.uri(self.pipeline.target), frame, partitions=where)  # type: ignore[arg-type]
        self.log.keep(
            Entry(
                pipeline="totals",
                interval=interval,
                rows=1,
                inputs={
                    "sales": Input(
                        table="sales", version=version, rows=tally.rows, digest=digest or tally.digest
                    )
                },
                began=began,
                seconds=0,
                version=commit.version,
                why="test",
            )
        )

    def fail(self, start: datetime, error: str, *, began: datetime = NOON) -> None:
        """Record that a run of the interval at a time failed."""
        interval = interval_at(self.pipeline.calendar, start, BERLIN)
        failure = Failure(pipeline="totals", interval=interval, began=began, why="test", error=error)
        self.log.keep_failure(failure)


def at(day: int, hour: int = 12, month: int = 3) -> datetime:
    return datetime(2026, month, day, hour, tzinfo=BERLIN)


def test_from_the_first_row_to_today_every_day_is_due_and_today_is_open(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.sell(("pen", at(28, 23)), ("ink", at(30, 0)))
    assert shop.states() == {
        "03-28T00:00": "due",
        "03-29T00:00": "due",  # a day without a sale is a day
        "03-30T00:00": "due",
        "03-31T00:00": "open",
    }
    shop.run(at(28))
    shop.run(at(29))
    assert list(shop.states().values()) == ["done", "done", "due", "open"]
    assert list(shop.states(at(1, 0, month=4)).values()) == ["done", "done", "due", "due", "open"]


def test_grace_keeps_an_interval_open_after_its_end(tmp_path: Path) -> None:
    shop = Shop(tmp_path, grace="2 hours")
    shop.sell(("pen", at(30)))
    assert list(shop.states(at(31, 1)).values()) == ["open", "open"]
    assert list(shop.states(at(31, 2)).values()) == ["due", "open"]


def test_rows_that_come_for_a_closed_interval_make_it_late_and_then_too_late(tmp_path: Path) -> None:
    shop = Shop(tmp_path, allowed_lateness="3 days")
    shop.sell(("pen", at(28)), ("ink", at(29)))
    shop.run(at(28))
    shop.run(at(29))
    shop.run(at(30))
    shop.sell(("pad", at(28, 20)), ("cap", at(30)), ("cap", at(30)))
    assert list(shop.states().values()) == ["late", "done", "late", "open"]
    assert [status.late_rows for status in shop.survey().of(State.LATE)] == [1, 2]
    later = shop.survey(at(1, 2, month=4))  # three days of real time, one hour of which the clock skipped
    assert [(status.interval.start.day, status.late_rows) for status in later.of(State.TOO_LATE)] == [(28, 1)]
    assert [status.interval.start.day for status in later.of(State.LATE)] == [30]
    shop.run(at(28))
    assert later.of(State.TOO_LATE) and not shop.survey(at(1, 2, month=4)).of(State.TOO_LATE)


def test_a_row_that_changed_is_late_too_and_one_that_was_only_moved_to_another_file_is_not(
    tmp_path: Path,
) -> None:
    shop = Shop(tmp_path)
    shop.sell(("pen", at(28)))
    shop.sell(("ink", at(28)))
    shop.run(at(28))
    uri = shop.uri(shop.pipeline.tables["sales"])
    assert tables.compact(uri).made == 1
    assert shop.states()["03-28T00:00"] == "done"
    corrected = ArrowFrame({"item": "string", "sold_at": "timestamp"}, [("pen", at(28)), ("pad", at(28))])
    tables.overwrite(declared("sales"), uri, corrected)
    assert [(status.state, status.late_rows) for status in shop.survey().statuses[:1]] == [(State.LATE, 0)]


def test_what_was_run_before_its_end_is_run_again_when_it_is_over(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.sell(("pen", at(30)))
    shop.run(at(30), began=at(30, 13))
    assert shop.states(at(30, 14)) == {"03-30T00:00": "open"}
    assert list(shop.states(at(31, 0)).values()) == ["due", "open"]


def test_one_that_failed_is_shown_with_its_cause_until_a_later_run_makes_it_good(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.sell(("pen", at(28)), ("ink", at(29)))
    shop.run(at(28))
    shop.fail(at(28), "no disk", began=NOON + timedelta(minutes=1))
    shop.fail(at(29), "no disk")
    shop.fail(at(29), "no memory")
    # What ran once, and has no other rows since, still has its result.
    assert list(shop.states().values()) == ["done", "failed", "due", "open"]
    [failed] = shop.survey().of(State.FAILED)
    assert failed.failure is not None
    assert (failed.failure.error, failed.failure.tries) == ("no memory", 2)
    shop.sell(("pad", at(28)))
    assert shop.states()["03-28T00:00"] == "failed"
    for day in (28, 29):
        shop.run(at(day), began=NOON + timedelta(minutes=2))
    assert list(shop.states().values()) == ["done", "done", "due", "open"]
    assert shop.log.failures() == []
    shop.fail(at(28), "again", began=NOON + timedelta(minutes=3))
    assert [failure.tries for failure in shop.log.failures()] == [1]


def test_since_says_where_the_calendar_begins_and_what_was_before_is_run_by_hand(tmp_path: Path) -> None:
    shop = Shop(tmp_path, since="2026-03-28T06:00")
    shop.sell(("pen", at(26)), ("ink", at(27)), ("cap", at(28)), ("pad", at(30)))
    # The 28th begins before, so the first is the 29th.
    assert shop.states() == {"03-29T00:00": "due", "03-30T00:00": "due", "03-31T00:00": "open"}
    shop.run(at(26))
    shop.run(at(27), began=at(27, 13))
    shop.fail(at(28), "no disk")
    assert list(shop.states().items())[:3] == [
        ("03-26T00:00", "done"),
        ("03-27T00:00", "done"),  # half of it, as requested
        ("03-29T00:00", "due"),
    ]
    shop.sell(("ink", at(26)))
    assert shop.states()["03-26T00:00"] == "too late"


def test_a_table_that_is_gone_takes_its_intervals_along(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.sell(("pen", at(28)))
    shop.run(at(28))
    (tmp_path / "totals").rename(tmp_path / "away")
    assert shop.states()["03-28T00:00"] == "due"


def test_rows_whose_time_is_nonsense_are_counted_and_make_no_thousands_of_days(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.sell(("pen", None), ("ink", datetime(9999, 12, 31, 23, 59, tzinfo=UTC)), ("cap", at(30)))
    shop.sell(("pad", datetime(1970, 1, 1, 12, tzinfo=UTC)), ("cap", datetime(2100, 1, 1, 12, tzinfo=UTC)))
    assert shop.survey().without_time == 2
    assert [
        (status.interval.start.date().isoformat(), str(status.state)) for status in shop.survey().statuses
    ] == [
        ("1970-01-01", "due"),
        ("2026-03-30", "due"),
        ("2026-03-31", "open"),
        ("2100-01-01", "open"),
    ]


def test_dates_belong_to_days_of_the_apps_zone(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    days: Sequence[Any] = [("pen", date(2026, 3, 29)), ("ink", date(2026, 3, 30))]
    shop.sell(*days, kind="date")
    assert list(shop.states()) == ["03-29T00:00", "03-30T00:00", "03-31T00:00"]
    day = Interval(at(29, 0), at(30, 0))
    uri = shop.uri(shop.pipeline.tables["sales"])
    assert [tally.rows for tally in tables.tallies(uri, "sold_at", [bounds("date", day)])] == [1]


@pytest.mark.parametrize(
    ("how", "kind", "what"),
    [
        ({"freshness": "1 hour"}, "date", "has dates, but intervals of 1 hour are shorter than a day"),
        (
            {"cron": "0 6 * * *"},
            "date",
            "has dates, but intervals of 0 6 \\* \\* \\* are shorter than a day or do not begin at midnight",
        ),
        ({}, "string", "column sold_at of table sales is string, not a timestamp or a date"),
    ],
)
def test_a_column_that_cannot_select_intervals_is_refused(
    tmp_path: Path, how: dict[str, Any], kind: str, what: str
) -> None:
    shop = Shop(tmp_path, **how)
    value: Any = "yesterday" if kind == "string" else date(2026, 3, 29)
    shop.sell(("pen", value), kind=kind)
    with pytest.raises(CheckError, match=what):
        shop.survey()


def test_a_run_that_an_older_one_overtook_is_not_written_over_it(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.sell(("pen", at(28)))
    shop.run(at(28))
    [entry] = shop.log.entries()
    assert Entry.from_json(entry.as_json()) == entry
    shop.run(at(28))
    shop.log.keep(entry)
    [kept] = shop.log.entries()
    assert kept.version == entry.version + 1
    assert kept.interval.end - kept.interval.start == timedelta(days=1)


def test_a_new_column_that_is_null_in_the_rows_of_an_interval_does_not_make_it_late(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    prices = {"price": "decimal(8,2)", "weight": "integer", "size": "float"}
    shop.sell_with(prices, ("pen", at(28), Decimal("1.50"), 3, 0.1), ("ink", at(29), None, None, None))
    for day in (28, 29, 30):
        shop.run(at(day))
    more = {"price": "decimal(12,4)", "weight": "long", "size": "double", "note": "string"}
    shop.sell_with(more, ("cap", at(31), None, 1 << 40, 0.1, "new"))
    address = {"type": "struct", "fields": [_field("street", "string")]}
    shop.sell_with({**more, "to": address}, ("nib", at(31), None, 1, 0.1, "new", {"street": "x"}))
    address = {"type": "struct", "fields": [_field("street", "string"), _field("town", "string")]}
    shop.sell_with(
        {**more, "to": address}, ("box", at(31), None, 1, 0.1, "new", {"street": "x", "town": "y"})
    )
    assert list(shop.states().values()) == ["done", "done", "done", "open"]
    shop.sell_with({**more, "to": address}, ("nib", at(29), None, 1, 0.1, "late", None))
    assert list(shop.states().values()) == ["done", "late", "done", "open"]


def test_entries_of_before_digests_went_by_name_still_compare(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.sell(("pen", at(28)), ("cap", at(28)), ("ink", at(29)))
    for day in (28, 29):
        query = f"SELECT sum(hash(r))::VARCHAR FROM sales r WHERE sold_at::DATE = DATE '2026-03-{day}'"
        shop.run(at(day), digest=str(tables.sql(tmp_path.as_uri(), query).rows[0][0]))
    shop.run(at(30))
    assert list(shop.states().values()) == ["done", "done", "done", "open"]
    shop.sell(("nib", at(31)))
    assert list(shop.states().values()) == ["done", "done", "done", "open"]
    shop.sell_with({"note": "string"}, ("box", at(31), "new"))
    assert list(shop.states().values()) == ["done", "done", "done", "open"]
    shop.sell_with({"note": "string"}, ("box", at(29), "new"))
    assert list(shop.states().values()) == ["done", "late", "done", "open"]


def _field(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}
