"""The provider's copy of Gearshift's calendars agrees with the original."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from airflow_provider_gearshift import calendars
from gearshift.calendars import Calendar, interval_at
from gearshift.cron import Cron
from gearshift.freshness import Freshness

CALENDARS = [
    "1 hour", "5 hours", "6 hours", "90 minutes", "1 day", "3 days", "1 week", "2 weeks", "1 month", "5 months", "1 year",
    "30 2 * * *", "0 */3 * * *", "15 * * * *", "0 6 1-7 * mon", "0 12 28-31 feb *", "10-50/20 1-3 * mar,oct sun",
]  # fmt: skip
ZONES = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago"]


@pytest.mark.parametrize("text", CALENDARS)
def test_airflow_and_gearshift_cut_time_alike(text: str) -> None:
    declared: Calendar = Cron.parse(text) if text.count(" ") == 4 else Freshness.parse(text)
    theirs = calendars.parse(str(declared))
    # All over a leap year, and every hour of the days on which clocks change.
    moments = [datetime(2028, 1, 1, tzinfo=UTC) + n * timedelta(hours=149, minutes=13) for n in range(60)]
    for month, day in ((3, 12), (3, 26), (4, 2), (9, 3), (10, 1), (10, 29), (11, 5)):
        moments += [datetime(2028, month, day, tzinfo=UTC) + n * timedelta(hours=1) for n in range(24)]
    for zone in map(ZoneInfo, ZONES):
        for moment in moments:
            ours = interval_at(declared, moment, zone)
            start = theirs.last_run(moment, zone)
            assert (start, theirs.next_run(start, zone)) == (ours.start, ours.end), (text, zone, moment)
