"""Where an interval begins and ends in a table's own column of time."""

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
    """Whether a source's column holds instants or dates; raises if its rows cannot be cut by it."""
    table = pipeline.sources[name].name
    kinds = {str(field["name"]): field["type"] for field in fields}
    kind = kinds.get(column)
    if kind is None:
        raise _refused(
            pipeline, f"table {table} has no column {column} to cut by", f"it has {', '.join(kinds)}"
        )
    if kind not in ("timestamp", "date"):
        raise _refused(
            pipeline,
            f"column {column} of table {table} is {kind}, not an instant or a date",
            "cast it to timestamp where the table is written",
        )
    if kind == "date" and not _cuts_at_midnight(pipeline.calendar):
        raise _refused(
            pipeline,
            f"column {column} of table {table} has dates, and {pipeline.calendar} cuts days into pieces",
            "use freshness='1 day' or longer, or a column of timestamps",
        )
    return kind


def bounds(kind: str, interval: Interval) -> tuple[Bound, Bound]:
    """The first value that is in the interval and the first that is no more."""
    if kind == "date":
        return interval.start.date(), interval.end.date()
    return interval.start.astimezone(UTC), interval.end.astimezone(UTC)


def _cuts_at_midnight(calendar: Calendar) -> bool:
    if isinstance(calendar, Cron):
        return calendar.hours == _MIDNIGHT and calendar.minutes == _MIDNIGHT
    return isinstance(calendar, Freshness) and calendar.unit in ("day", "week", "month", "year")


def _refused(pipeline: Pipeline, what: str, hint: str) -> CheckError:
    where = pipeline.defined_at
    return CheckError(what, hint=hint, pipeline=pipeline.name, file=where.file, line=where.line)
