"""A survey looks only at what commits have touched, and finds what a look at every row would find; no Spark."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gearshift import tables
from gearshift.calendars import Interval
from gearshift.pipelines.intervals import states
from gearshift.pipelines.intervals.bounds import bounds
from gearshift.pipelines.intervals.log import Entry, Input
from gearshift.pipelines.intervals.states import State, Survey, survey
from gearshift.storage.location import local_path
from tests.arrow_frames import ArrowFrame, declared
from tests.unit.pipelines.test_interval_states import BERLIN, Shop, at

DAYS = st.integers(25, 29)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("sell"), st.lists(DAYS, min_size=1, max_size=3)),
        st.tuples(st.just("correct"), DAYS),
        st.tuples(st.just("remove"), DAYS),
        st.tuples(st.just("run"), DAYS),
        st.tuples(st.just("compact"), DAYS),
        st.tuples(st.just("add a column"), DAYS),
        st.tuples(st.just("drop and sell"), st.lists(DAYS, min_size=1, max_size=4)),
        st.tuples(st.just("survey"), DAYS),
    ),
    max_size=14,
)


def do(shop: Shop, step: str, what: Any) -> None:
    """One step of somebody's day."""
    sales = shop.uri(shop.pipeline.tables["sales"])
    if step == "sell":
        added = dict.fromkeys((tables.column_names(sales) or ())[2:], "string")
        rows = ((f"item {day}", at(day, 10 + day % 3), *(None for _ in added)) for day in what)
        shop.sell_with(added, *rows)
    elif step in ("correct", "remove"):
        added = dict.fromkeys((tables.column_names(sales) or ())[2:], "string")
        rows = [
            (
                "corrected" if row["sold_at"].day == what else row["item"],
                row["sold_at"],
                *(row[each] for each in added),
            )
            for row in tables.rows(sales)
            if step == "correct" or row["sold_at"].day != what
        ]
        types = {"item": "string", "sold_at": "timestamp", **added}
        tables.overwrite(declared("sales"), sales, ArrowFrame(types, rows))
    elif step == "run":
        shop.run(at(what), began=datetime.now(UTC))
    elif step == "compact":
        tables.compact(sales)
    elif step == "add a column":
        names = tables.column_names(sales)
        assert names is not None
        added = dict.fromkeys([*names[2:], f"column_{len(names)}"], "string")
        shop.sell_with(added, ("pen", at(what), *("north" for _ in added)))
    elif step == "drop and sell":
        shop.drop()
        for day in what:
            shop.sell(("other", at(day)))


def changed(shop: Shop) -> set[Interval]:
    """The intervals whose rows are others than when they ran, by a look at every row."""
    sales, found = shop.uri(shop.pipeline.tables["sales"]), set[Interval]()
    for entry in shop.log.entries():
        [tally] = tables.tallies(sales, "sold_at", [bounds("timestamp", entry.interval)])
        if (tally.rows, tally.digest) != (entry.inputs["sales"].rows, entry.inputs["sales"].digest):
            found.add(entry.interval)
    return found


@settings(max_examples=25)
@given(STEPS)
def test_what_commits_touched_is_what_changed(steps: Sequence[tuple[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        shop = Shop(Path(folder))
        shop.sell(("pen", at(25)), ("ink", at(27)))
        seen: Survey | None = None
        for step, what in [*steps, ("survey", 0)]:
            do(shop, step, what)
            if step == "survey":
                now = datetime.now(UTC)
                seen = survey(shop.pipeline, BERLIN, shop.uri, shop.log, now, seen)
                assert seen.changed == changed(shop)
                assert seen.statuses == survey(shop.pipeline, BERLIN, shop.uri, shop.log, now).statuses


def test_a_restored_table_is_looked_at_whole(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.sell(("pen", at(28)))
    sales = local_path(shop.uri(shop.pipeline.tables["sales"]))
    assert sales is not None
    shutil.copytree(sales, tmp_path / "backup")
    shop.sell(("ink", at(28)))
    shop.run(at(28), began=datetime.now(UTC) - timedelta(seconds=1))
    earlier = shop.survey(datetime.now(UTC))
    assert not earlier.changed
    shutil.rmtree(sales)
    shutil.copytree(tmp_path / "backup", sales)
    shop.sell(("other", at(28)))  # under the number of the commit that was lost
    shop.sell(("pad", at(27)))
    found = survey(shop.pipeline, BERLIN, shop.uri, shop.log, datetime.now(UTC), earlier)
    assert [status.interval.key[5:10] for status in found.of(State.LATE)] == ["03-28"]


def test_of_five_thousand_completed_hours_a_new_row_is_looked_for_in_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path, freshness="1 hour")
    first = datetime(2026, 1, 1, tzinfo=UTC)
    hours = [first + timedelta(hours=number) for number in range(5000)]
    shop.sell(*((f"item {number}", hour + timedelta(minutes=5)) for number, hour in enumerate(hours)))
    sales = shop.uri(shop.pipeline.tables["sales"])
    intervals = [
        Interval(hour.astimezone(BERLIN), (hour + timedelta(hours=1)).astimezone(BERLIN)) for hour in hours
    ]
    tallied = tables.tallies(sales, "sold_at", [bounds("timestamp", each) for each in intervals])
    target = declared("totals", "interval_start")
    result = ArrowFrame({"n": "long", "interval_start": "string"}, [(1, intervals[0].key)])
    commit = tables.replace_partitions(
        target,
        (tmp_path / "totals").as_uri(),
        result,
        partitions=[{"interval_start": intervals[0].key}],
    )
    for interval, tally in zip(intervals, tallied, strict=True):
        read = Input(table="sales", version=0, rows=tally.rows, digest=tally.digest)
        shop.log.keep(
            Entry(
                pipeline="totals",
                interval=interval,
                rows=1,
                inputs={"sales": read},
                began=datetime.now(UTC),
                seconds=1,
                version=commit.version,
                why="test",
            )
        )
    looked: list[int] = []
    tallies = tables.tallies

    def counted(uri: str, column: str, spans: Sequence[Any], **how: Any) -> list[tables.Tally]:
        looked.append(len(spans))
        return tallies(uri, column, spans, **how)

    monkeypatch.setattr(states.tables, "tallies", counted)
    shop.sell(("late", hours[1234] + timedelta(minutes=30)))
    now = datetime.now(UTC)
    cold = shop.survey(now)
    assert [status.interval for status in cold.of(State.LATE)] == [intervals[1234]]
    assert looked == [1]
    shop.sell(("another", hours[2345]))
    warm = survey(shop.pipeline, BERLIN, shop.uri, shop.log, now, cold)
    assert [status.interval for status in warm.of(State.LATE)] == [intervals[1234], intervals[2345]]
    assert looked == [1, 2]
