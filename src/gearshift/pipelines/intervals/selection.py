"""The intervals that `gearshift batch` is asked for: which to run and how each is. No Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from gearshift import tables
from gearshift.app import App
from gearshift.calendars import EARLIEST, LATEST, Interval, interval_at, intervals_between
from gearshift.definitions import Graph, Pipeline, Table
from gearshift.errors import DefinitionError
from gearshift.pipelines.intervals.log import IntervalLog
from gearshift.pipelines.intervals.states import Status, Survey, survey
from gearshift.settings import Settings
from gearshift.storage.folders import open_folder

_MOST = 100_000


def pipeline_of_intervals(graph: Graph, name: str) -> Pipeline:
    """The pipeline of that name, if it runs by intervals."""
    known = [each.name for each in graph.pipelines.values() if each.intervals is not None]
    pipeline = graph.pipelines.get(name)
    if pipeline is None:
        raise DefinitionError(
            f"no pipeline {name!r}",
            hint=f"those with intervals are {', '.join(known) or 'none'}",
            app=graph.app,
        )
    if pipeline.intervals is None:
        where = pipeline.defined_at
        raise DefinitionError(
            f"pipeline {name} has no intervals: each of its runs reads everything",
            hint="declare the column with the event time: event_time='booked_at'",
            pipeline=name,
            file=where.file,
            line=where.line,
        )
    return pipeline


def intervals_to_run(graph: Graph, pipeline: Pipeline, start: datetime, end: datetime) -> list[Interval]:
    """The intervals that begin in a range of time; times without an offset are in the app's time zone."""
    zone = ZoneInfo(graph.timezone)
    begin, stop = (moment if moment.tzinfo else moment.replace(tzinfo=zone) for moment in (start, end))
    if stop.timestamp() <= begin.timestamp():
        raise DefinitionError(f"--to {end.isoformat()} is not after --from {start.isoformat()}")
    if begin < EARLIEST or stop > LATEST:
        raise DefinitionError(f"{begin.isoformat()} to {stop.isoformat()} is outside of every calendar")
    found = intervals_between(pipeline.calendar, begin, stop, zone, most=_MOST + 1)
    if len(found) > _MOST:
        raise DefinitionError(
            f"more than {_MOST:,} intervals of {pipeline.name} begin between {begin.isoformat()} and {stop.isoformat()}",
            hint=f"the first {_MOST:,} are before {found[-1].start.isoformat()}",
        )
    if not found:
        around = interval_at(pipeline.calendar, begin, zone)
        raise DefinitionError(
            f"no interval of {pipeline.name} begins from {begin.isoformat()} on and before {stop.isoformat()}",
            hint=f"the one around it is {around}",
            pipeline=pipeline.name,
        )
    return found


def interval_from(graph: Graph, name: str, start: datetime, now: datetime) -> Interval:
    """The pipeline's interval that begins at a time, up to the open one; without an offset, in the app's time zone."""
    pipeline = pipeline_of_intervals(graph, name)
    zone = ZoneInfo(graph.timezone)
    begin = start if start.tzinfo else start.replace(tzinfo=zone)
    if not EARLIEST <= begin <= LATEST:
        raise DefinitionError(f"{start.isoformat()} is outside of every calendar", pipeline=name)
    begin = begin.astimezone(UTC)
    found = interval_at(pipeline.calendar, begin, zone)
    if found.start != begin:
        raise DefinitionError(
            f"no interval of {name} begins at {start.isoformat()}",
            hint=f"the one around it is {found}",
            pipeline=name,
        )
    if found.start > now:
        raise DefinitionError(
            f"the interval {found} has not begun", hint="choose an earlier one", pipeline=name
        )
    return found


def survey_intervals(app: App, settings: Settings, pipeline: Pipeline, now: datetime) -> Survey | None:
    """The state of each interval of a pipeline, without Spark; None if a source does not exist."""
    folder = f"{settings.checkpoints_uri}/{app.name}/{pipeline.name}"

    def uri(table: Table) -> str:
        return f"{settings.warehouse_uri}/{table.name}"

    if not all(tables.exists(uri(source)) for source in pipeline.tables.values()):
        return None
    return survey(pipeline, ZoneInfo(app.timezone), uri, IntervalLog(open_folder(folder)), now)


def describe_interval(pipeline: str, status: Status) -> dict[str, Any]:
    """The state of an interval and its latest run, as plain data."""
    names = ("rows", "inputs", "began", "seconds", "version", "why")
    ran = status.entry.as_json() if status.entry is not None else dict.fromkeys(names)
    return {
        "pipeline": pipeline,
        "start": status.interval.start.isoformat(),
        "end": status.interval.end.isoformat(),
        "state": str(status.state),
        "late_rows": status.late_rows,
        "error": status.failure.error if status.failure is not None else None,
        "tries": status.failure.tries if status.failure is not None else 0,
        **{name: ran[name] for name in names},
    }
