"""How many shuffle partitions a pipeline has: the checkpoint's, or at first the declared ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gearshift as gs
from gearshift.definitions import Graph
from gearshift.errors import DefinitionError, SettingsError
from gearshift.pipelines.parallelism import difference, largest
from gearshift.settings import Settings, load
from tests.flow import Event
from tests.spark_logs import SparkLogs


def graph(parallelism: int | None = None) -> Graph:
    app = gs.App("app")
    events = app.topic("events", value=Event, key="key")

    @app.pipeline(events, to=app.topic("copies", value=Event), freshness="1 second", parallelism=parallelism)
    def count(events: Any) -> Any:
        return events

    @app.pipeline(app.table("kept"), to=app.table("totals"), freshness="1 day")
    def total(kept: Any) -> Any:
        return kept

    return app.graph


def settings_in(folder: Path, **given: Any) -> Settings:
    return load({"home": folder, **given}, environ={})


def test_slots_are_counted_for_the_larger_of_the_declared_and_the_stored_number(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    assert largest(graph(), settings) == {"count": 2, "total": 2}
    assert largest(graph(4), settings) == {"count": 4, "total": 2}
    logs = SparkLogs(tmp_path / "checkpoints" / "app" / "count" / "spark")
    logs.plan(0, {"events": {0: 5}}, partitions=6)
    logs.commit(0)
    assert largest(graph(4), settings)["count"] == 6
    assert largest(graph(8), settings)["count"] == 8


def test_a_pipeline_that_declares_none_takes_sparks_setting(tmp_path: Path) -> None:
    name = "spark.sql.shuffle.partitions"
    assert largest(graph(), settings_in(tmp_path, spark={name: "16"}))["count"] == 16
    for wrong in ("0", "many", "-3"):
        with pytest.raises(SettingsError, match=rf"{name} cannot be {wrong}"):
            largest(graph(), settings_in(tmp_path, spark={name: wrong}))


def test_another_number_than_the_declared_one_is_reported_with_the_command() -> None:
    assert difference(graph().pipelines["count"], 8) is None
    assert difference(graph(8).pipelines["count"], 8) is None
    assert difference(graph(8).pipelines["count"], 2) == (
        "declared parallelism=8, the checkpoint has 2: run gearshift scale count 8"
    )


def test_a_batch_over_tables_has_no_parallelism_of_its_own() -> None:
    app = gs.App("app")

    def declare() -> None:
        @app.pipeline(app.table("kept"), to=app.table("totals"), freshness="1 day", parallelism=8)
        def total(kept: Any) -> Any:
            return kept

    with pytest.raises(
        DefinitionError, match="pipeline total has parallelism=8, but reads no topic"
    ) as refused:
        declare()
    assert refused.value.line and "[spark]" in (refused.value.hint or "")
