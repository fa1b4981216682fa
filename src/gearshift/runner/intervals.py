"""The intervals that `gearshift batch` is asked for: which to run and how each is. No Spark."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from gearshift import tables
from gearshift.app import App
from gearshift.calendars import EARLIEST, LATEST, Interval, interval_at, intervals_between
from gearshift.definitions import Graph, Pipeline, Table
from gearshift.errors import DefinitionError
from gearshift.pipelines.checkpoint import open_folder
from gearshift.pipelines.interval_log import IntervalLog
from gearshift.pipelines.interval_states import Look, look
from gearshift.settings import Settings

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
            hint="name the column of event time: by='booked_at'",
            pipeline=name,
            file=where.file,
            line=where.line,
        )
    return pipeline


def intervals_to_run(graph: Graph, pipeline: Pipeline, start: datetime, end: datetime) -> list[Interval]:
    """The intervals that begin from one instant on and before another; times without an offset are the app's."""
    zone = ZoneInfo(graph.timezone)
    begin, stop = (moment if moment.tzinfo else moment.replace(tzinfo=zone) for moment in (start, end))
    if stop.timestamp() <= begin.timestamp():
        raise DefinitionError(f"--to {end.isoformat()} is not after --from {start.isoformat()}")
    if begin < EARLIEST or stop > LATEST:
        raise DefinitionError(f"no calendar goes from {begin.isoformat()} to {stop.isoformat()}")
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


def look_at(app: App, settings: Settings, pipeline: Pipeline, now: datetime) -> Look | None:
    """How each interval of a pipeline is, without Spark; None while a source does not exist."""
    folder = f"{settings.checkpoints_uri}/{app.name}/{pipeline.name}"

    def uri(table: Table) -> str:
        return f"{settings.warehouse_uri}/{table.name}"

    if not all(tables.exists(uri(source)) for source in pipeline.tables.values()):
        return None
    return look(pipeline, ZoneInfo(app.timezone), uri, IntervalLog(open_folder(folder)), now)
