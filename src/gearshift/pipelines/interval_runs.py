"""Runs one interval of a pipeline: its rows in, its result in the place of what the interval had, at one instant."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from time import monotonic
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gearshift import tables
from gearshift.calendars import Calendar, Interval, interval_at
from gearshift.definitions import Intervals, Pipeline, Table
from gearshift.errors import CheckError, TableError
from gearshift.pipelines import engine as engines
from gearshift.pipelines.checkpoint import open_folder
from gearshift.pipelines.cutting import bounds, kind_of_time
from gearshift.pipelines.engine import Engine
from gearshift.pipelines.failures import explain
from gearshift.pipelines.interval_log import Entry, Failure, Input, IntervalLog
from gearshift.rules.intervals import INTERVAL_START


def run_interval(
    engine: Engine, pipeline: Pipeline, interval: Interval, why: str, stopping: threading.Event | None = None
) -> Entry:
    """Run an interval and write it down, or how it failed; what a stop interrupts has not failed.

    The result and the going of an earlier one are one commit of the table; the entry follows. Who is killed in
    between has the result without its entry, and running the interval again gives both.
    """
    began = datetime.now(UTC)
    log = IntervalLog(open_folder(engine.folder_of(pipeline)))
    try:
        entry = _run(engine, pipeline, interval, why)
    except Exception as error:
        failure = explain(error, pipeline)
        if stopping is None or not stopping.is_set():
            log.keep_failure(
                Failure(pipeline=pipeline.name, interval=interval, began=began, why=why, error=str(failure))
            )
        if failure is error:
            raise
        raise failure from error
    log.keep(entry)
    return entry


def stored_as(table: Table) -> Table:
    """The table as it is laid out: by interval first, so that one interval can be replaced."""
    return replace(table, partition_by=(INTERVAL_START, *table.partition_by))


def labelled(frame: DataFrame, pipeline: Pipeline, interval: Interval) -> DataFrame:
    """The result with the column that says which interval its rows are of."""
    if INTERVAL_START in frame.columns:
        where = pipeline.defined_at
        raise CheckError(
            f"the transform returns a column {INTERVAL_START}, which Gearshift adds",
            hint="leave it out, or give it another name",
            pipeline=pipeline.name,
            file=where.file,
            line=where.line,
        )
    return frame.withColumn(INTERVAL_START, F.lit(interval.key))


def cut(frame: DataFrame, column: str, kind: str, interval: Interval) -> DataFrame:
    """The rows of an interval."""
    low, high = bounds(kind, interval)
    time = F.col("`" + column.replace("`", "``") + "`")
    return frame.where((time >= F.lit(low)) & (time < F.lit(high)))


def _run(engine: Engine, pipeline: Pipeline, interval: Interval, why: str) -> Entry:
    intervals, target = pipeline.intervals, pipeline.target
    assert intervals is not None
    assert isinstance(target, Table)
    began, clock = datetime.now(UTC), monotonic()
    uri = engine.table_uri(target)
    _require_same_calendar(engine, pipeline, uri)
    frames: dict[str, DataFrame] = {}
    inputs: dict[str, Input] = {}
    for name, source in pipeline.sources.items():
        assert isinstance(source, Table)
        frames[name], inputs[name] = _read(engine, pipeline, intervals, name, source, interval)
    result = labelled(engines.apply(pipeline, frames, interval), pipeline, interval)
    commit = tables.replace_partitions(
        stored_as(target), uri, result, partitions=[{INTERVAL_START: interval.key}]
    )
    engine.publisher.publish(target)
    return Entry(
        pipeline=pipeline.name,
        interval=interval,
        rows=commit.rows,
        inputs=inputs,
        began=began,
        seconds=monotonic() - clock,
        version=commit.version,
        why=why,
    )


def _read(
    engine: Engine, pipeline: Pipeline, intervals: Intervals, name: str, source: Table, interval: Interval
) -> tuple[DataFrame, Input]:
    uri = engine.table_uri(source)
    snapshot = tables.read_paths(uri)
    frame: Any = tables.load(engine.spark, uri, version=snapshot.version)
    column = intervals.by.get(name)
    if column is None:
        return frame, Input(table=source.name, version=snapshot.version, rows=snapshot.rows)
    kind = kind_of_time(pipeline, name, column, snapshot.fields)
    [tally] = tables.tallies(uri, column, [bounds(kind, interval)], version=snapshot.version)
    read = Input(table=source.name, version=snapshot.version, rows=tally.rows, digest=tally.digest)
    return cut(frame, column, kind, interval), read


def _require_same_calendar(engine: Engine, pipeline: Pipeline, uri: str) -> None:
    """Refuse a table whose intervals are another calendar's: they would overlap with ours, and rows count twice."""
    if not tables.exists(uri):
        return
    zone = ZoneInfo(engine.graph.timezone)
    found = {file.values.get(INTERVAL_START) for file in tables.read_paths(uri).files}
    starts = sorted((start for start in found if start), key=datetime.fromisoformat)
    others = [start for start in starts if not _begins_at(pipeline.calendar, start, zone)]
    # Days begin where hours begin too: of the first and the last, the entries say where they end.
    log = IntervalLog(open_folder(engine.folder_of(pipeline)))
    for start in {*starts[:1], *starts[-1:]} - {*others}:
        interval = interval_at(pipeline.calendar, datetime.fromisoformat(start), zone)
        entry = log.of(interval)
        if entry is not None and entry.interval != interval:
            others.append(start)
    if others:
        where = pipeline.defined_at
        raise TableError(
            f"table {pipeline.target.name} has an interval from {others[0]} that is none of {pipeline.calendar} "
            f"in {engine.graph.timezone}",
            hint="its calendar or time zone was another one: give the new one a new table and run it again",
            pipeline=pipeline.name,
            file=where.file,
            line=where.line,
        )


@lru_cache(100_000)
def _begins_at(calendar: Calendar, start: str, zone: ZoneInfo) -> bool:
    return interval_at(calendar, datetime.fromisoformat(start), zone).key == start
