"""What a test may give to a pipeline, and how runs are kept apart."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import gearshift as gs
from gearshift.errors import DefinitionError, EncodeError
from gearshift.freshness import Gear
from gearshift.testing import Clock
from gearshift.testing.arrival import Arrival
from gearshift.testing.inputs import inputs_of
from gearshift.testing.namespace import delivery_named, isolated, pipeline_named

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@dataclass
class Ping:
    name: str
    at: datetime


app = gs.App("pings")
pings = app.topic("pings", value=Ping, key="name", partitions=6, max_lag=10)
late_pings = app.topic("late-pings", value=Ping, key="name", partitions=6, external=True)
known = app.table("known", publish="hive")


@app.pipeline({"pings": pings, "known": known}, to=late_pings, freshness="1 minute")
def find_late(pings: Any, known: Any) -> Any:
    return pings


@app.delivery(pings)
def show(ping: gs.Record[Ping]) -> None:
    print(ping)


def test_bytes_are_sent_as_they_are_unless_they_need_a_time() -> None:
    pipeline = pipeline_named(app, find_late)
    given = {"pings": [b"garbage", Ping("a", NOON)], "known": []}
    assert inputs_of(pipeline, given, Arrival()).topics["pings"] == given["pings"]
    with pytest.raises(DefinitionError, match="bytes have no event time"):
        inputs_of(pipeline, given, Arrival(disorder=timedelta(hours=1)))


def test_a_table_that_is_read_whole_keeps_its_order() -> None:
    pipeline = pipeline_named(app, find_late)
    rows = [{"name": f"n{n}"} for n in range(50)]
    arrival = Arrival(late=0.5, repeated=0.5, disorder=timedelta(hours=1))
    assert inputs_of(pipeline, {"pings": [], "known": rows}, arrival).tables["known"] == rows


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"pings": []}, DefinitionError, "no values for the table known"),
        ({"pings": [], "known": [], "unknown": []}, DefinitionError, "does not read 'unknown'"),
        ({"pings": Ping("a", NOON), "known": []}, DefinitionError, "not a list"),
        ({"pings": [Ping("a", NOON), "b"], "known": []}, EncodeError, "value 1 of pings"),
        ({"pings": [Ping("a", datetime(2026, 1, 1))], "known": []}, EncodeError, "at"),  # noqa: DTZ001
    ],
)
def test_wrong_inputs_are_refused(values: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        inputs_of(pipeline_named(app, find_late), values, Arrival())


def test_names_are_suggested() -> None:
    assert pipeline_named(app, "find_late") is pipeline_named(app, find_late)
    assert delivery_named(app, "show") is delivery_named(app, show)
    with pytest.raises(DefinitionError, match="did you mean 'find_late'"):
        pipeline_named(app, "find_lat")
    with pytest.raises(DefinitionError, match=r"unknown delivery 'send'.*use one of show"):
        delivery_named(app, "send")
    with pytest.raises(DefinitionError, match="unknown pipeline"):
        pipeline_named(app, show)


def test_runs_do_not_meet() -> None:
    graph = isolated(app.graph, pipeline_named(app, find_late), Gear.REAL_TIME, "t1")
    [pipeline] = graph.pipelines.values()
    source, target = pipeline.sources["pings"], pipeline.target
    assert isinstance(source, gs.Topic)
    assert isinstance(target, gs.Topic)
    assert (source.name, source.partitions, source.max_lag) == ("t1-real-time.pings", 6, None)
    assert (target.name, target.partitions, target.external) == ("t1-real-time.late-pings", 1, False)
    assert pipeline.gear is Gear.REAL_TIME
    assert graph.app == "t1-real-time.pings"
    assert graph.tables["known"].publish is None


def test_a_clock_that_was_not_set_cannot_be_moved() -> None:
    clock = Clock()
    assert clock.time is None
    with pytest.raises(DefinitionError, match="was not set"):
        clock.advance(timedelta(hours=1))
    with pytest.raises(DefinitionError, match="no time zone"):
        clock.set(datetime(2026, 1, 1))  # noqa: DTZ001
