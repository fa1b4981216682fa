"""The bounds of an interval in a table's time column."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from gearshift.calendars import Calendar, Interval
from gearshift.cron import Cron
from gearshift.definitions import Pipeline
from gearshift.errors import CheckError
from gearshift.freshness import Freshness
from gearshift.tables import Bound

_MIDNIGHT = frozenset({0})


def kind_of_time(pipeline: Pipeline, name: str, column: str, fields: Sequence[dict[str, Any]]) -> str:
    """Whether a source's column has timestamps or dates; raises if it cannot select an interval."""
    table = pipeline.sources[name].name
    kinds = {str(field["name"]): field["type"] for field in fields}
    kind = kinds.get(column)
    if kind is None:
        raise _refused(
            pipeline,
            f"table {table} has no column {column}, which event_time= names",
            f"it has {', '.join(kinds)}",
        )
    if kind not in ("timestamp", "date"):
        raise _refused(
            pipeline,
            f"column {column} of table {table} is {kind}, not a timestamp or a date",
            "cast it to timestamp where the table is written",
        )
    if kind == "date" and not _begins_at_midnight(pipeline.calendar):
        raise _refused(
            pipeline,
            f"column {column} of table {table} has dates, but intervals of {pipeline.calendar} are shorter than a day or do not begin at midnight",
            "use freshness='1 day' or longer, or a timestamp column",
        )
    return kind


def bounds(kind: str, interval: Interval) -> tuple[Bound, Bound]:
    """The first value in the interval and the first one after it."""
    if kind == "date":
        return interval.start.date(), interval.end.date()
    return interval.start.astimezone(UTC), interval.end.astimezone(UTC)


def _begins_at_midnight(calendar: Calendar) -> bool:
    if isinstance(calendar, Cron):
        return calendar.hours == _MIDNIGHT and calendar.minutes == _MIDNIGHT
    return isinstance(calendar, Freshness) and calendar.unit in ("day", "week", "month", "year")


def _refused(pipeline: Pipeline, what: str, hint: str) -> CheckError:
    where = pipeline.defined_at
    return CheckError(what, hint=hint, pipeline=pipeline.name, file=where.file, line=where.line)
