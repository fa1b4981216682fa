"""The food-delivery example: every final number equals the one computed by the shop's database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gearshift import stack as local
from gearshift.pipelines.intervals.log import IntervalLog
from gearshift.settings import load
from gearshift.storage.folders import open_folder
from tests import stories


def test_every_number_is_the_one_that_the_database_computes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = stories.load("food_delivery", "demo")
    truth = demo.truth
    with demo.running(load({"home": tmp_path / "food"}, environ={})) as (runner, dsn, kitchens):
        demo.chapters(runner, dsn, kitchens, orders=250, factor=20_000)
        found = {what: truth.found(what, kitchens.ask, runner.settings.warehouse_uri) for what in truth.TRUTH}
        for what, rows in found.items():
            assert rows == truth.must_be(dsn, what), what
        # The seed makes a business in which each of them has something to say.
        assert {what: len(rows) > 2 for what, rows in found.items()} == dict.fromkeys(found, True)
        with demo.simulator.psycopg.connect(dsn) as database:
            [(withdrawn,)] = database.execute("SELECT max(id) - count(*) FROM orders").fetchall()
        assert withdrawn > 2
        status = runner.status()
        assert not [one["error"] for one in (*status["pipelines"], *status["deliveries"]) if one["error"]]
        settings = runner.settings
        # Each day is one interval.
        for name, what in (("sum_revenue", "revenue"), ("rank_dishes", "best sellers")):
            entries = IntervalLog(
                open_folder(runner.context.folder_of(runner.graph.pipelines[name]))
            ).entries()
            assert [entry.interval.end - entry.interval.start for entry in entries] == [timedelta(days=1)] * 2
            assert sum(entry.rows for entry in entries) == len(found[what])
    output = capsys.readouterr().out
    assert "█" in output
    assert output.count("rows are the same") == len(truth.TRUTH)
    assert local.find(settings) is None


def test_a_seed_makes_the_same_business() -> None:
    simulator = stories.load("food_delivery", "simulator")
    today = datetime(2026, 7, 4, tzinfo=UTC)
    assert simulator.business(50, today=today) == simulator.business(50, today=today)
    assert simulator.business(50, today=today) != simulator.business(50, seed=8, today=today)
