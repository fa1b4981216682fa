"""How each interval of a pipeline is: still open, due, failed, done, or done before late rows came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import pairwise

from gearshift import tables
from gearshift.calendars import Interval, interval_at, intervals_between
from gearshift.definitions import Intervals, Pipeline, Table
from gearshift.pipelines.cutting import bounds, kind_of_time
from gearshift.pipelines.interval_log import Entry, Failure, IntervalLog

_EMPTY_IN_A_ROW = 1000  # more intervals without a row than this are a row whose time is nonsense
_MINUTE = timedelta(minutes=1)


class State(StrEnum):
    """What there is to do for an interval."""

    OPEN = "open"
    """It is not over, or its grace is not."""
    DUE = "due"
    FAILED = "failed"
    """Its latest run failed, and it is to be run again."""
    DONE = "done"
    LATE = "late"
    """Rows came or changed since it was run, in time to run it again."""
    TOO_LATE = "too late"
    """Rows came or changed since it was run, after the time that `late` allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """One interval, its latest run, and how many rows more its sources have now."""

    interval: Interval
    state: State
    entry: Entry | None
    late_rows: int = 0
    failure: Failure | None = None
    """How the latest run failed, whatever the state; an earlier result stays in the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The sources of a pipeline at one moment."""

    statuses: tuple[Status, ...]
    versions: dict[str, int]
    """Of each source's table."""
    without_time: int
    """Rows with no event time, which are in no interval."""

    def of(self, *states: State) -> list[Status]:
        """The intervals in one of these states, oldest first."""
        return [status for status in self.statuses if status.state in states]


def look(
    pipeline: Pipeline,
    zone: tzinfo,
    table_uri: Callable[[Table], str],
    log: IntervalLog,
    now: datetime,
) -> Look:
    """Every interval from the first that has rows to the one that is open now."""
    intervals = pipeline.intervals
    assert intervals is not None
    versions = {
        name: tables.read_paths(table_uri(source)).version for name, source in pipeline.tables.items()
    }
    found: set[Interval] = set()
    without = 0
    kinds: dict[str, str] = {}
    for name, column in intervals.by.items():
        uri = table_uri(pipeline.tables[name])
        kinds[name] = kind_of_time(pipeline, name, column, tables.read_paths(uri).fields)
        times = tables.times(uri, column, version=versions[name])
        found |= set(_holding(pipeline, zone, times.minutes, is_date=kinds[name] == "date"))
        without += times.without
    done = {
        entry.interval: entry
        for entry in log.entries()
        if interval_at(pipeline.calendar, entry.interval.start, zone) == entry.interval
    }
    failed = {
        failure.interval: failure
        for failure in log.failures()
        if interval_at(pipeline.calendar, failure.interval.start, zone) == failure.interval
    }
    ours = {each for each in _filled(pipeline, zone, found, now) | set(failed) if intervals.has(each)}
    target = table_uri(_target(pipeline))
    newest = tables.read_paths(target).version if tables.exists(target) else -1
    changed = _changed(pipeline, table_uri, done, kinds, versions)
    statuses = [
        _status(
            intervals, interval, done.get(interval), failed.get(interval), newest, changed.get(interval), now
        )
        for interval in sorted(ours | set(done))
    ]
    return Look(statuses=tuple(statuses), versions=versions, without_time=without)


def _status(
    intervals: Intervals,
    interval: Interval,
    entry: Entry | None,
    failure: Failure | None,
    newest: int,
    late_rows: int | None,
    now: datetime,
) -> Status:
    if entry is not None and entry.version > newest:
        entry = None  # the table was dropped since, and the result with it
    if intervals.has(interval) and (entry is None or not entry.is_final):
        state = State.DUE if now >= interval.end + intervals.grace else State.OPEN
    elif late_rows is None:
        state = State.DONE
    else:
        in_time = intervals.late is None or now < interval.end + intervals.late
        state = State.LATE if intervals.has(interval) and in_time else State.TOO_LATE
    if failure is not None and state in (State.DUE, State.LATE):
        state = State.FAILED
    return Status(interval=interval, state=state, entry=entry, late_rows=late_rows or 0, failure=failure)


def _holding(
    pipeline: Pipeline, zone: tzinfo, minutes: Iterable[datetime], *, is_date: bool
) -> Iterator[Interval]:
    """The intervals in which there are rows, from the minutes that have some."""
    interval: Interval | None = None
    for minute in minutes:
        # A date stands for its day in the app's zone; it comes here as midnight in UTC.
        first = minute.replace(tzinfo=zone) if is_date else minute
        last = first if is_date else first + _MINUTE - timedelta(microseconds=1)
        for moment in (first, last):
            if interval is None or moment not in interval:
                interval = interval_at(pipeline.calendar, moment, zone)
                yield interval


def _filled(pipeline: Pipeline, zone: tzinfo, found: set[Interval], now: datetime) -> set[Interval]:
    """These intervals and the empty ones between them, up to now."""
    if not found:
        return found
    present = interval_at(pipeline.calendar, now, zone)
    filled = found | {present}
    # Between rows of the future there is nothing to run yet.
    for interval, following in pairwise(sorted(each for each in filled if each.start <= present.start)):
        between = intervals_between(
            pipeline.calendar, interval.end, following.start, zone, most=_EMPTY_IN_A_ROW + 1
        )
        if len(between) <= _EMPTY_IN_A_ROW:
            filled.update(between)
    return filled


def _changed(
    pipeline: Pipeline,
    table_uri: Callable[[Table], str],
    done: dict[Interval, Entry],
    kinds: dict[str, str],
    versions: dict[str, int],
) -> dict[Interval, int]:
    """The intervals whose rows are no more those that were read, and how many there are more."""
    assert pipeline.intervals is not None
    found: dict[Interval, int] = {}
    for name, column in pipeline.intervals.by.items():
        before = {
            interval: entry.inputs[name]
            for interval, entry in done.items()
            if name in entry.inputs and entry.inputs[name].version != versions[name]
        }
        tallies = tables.tallies(
            table_uri(pipeline.tables[name]),
            column,
            [bounds(kinds[name], interval) for interval in before],
            version=versions[name],
        )
        for (interval, read), tally in zip(before.items(), tallies, strict=True):
            if (tally.rows, tally.digest) != (read.rows, read.digest):
                found[interval] = found.get(interval, 0) + max(0, tally.rows - read.rows)
    return found


def _target(pipeline: Pipeline) -> Table:
    assert isinstance(pipeline.target, Table)
    return pipeline.target
