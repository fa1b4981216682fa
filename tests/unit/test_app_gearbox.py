"""`gear="auto"` and `gears=`: what may be declared, and what is refused at its line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import gearshift as gs
from gearshift.definitions import Pipeline
from gearshift.errors import DefinitionError
from gearshift.freshness import Gear

OFFICE = {"mon-fri 09:00-17:30": "real-time", "otherwise": "near-real-time"}


@dataclass
class Sale:
    item: str


def declare(**how: Any) -> Pipeline:
    app = gs.App("shop", timezone="Europe/Berlin")
    sold, to = app.topic("sold", value=Sale), app.topic("copied", value=Sale)

    def copied(sold: Any) -> Any:
        return sold

    app.pipeline(source=sold, to=to, **how)(copied)
    return app.graph.pipelines["copied"]


def test_auto_begins_in_the_gear_of_the_freshness() -> None:
    pipeline = declare(gear="auto", freshness="5 seconds")
    assert (pipeline.auto, pipeline.gear, pipeline.chosen_by) == (True, Gear.REAL_TIME, "auto")
    assert declare(gear="auto", freshness="1 minute").gear is Gear.NEAR_REAL_TIME
    assert declare(freshness="5 seconds").chosen_by is None


def test_a_timetable_has_the_gears_of_the_week() -> None:
    pipeline = declare(gears=OFFICE, freshness="5 seconds")
    assert pipeline.timetable is not None
    assert pipeline.timetable.gears == {Gear.REAL_TIME, Gear.NEAR_REAL_TIME}
    assert (pipeline.chosen_by, pipeline.gear) == ("timetable", Gear.NEAR_REAL_TIME)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"gear": "auto"}, "without a freshness"),
        ({"gear": "auto", "cron": "0 3 * * *"}, "gear='auto' and cron="),
        ({"gears": OFFICE, "gear": "auto"}, "both gears= and gear="),
        ({"gears": OFFICE, "cron": "0 3 * * *"}, "both gears= and cron="),
        ({"gears": "real-time"}, "gears='real-time'"),
        ({"gears": {"mon-fri": "real-time"}}, "no gear for mon 00:00|no gear for sat 00:00"),
        ({"gears": {"mon-tue": "batch", "tue": "real-time", "otherwise": "batch"}}, "both include tue 00:00"),
        ({"gears": {"otherwise": "turbo"}}, "unknown gear 'turbo'"),
    ],
)
def test_what_is_not_clear_is_refused_at_its_line(how: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        declare(**how)
    assert any(each in raised.value.what for each in words.split("|"))
    assert raised.value.file is not None
    assert raised.value.file.endswith("test_app_gearbox.py")
    assert raised.value.line
    assert raised.value.hint
