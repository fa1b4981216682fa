"""Runs one interval of a pipeline and atomically replaces its result."""

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
from gearshift.pipelines.context import Context
from gearshift.pipelines.failures import explain
from gearshift.pipelines.intervals.bounds import bounds, kind_of_time
from gearshift.pipelines.intervals.log import Entry, Failure, Input, IntervalLog
from gearshift.pipelines.query import apply
from gearshift.rules.intervals import INTERVAL_START
from gearshift.storage.folders import open_folder


def run_interval(
    context: Context,
    pipeline: Pipeline,
    interval: Interval,
    why: str,
    stopping: threading.Event | None = None,
) -> Entry:
    """Run an interval and record its result or its failure; an interrupted run has not failed.

    One commit of the table replaces the earlier result; the entry follows. After a crash in between, the table has the
    result without its entry, and the interval runs again.
    """
    began = datetime.now(UTC)
    log = IntervalLog(open_folder(context.folder_of(pipeline)))
    try:
        entry = _run(context, pipeline, interval, why)
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
    """The table as it is stored: partitioned by interval first, so that one interval can be replaced."""
    return replace(table, partition_by=(INTERVAL_START, *table.partition_by))


def labelled(frame: DataFrame, pipeline: Pipeline, interval: Interval) -> DataFrame:
    """The result with a column for the interval."""
    if INTERVAL_START in frame.columns:
        where = pipeline.defined_at
        raise CheckError(
            f"the transform returns a column {INTERVAL_START}, which Gearshift adds",
            hint="remove or rename it",
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


def _run(context: Context, pipeline: Pipeline, interval: Interval, why: str) -> Entry:
    intervals, target = pipeline.intervals, pipeline.target
    assert intervals is not None
    assert isinstance(target, Table)
    began, clock = datetime.now(UTC), monotonic()
    uri = context.table_uri(target)
    _require_same_calendar(context, pipeline, uri)
    frames: dict[str, DataFrame] = {}
    inputs: dict[str, Input] = {}
    for name, source in pipeline.sources.items():
        assert isinstance(source, Table)
        frames[name], inputs[name] = _read(context, pipeline, intervals, name, source, interval)
    result = labelled(apply(pipeline, frames, interval), pipeline, interval)
    commit = tables.replace_partitions(
        stored_as(target), uri, result, partitions=[{INTERVAL_START: interval.key}]
    )
    context.publisher.publish(target)
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
    context: Context, pipeline: Pipeline, intervals: Intervals, name: str, source: Table, interval: Interval
) -> tuple[DataFrame, Input]:
    uri = context.table_uri(source)
    snapshot = tables.read_paths(uri)
    frame: Any = tables.load(context.spark, uri, version=snapshot.version)
    column = intervals.event_time.get(name)
    if column is None:
        return frame, Input(table=source.name, version=snapshot.version, rows=snapshot.rows)
    kind = kind_of_time(pipeline, name, column, snapshot.fields)
    [tally] = tables.tallies(uri, column, [bounds(kind, interval)], version=snapshot.version)
    read = Input(table=source.name, version=snapshot.version, rows=tally.rows, digest=tally.digest)
    return cut(frame, column, kind, interval), read


def _require_same_calendar(context: Context, pipeline: Pipeline, uri: str) -> None:
    """Raise if the table has intervals of another calendar: they would overlap, and rows count twice."""
    if not tables.exists(uri):
        return
    zone = ZoneInfo(context.graph.timezone)
    found = {file.values.get(INTERVAL_START) for file in tables.read_paths(uri).files}
    starts = sorted((start for start in found if start), key=datetime.fromisoformat)
    others = [start for start in starts if not _begins_at(pipeline.calendar, start, zone)]
    # A day begins where an hour does: the entries of the first and the last interval have their ends.
    log = IntervalLog(open_folder(context.folder_of(pipeline)))
    for start in {*starts[:1], *starts[-1:]} - {*others}:
        interval = interval_at(pipeline.calendar, datetime.fromisoformat(start), zone)
        entry = log.of(interval)
        if entry is not None and entry.interval != interval:
            others.append(start)
    if others:
        where = pipeline.defined_at
        raise TableError(
            f"table {pipeline.target.name} has an interval from {others[0]} that does not belong to {pipeline.calendar} "
            f"in {context.graph.timezone}",
            hint="its calendar or time zone has changed: write to a new table and run the intervals again",
            pipeline=pipeline.name,
            file=where.file,
            line=where.line,
        )


@lru_cache(100_000)
def _begins_at(calendar: Calendar, start: str, zone: ZoneInfo) -> bool:
    return interval_at(calendar, datetime.fromisoformat(start), zone).key == start
