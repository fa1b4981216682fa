"""Freshness decides the gear, and the calendar decides when a batch runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gearshift.errors import DefinitionError
from gearshift.freshness import Freshness, Gear

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = [UTC, BERLIN, *map(ZoneInfo, ("Asia/Kolkata", "America/Havana", "Africa/Cairo", "Pacific/Apia"))]

instants = st.datetimes(datetime(2015, 1, 1), datetime(2045, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
zones = st.sampled_from(ZONES)
calendars = st.builds(
    Freshness, st.integers(1, 30), st.sampled_from(["hour", "day", "week", "month", "year"])
)


def next_run(text: str, after: datetime, zone: ZoneInfo = BERLIN) -> str:
    return Freshness.parse(text).next_run(after.replace(tzinfo=after.tzinfo or zone), zone).isoformat()


@pytest.mark.parametrize(
    ("text", "gear"),
    [
        ("1 millisecond", Gear.REAL_TIME),
        ("9999 ms", Gear.REAL_TIME),
        ("9 seconds", Gear.REAL_TIME),
        ("10 s", Gear.NEAR_REAL_TIME),
        ("10000 ms", Gear.NEAR_REAL_TIME),
        ("59 minutes", Gear.NEAR_REAL_TIME),
        ("3599 seconds", Gear.NEAR_REAL_TIME),
        ("60 min", Gear.BATCH),
        ("1 hour", Gear.BATCH),
        ("day", Gear.BATCH),
        ("2 weeks", Gear.BATCH),
        ("1 year", Gear.BATCH),
    ],
)
def test_the_gear_changes_at_ten_seconds_and_at_an_hour(text: str, gear: Gear) -> None:
    assert Freshness.parse(text).gear is gear


@pytest.mark.parametrize(
    "text",
    ["", " ", "fast", "0 seconds", "-1 second", "1.5 hours", "1", "second 1", "1 s s", "9" * 99 + " s"],
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(DefinitionError, match="is not a duration") as caught:
        Freshness.parse(text)
    assert "'1 second'" in (caught.value.hint or "")


@pytest.mark.parametrize("text", ["101 years", "1000000000 days", "999999999999999 years"])
def test_a_promise_of_centuries_is_refused_where_it_is_written(text: str) -> None:
    with pytest.raises(DefinitionError, match="is too long"):
        Freshness.parse(text)


def test_an_unknown_gear_is_answered_with_the_gears() -> None:
    with pytest.raises(DefinitionError) as caught:
        Gear.named("turbo")
    assert caught.value.hint == "use batch, near-real-time, real-time"


@given(calendars, instants, zones)
def test_the_next_run_is_after_now_and_never_later_than_promised(
    promise: Freshness, now: datetime, zone: ZoneInfo
) -> None:
    run = promise.next_run(now, zone).astimezone(UTC)
    assert run > now
    # A long month, a leap year and a day of 25 hours are longer than their nominal length.
    slack = {"hour": 0, "day": 1, "week": 1, "month": 31, "year": 31}[promise.unit]
    assert run - now <= promise.duration + timedelta(
        hours=slack + promise.count * (promise.unit != "hour") * 24
    )


@given(calendars, instants, zones)
def test_runs_lie_on_one_grid_from_wherever_it_is_asked(
    promise: Freshness, now: datetime, zone: ZoneInfo
) -> None:
    run = promise.next_run(now, zone)
    just_before = run.astimezone(UTC) - timedelta(microseconds=1)
    assert promise.next_run(just_before, zone).astimezone(UTC) == run.astimezone(UTC)
    assert promise.next_run(run, zone).astimezone(UTC) > run.astimezone(UTC)


@given(st.sampled_from(["day", "week", "month", "year"]), st.integers(1, 12), instants)
def test_calendar_runs_start_at_midnight_in_the_apps_zone(unit: str, count: int, now: datetime) -> None:
    run = Freshness(count, unit).next_run(now, BERLIN)
    assert (run.hour, run.minute, run.second, run.microsecond) == (0, 0, 0, 0)
    assert unit != "week" or run.isoweekday() == 1
    assert unit not in ("month", "year") or run.day == 1
    assert unit != "year" or run.month == 1


@given(st.integers(1, 90), st.sampled_from(["second", "minute"]), instants)
def test_a_promise_without_a_calendar_word_runs_at_its_own_pace(count: int, unit: str, now: datetime) -> None:
    promise = Freshness(count, unit)
    assert promise.next_run(now, BERLIN) == now + promise.duration
    assert promise.trigger * 2 == promise.duration


def test_a_day_of_23_hours_in_berlin_has_23_hourly_runs_and_six_hours_end_at_midnight() -> None:
    # On 29 March 2026 the clock goes from 02:00 to 03:00.
    runs = _runs("1 hour", datetime(2026, 3, 29, tzinfo=BERLIN), datetime(2026, 3, 30, tzinfo=BERLIN))
    assert [run.hour for run in runs] == [1, *range(3, 24), 0]
    runs = _runs("6 hours", datetime(2026, 3, 29, tzinfo=BERLIN), datetime(2026, 3, 30, tzinfo=BERLIN))
    assert [run.hour for run in runs] == [7, 13, 19, 0]


def test_a_day_of_25_hours_in_berlin_has_25_hourly_runs_and_two_of_them_at_two() -> None:
    # On 25 October 2026 the clock goes from 03:00 back to 02:00.
    runs = _runs("1 hour", datetime(2026, 10, 25, tzinfo=BERLIN), datetime(2026, 10, 26, tzinfo=BERLIN))
    assert [run.hour for run in runs] == [1, 2, 2, *range(3, 24), 0]
    assert len({run.astimezone(UTC) for run in runs}) == 25


def test_a_daily_run_stays_at_local_midnight_when_the_clock_changes() -> None:
    assert next_run("1 day", datetime(2026, 3, 28, 12)) == "2026-03-29T00:00:00+01:00"  # noqa: DTZ001
    assert next_run("1 day", datetime(2026, 3, 29, 12)) == "2026-03-30T00:00:00+02:00"  # noqa: DTZ001
    assert next_run("1 day", datetime(2026, 10, 25, 12)) == "2026-10-26T00:00:00+01:00"  # noqa: DTZ001


def test_leap_days_mondays_and_year_ends() -> None:
    assert next_run("1 day", datetime(2028, 2, 28, 9, tzinfo=UTC)) == "2028-02-29T00:00:00+01:00"
    assert next_run("1 month", datetime(2028, 2, 29, 9, tzinfo=UTC)) == "2028-03-01T00:00:00+01:00"
    assert next_run("1 week", datetime(2026, 11, 15, 23, 30, tzinfo=UTC)) == "2026-11-23T00:00:00+01:00"
    assert next_run("1 week", datetime(2026, 11, 15, 22, 30, tzinfo=UTC)) == "2026-11-16T00:00:00+01:00"
    assert next_run("1 month", datetime(2026, 12, 31, 22, tzinfo=UTC)) == "2027-01-01T00:00:00+01:00"
    assert next_run("1 month", datetime(2026, 12, 31, 23, tzinfo=UTC)) == "2027-02-01T00:00:00+01:00"
    assert next_run("1 year", datetime(2026, 6, 1, tzinfo=UTC)) == "2027-01-01T00:00:00+01:00"
    assert next_run("1 day", datetime(2026, 12, 31, 12, tzinfo=UTC)) == "2027-01-01T00:00:00+01:00"


def _runs(text: str, start: datetime, end: datetime) -> list[datetime]:
    found = [Freshness.parse(text).next_run(start, BERLIN)]
    while found[-1].astimezone(UTC) < end.astimezone(UTC):
        found.append(Freshness.parse(text).next_run(found[-1], BERLIN))
    return found
