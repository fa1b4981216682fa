"""Intervals tile time: every instant is in exactly one, also across clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gearshift.calendars import Calendar, Interval, interval_at, intervals_between, intervals_from
from gearshift.cron import Cron
from gearshift.freshness import Freshness

BERLIN = ZoneInfo("Europe/Berlin")
APIA = ZoneInfo("Pacific/Apia")  # where 30 December 2011 did not happen
ZONES = [UTC, BERLIN, APIA]
ZONES += map(ZoneInfo, ("Asia/Kolkata", "America/Havana", "Africa/Cairo", "Australia/Lord_Howe"))

instants = st.datetimes(datetime(2010, 1, 1), datetime(2045, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
zones = st.sampled_from(ZONES)
units = ["second", "minute", "hour", "day", "week", "month", "year"]
promises = st.builds(Freshness, st.integers(1, 30), st.sampled_from(units)).map(
    lambda each: Freshness(each.count * 3600, each.unit) if each.unit in ("second", "minute") else each
)
crons = st.sampled_from(
    [
        "0 * * * *",
        "*/20 * * * *",
        "30 2 * * *",
        "0,30 1-3 * * *",
        "15 */5 * * *",
        "0 0 1,15 * *",
        "45 23 * * 5",
        "0 6 13 * fri",
        "59 0 * 10 sun",
    ]
).map(Cron.parse)
calendars = st.one_of(promises, crons)


def day(*when: int) -> Interval:
    return interval_at(Freshness(1, "day"), datetime(*when, 12, tzinfo=BERLIN), BERLIN)  # pyright: ignore


@settings(max_examples=400)
@given(calendars, instants, zones)
@example(Freshness(1, "day"), datetime(2011, 12, 30, 9, 59, 59, tzinfo=UTC), APIA)
@example(Freshness(2, "day"), datetime(2011, 12, 30, 10, tzinfo=UTC), APIA)
@example(Cron.parse("0 12 30 12 *"), datetime(2011, 12, 30, 10, tzinfo=UTC), APIA)
@example(Cron.parse("30 2 * * *"), datetime(2026, 3, 29, 1, tzinfo=UTC), BERLIN)
def test_an_instant_is_in_the_interval_it_belongs_to_and_in_no_other(
    calendar: Calendar, moment: datetime, zone: ZoneInfo
) -> None:
    interval = interval_at(calendar, moment, zone)
    assert moment in interval
    first, second, third = islice(intervals_from(calendar, moment, zone), 3)
    assert first == interval
    assert first.start < first.end == second.start < second.end == third.start
    assert moment not in second
    last_moment = interval.end - timedelta(microseconds=1)
    for inside in (interval.start, last_moment):
        assert interval_at(calendar, inside, zone) == interval
    before = interval_at(calendar, interval.start - timedelta(microseconds=1), zone)
    assert before.end == interval.start
    assert before.key != interval.key


@given(calendars, instants, zones, st.integers(0, 90))
def test_the_intervals_between_two_instants_are_those_that_begin_there(
    calendar: Calendar, start: datetime, zone: ZoneInfo, days: int
) -> None:
    end = start + timedelta(days=days)
    found = intervals_between(calendar, start, end, zone)
    assert all(start <= interval.start < end for interval in found)
    assert all(one.end == other.start for one, other in pairwise(found))
    if found:
        assert interval_at(calendar, found[0].start - timedelta(microseconds=1), zone).start < start
        assert found[-1].end >= end
    assert (
        len({interval.name for interval in found}) == len({interval.key for interval in found}) == len(found)
    )


def test_days_of_23_24_and_25_hours_are_as_long_as_they_are() -> None:
    spring, usual, autumn = day(2026, 3, 29), day(2026, 3, 30), day(2026, 10, 25)
    assert [each.end - each.start for each in (spring, usual, autumn)] == [
        timedelta(hours=hours) for hours in (23, 24, 25)
    ]
    assert str(spring) == "2026-03-29T00:00:00+01:00 to 2026-03-30T00:00:00+02:00"


def test_the_hour_that_comes_twice_is_two_intervals_and_the_skipped_one_none() -> None:
    hours = intervals_between(Freshness(1, "hour"), day(2026, 10, 25).start, day(2026, 10, 25).end, BERLIN)
    assert [hour.key[11:] for hour in hours[1:4]] == ["01:00:00+02:00", "02:00:00+02:00", "02:00:00+01:00"]
    assert len(hours) == 25
    hours = intervals_between(Freshness(1, "hour"), day(2026, 3, 29).start, day(2026, 3, 29).end, BERLIN)
    assert [hour.key[11:] for hour in hours[:3]] == ["00:00:00+01:00", "01:00:00+01:00", "03:00:00+02:00"]
    assert len(hours) == 23


def test_a_leap_day_is_a_day_of_a_february_of_29() -> None:
    february = interval_at(Freshness(1, "month"), datetime(2028, 2, 29, 23, 30, tzinfo=BERLIN), BERLIN)
    assert february.key == "2028-02-01T00:00:00+01:00"
    assert (february.end - february.start).days == 29
    assert day(2028, 2, 29).key == "2028-02-29T00:00:00+01:00"
    assert day(2028, 2, 29).end.isoformat() == "2028-03-01T00:00:00+01:00"


@pytest.mark.parametrize(
    ("unit", "start"), [("week", "2025-12-29"), ("month", "2026-01-01"), ("year", "2026-01-01")]
)
def test_weeks_begin_on_monday_and_months_and_years_on_their_first(unit: str, start: str) -> None:
    interval = interval_at(Freshness(1, unit), datetime(2026, 1, 1, 5, tzinfo=BERLIN), BERLIN)
    assert interval.key == f"{start}T00:00:00+01:00"
