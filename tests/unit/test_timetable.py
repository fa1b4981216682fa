"""A timetable names one gear for every hour of the week, also where the clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.errors import DefinitionError
from gearshift.freshness import Gear
from gearshift.timetable import Timetable

BERLIN = ZoneInfo("Europe/Berlin")
OFFICE = Timetable.parse({"mon-fri 09:00-17:30": "real-time", "otherwise": "near-real-time"})


def gear(timetable: Timetable, text: str) -> str:
    return timetable.gear_at(datetime.fromisoformat(text).replace(tzinfo=BERLIN), BERLIN).value


def test_hours_begin_at_their_first_minute_and_end_before_their_last() -> None:
    assert gear(OFFICE, "2026-01-05T08:59:59") == "near-real-time"
    assert gear(OFFICE, "2026-01-05T09:00") == "real-time"
    assert gear(OFFICE, "2026-01-05T17:29:59") == "real-time"
    assert gear(OFFICE, "2026-01-05T17:30") == "near-real-time"
    assert gear(OFFICE, "2026-01-10T12:00") == "near-real-time"


def test_a_span_over_midnight_belongs_to_the_day_on_which_it_starts() -> None:
    nights = Timetable.parse({"fri 22:00-06:00": "batch", "otherwise": "real-time"})
    assert gear(nights, "2026-01-09T23:00") == gear(nights, "2026-01-10T05:59") == "batch"
    assert gear(nights, "2026-01-10T06:00") == gear(nights, "2026-01-09T05:00") == "real-time"


def test_days_alone_are_whole_days_and_hours_alone_are_every_day() -> None:
    timetable = Timetable.parse({"sat,sun": "batch", "mon-fri 00:00-24:00": "real-time"})
    assert gear(timetable, "2026-01-10T00:00") == gear(timetable, "2026-01-11T23:59") == "batch"
    assert gear(timetable, "2026-01-12T00:00") == "real-time"
    daily = Timetable.parse({"22:00-06:00": "batch", "otherwise": "real-time"})
    assert {gear(daily, f"2026-01-{day:02}T23:00") for day in range(5, 12)} == {"batch"}


def test_days_may_go_over_the_end_of_the_week() -> None:
    timetable = Timetable.parse({"sat-mon": "batch", "otherwise": "real-time"})
    assert [gear(timetable, f"2026-01-{day:02}T12:00") for day in range(9, 14)] == [
        "real-time",
        "batch",
        "batch",
        "batch",
        "real-time",
    ]


@pytest.mark.parametrize(
    ("gears", "what"),
    [
        ({"mon-fri 09:00-17:30": "real-time"}, "no gear for mon 00:00"),
        ({"mon-fri": "real-time", "fri-sun": "batch", "otherwise": "batch"}, "both include fri 00:00"),
        ({"mo-fr 09:00-17:30": "real-time", "otherwise": "batch"}, "invalid days 'mo-fr'"),
        ({"mon 9-17": "real-time", "otherwise": "batch"}, "invalid hours 'mon 9-17'"),
        ({"mon 25:00-26:00": "real-time", "otherwise": "batch"}, "invalid hours '25:00-26:00'"),
        ({"mon 09:00-09:00": "real-time", "otherwise": "batch"}, "invalid hours '09:00-09:00'"),
        ({"otherwise": "turbo"}, "unknown gear 'turbo'"),
        ({}, "no gear for mon 00:00"),
    ],
)
def test_a_timetable_that_is_not_clear_is_refused(gears: dict[str, str], what: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        Timetable.parse(gears)
    assert what in raised.value.what


def test_a_change_in_a_skipped_hour_happens_right_after_it() -> None:
    timetable = Timetable.parse({"sun 02:30-12:00": "batch", "otherwise": "real-time"})
    before = datetime(2026, 3, 29, 0, 59, tzinfo=UTC)  # 01:59 in Berlin; at 02:00 it becomes 03:00
    change = timetable.next_change(before, BERLIN)
    assert change is not None and change.astimezone(UTC) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert timetable.gear_at(change, BERLIN) is Gear.BATCH


def test_a_change_in_a_repeated_hour_happens_once() -> None:
    timetable = Timetable.parse({"sun 02:30-12:00": "batch", "otherwise": "real-time"})
    start = datetime(2026, 10, 24, 22, tzinfo=UTC)
    gears = [timetable.gear_at(start + timedelta(minutes=each), BERLIN) for each in range(12 * 60)]
    changes = [each for each, pair in enumerate(pairwise(gears)) if pair[0] is not pair[1]]
    assert len(changes) == 1
    assert (start + timedelta(minutes=changes[0] + 1)).astimezone(BERLIN).strftime("%H:%M %Z") == "02:30 CEST"


@given(
    st.integers(0, 2 * 365 * 24 * 3600).map(
        lambda each: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=each)
    ),
    st.sampled_from(["Europe/Berlin", "UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]),
)
def test_the_next_change_is_the_first_instant_with_another_gear(moment: datetime, zone_name: str) -> None:
    zone = ZoneInfo(zone_name)
    change = OFFICE.next_change(moment, zone)
    assert change is not None and change > moment
    now = OFFICE.gear_at(moment, zone)
    assert OFFICE.gear_at(change, zone) is not now
    assert OFFICE.gear_at(change - timedelta(seconds=1), zone) is now


def test_a_timetable_of_one_gear_never_changes() -> None:
    assert Timetable.parse({"otherwise": "batch"}).next_change(datetime(2026, 1, 1, tzinfo=UTC), UTC) is None
