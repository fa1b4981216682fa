"""`gearshift batch`: intervals of one pipeline, run in a Spark of their own. Kafka is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from zoneinfo import ZoneInfo

from gearshift.app import App
from gearshift.calendars import Interval, interval_at, intervals_between
from gearshift.connection import Connection
from gearshift.definitions import Graph, Pipeline
from gearshift.errors import DefinitionError
from gearshift.pipelines.engine import Engine
from gearshift.pipelines.interval_log import Entry
from gearshift.pipelines.interval_runs import run_interval
from gearshift.pipelines.session import open_session
from gearshift.settings import Settings
from gearshift.stack.artifacts import jars
from gearshift.topics import Admin


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
    found = intervals_between(pipeline.calendar, begin, stop, zone)
    if not found:
        around = interval_at(pipeline.calendar, begin, zone)
        raise DefinitionError(
            f"no interval of {pipeline.name} begins from {begin.isoformat()} on and before {stop.isoformat()}",
            hint=f"the one around it is {around}",
            pipeline=pipeline.name,
        )
    return found


@contextmanager
def opened(app: App, settings: Settings) -> Iterator[Engine]:
    """What intervals run on; leaving it in the middle of one cancels it."""
    graph = app.graph
    log_file = settings.home.absolute() / "logs" / "batch.log"
    spark = open_session(graph, settings, jars("spark", cache=settings.cache), log_file=log_file)
    try:
        # Intervals are cut from tables and written to tables, so any address will do.
        connection = Connection.of(
            settings, bootstrap_servers="127.0.0.1:9", registry_url="http://127.0.0.1:9"
        )
        yield Engine(
            spark=spark, connection=connection, settings=settings, graph=graph, admin=Admin(connection)
        )
    finally:
        spark.sparkContext.cancelAllJobs()
        spark.stop()


def run_all(engine: Engine, pipeline: Pipeline, intervals: list[Interval], why: str) -> Iterator[Entry]:
    """Run intervals, the oldest first, each when the one before is done."""
    for interval in intervals:
        yield run_interval(engine, pipeline, interval, why)
