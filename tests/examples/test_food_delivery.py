"""The food-delivery story: every number it ends with, beside the one that the app's own database computes."""

from __future__ import annotations

import importlib.util
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest

from gearshift import stack as local
from gearshift.pipelines.checkpoint import open_folder
from gearshift.pipelines.interval_log import IntervalLog
from gearshift.settings import load

STORY = Path(__file__).parents[2] / "examples" / "food_delivery"


def the_demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("food_delivery_demo", STORY / "demo.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_number_is_the_one_that_the_database_computes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = the_demo()
    truth = demo.truth
    with demo.running(load({"home": tmp_path / "food"}, environ={})) as (runner, dsn, kitchens):
        demo.tell_of(runner, dsn, kitchens, orders=250, factor=20_000)
        found = {what: truth.found(what, kitchens.ask, runner.settings.warehouse_uri) for what in truth.TRUTH}
        for what, rows in found.items():
            assert rows == truth.must_be(dsn, what), what
        # The seed makes a business in which each of them has something to say.
        assert {what: len(rows) > 2 for what, rows in found.items()} == dict.fromkeys(found, True)
        with demo.shop.psycopg.connect(dsn) as database:
            [(withdrawn,)] = database.execute("SELECT max(id) - count(*) FROM orders").fetchall()
        assert withdrawn > 2
        status = runner.status()
        assert not [one["error"] for one in (*status["pipelines"], *status["deliveries"]) if one["error"]]
        settings = runner.settings
        # Each day is an interval of its own.
        for name, what in (("sum_revenue", "revenue"), ("rank_dishes", "best sellers")):
            entries = IntervalLog(
                open_folder(runner.engine.folder_of(runner.graph.pipelines[name]))
            ).entries()
            assert [entry.interval.end - entry.interval.start for entry in entries] == [timedelta(days=1)] * 2
            assert sum(entry.rows for entry in entries) == len(found[what])
    said = capsys.readouterr().out
    assert "█" in said
    assert said.count("rows are the same") == len(truth.TRUTH)
    assert local.find(settings) is None
