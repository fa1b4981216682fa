"""Which gears the gearbox or a timetable may use, by what `gearshift check` found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import gearshift as gs
from gearshift.errors import GearRefusedError
from gearshift.freshness import Gear
from gearshift.pipelines.check.automatic import gears_of
from gearshift.pipelines.check.gears import Refusal, Report, Verdict

BATCH, NEAR, REAL = Gear.BATCH, Gear.NEAR_REAL_TIME, Gear.REAL_TIME


@dataclass
class Sale:
    item: str


def report(*works: Gear, **how: Any) -> Report:
    app = gs.App("shop")
    sold, to = app.topic("sold", value=Sale), app.topic("copied", value=Sale)

    def copied(sold: Any) -> Any:
        return sold

    app.pipeline(source=sold, to=to, **how)(copied)
    pipeline = app.graph.pipelines["copied"]
    no = Refusal(operator="Sort", what="a sort", rewrite="leave it out", at=pipeline.defined_at)
    verdicts = {gear: Verdict(gear=gear, refusals=() if gear in works else (no,)) for gear in Gear}
    return Report(pipeline=pipeline, verdicts=verdicts)


def test_auto_uses_what_the_check_allows() -> None:
    assert gears_of(report(*Gear, gear="auto", freshness="5 seconds")) == {NEAR, REAL}
    assert gears_of(report(BATCH, NEAR, gear="auto", freshness="5 seconds")) == {NEAR}
    assert gears_of(report(*Gear, gear="auto", freshness="1 day")) == {BATCH}


def test_auto_is_refused_where_only_real_time_could_keep_the_promise() -> None:
    with pytest.raises(GearRefusedError) as raised:
        gears_of(report(BATCH, NEAR, gear="auto", freshness="1 second"))
    assert raised.value.what == "real-time cannot run a sort (Sort)"
    assert raised.value.line


def test_auto_is_refused_where_nothing_streams() -> None:
    with pytest.raises(GearRefusedError):
        gears_of(report(BATCH, gear="auto", freshness="1 minute"))


def test_every_gear_of_a_timetable_must_work() -> None:
    office = {"mon-fri 09:00-17:30": "real-time", "otherwise": "near-real-time"}
    assert gears_of(report(*Gear, gears=office)) == {NEAR, REAL}
    with pytest.raises(GearRefusedError):
        gears_of(report(BATCH, NEAR, gears=office))
