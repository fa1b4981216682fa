"""The maintenance of an app's tables: which are due, across restarts, and failures."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import gearshift as gs
from gearshift import tables
from gearshift.runner.maintenance import Maintenance
from gearshift.settings import Settings, load
from tests.arrow_frames import ArrowFrame

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def declared() -> gs.App:
    app = gs.App("upkeep")
    source, written = app.table("source"), app.table("written")

    @app.pipeline(source=source, to=written, freshness="1 day")
    def copy(source: Any) -> Any:
        return source

    return app


def filled(settings: Settings, name: str, batches: int = 4) -> str:
    uri = tables.table_uri(settings.warehouse_uri, name)
    for batch_id in range(batches):
        frame = ArrowFrame({"id": "long"}, [(batch_id,)])
        tables.append(gs.App("a").table(name), uri, frame, writer="w", batch_id=batch_id)
    return uri


def test_a_table_is_maintained_once_per_interval_also_after_a_restart(tmp_path: Path) -> None:
    settings = load({"home": tmp_path / "home", "maintenance": "6 hours"}, environ={})
    written, source = filled(settings, "written"), filled(settings, "source")
    turns = [
        Maintenance(declared().graph, settings).run_due(NOW + timedelta(hours=hours))
        for hours in (0, 5, 6, 7, 12)
    ]
    assert turns == [(), (), ("written",), (), ("written",)]
    assert len(tables.read_paths(written).files) == 1
    assert len(tables.read_paths(source).files) == 4  # the app only reads it


def test_a_table_that_cannot_be_maintained_is_logged_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = load({"home": tmp_path / "home"}, environ={})
    filled(settings, "written")
    upkeep = Maintenance(declared().graph, settings)
    upkeep.run_due(NOW)
    log = tmp_path / "home" / "warehouse" / "written" / "_delta_log"
    (log / f"{1:020}.json").write_text("no JSON", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert upkeep.run_due(NOW + timedelta(days=1)) == ("written",)
    assert "table written" in caplog.text
    (tmp_path / "home" / "maintenance.json").write_text("{", encoding="utf-8")
    assert upkeep.run_due(NOW + timedelta(days=2)) == ()


@pytest.mark.parametrize("every", ["none", "1 day"])
def test_it_starts_and_stops_with_the_runner(tmp_path: Path, every: str) -> None:
    settings = load({"home": tmp_path / "home", "maintenance": every}, environ={})
    with Maintenance(declared().graph, settings):
        pass
