"""A timetable from Gearshift's calendars."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pendulum
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable

from airflow_provider_gearshift.calendars import parse

_INSTANT = timedelta(microseconds=1)


class GearshiftTimetable(Timetable):
    """Schedules a run at the end of every interval of any of the calendars, in the app's time zone.

    The data interval of a run is the time since the previous run. With one calendar it is the calendar's interval, also
    across clock changes; with several, each task checks whether one of its own intervals has just ended. A run
    starts `grace` seconds after the end of its interval.
    """

    def __init__(self, calendars: Sequence[str], timezone: str = "UTC", grace: float = 0) -> None:
        self.calendars = sorted(set(calendars))
        self.timezone = timezone
        self.grace = grace
        self.description = f"{', '.join(self.calendars)} in {timezone}"
        self._parsed = [parse(calendar) for calendar in self.calendars]
        self._zone = ZoneInfo(timezone)

    @property
    def summary(self) -> str:
        """The text in the list of DAGs."""
        return ", ".join(self.calendars)

    def serialize(self) -> dict[str, Any]:
        """Serialize for the database."""
        return {"calendars": self.calendars, "timezone": self.timezone, "grace": self.grace}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Timetable:
        """Deserialize from the database."""
        return cls(data["calendars"], data["timezone"], data["grace"])

    def infer_manual_data_interval(self, *, run_after: pendulum.DateTime) -> DataInterval:
        """The last interval that had ended by then."""
        end = self._last(run_after)
        return DataInterval(start=self._last(end - _INSTANT), end=end)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """The interval after the last one; without catch-up, the latest that has ended or a later one."""
        start = last_automated_data_interval.end if last_automated_data_interval else None
        if restriction.earliest is not None:
            earliest = self._next(restriction.earliest - _INSTANT)
            start = max(start, earliest) if start else earliest
        if not restriction.catchup:
            latest = self._last(self._last(datetime.now(UTC) - self._wait) - _INSTANT)
            start = max(start, latest) if start else latest
        if start is None:
            return None
        if restriction.latest is not None and start > restriction.latest:
            return None
        # Also right if the calendars have changed and the last run ended within an interval.
        end = self._next(start)
        return DagRunInfo(run_after=end + self._wait, data_interval=DataInterval(start, end))

    @property
    def _wait(self) -> timedelta:
        return timedelta(seconds=self.grace)

    def _next(self, after: datetime) -> pendulum.DateTime:
        return min(_instant(each.next_run(_utc(after), self._zone)) for each in self._parsed)

    def _last(self, at: datetime) -> pendulum.DateTime:
        return max(_instant(each.last_run(_utc(at), self._zone)) for each in self._parsed)


def _utc(moment: datetime) -> datetime:
    """A plain datetime, since pendulum subtracts and compares differently."""
    return datetime.fromtimestamp(0, UTC) + (moment - datetime.fromtimestamp(0, UTC))


def _instant(moment: datetime) -> pendulum.DateTime:
    return pendulum.instance(moment.astimezone(UTC), tz="UTC")
