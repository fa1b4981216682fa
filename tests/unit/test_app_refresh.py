"""The refresh of joined tables: defaults, declared values and errors."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

import gearshift as gs
from gearshift.errors import DefinitionError
from gearshift.spark.session import default_master


@dataclass
class Sale:
    item: str


def declare(*, join: bool = True, **how: Any) -> gs.Graph:
    app = gs.App("shop")
    sold = app.topic("sold", value=Sale, partitions=6)
    to = app.topic("priced", value=Sale)

    def priced(sold: Any, prices: Any) -> Any:
        return sold

    def copied(sold: Any) -> Any:
        return sold

    if join:
        app.pipeline(source={"sold": sold, "prices": app.table("prices")}, to=to, **how)(priced)
    else:
        app.pipeline(source=sold, to=to, **how)(copied)
    return app.graph


@pytest.mark.parametrize(
    ("freshness", "refresh", "expected"),
    [
        ("1 second", None, timedelta(minutes=1)),
        ("20 minutes", None, timedelta(minutes=20)),
        ("1 day", None, timedelta(hours=1)),
        ("1 second", "10 seconds", timedelta(seconds=10)),
        ("1 second", "1 day", timedelta(days=1)),
    ],
)
def test_refresh_is_as_declared_or_as_freshness_says(
    freshness: str, refresh: str | None, expected: timedelta
) -> None:
    graph = declare(freshness=freshness, refresh=refresh)
    assert graph.pipelines["priced"].refresh == expected


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"refresh": "9 seconds"}, "use 10 seconds or more"),
        ({"refresh": "soon"}, "is not a duration"),
        ({"refresh": "1 minute", "join": False}, "does not join a table to a topic"),
    ],
)
def test_a_refresh_that_means_nothing_is_refused(how: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError, match=words) as caught:
        declare(freshness="1 second", **how)
    assert caught.value.line


def test_a_stream_that_joins_a_table_has_slots_for_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = declare(freshness="1 second")
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert default_master(graph, {}) == "local[14]"
    assert default_master(graph, dict.fromkeys(graph.pipelines, 6)) == "local[22]"
    monkeypatch.setattr("os.cpu_count", lambda: 8)  # it can be scaled to that many while it runs
    assert default_master(graph, {}) == "local[26]"
