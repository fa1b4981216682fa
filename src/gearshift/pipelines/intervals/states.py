"""The state of each interval of a pipeline: open, due, failed, done, or with late rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import pairwise

from gearshift import tables
from gearshift.calendars import Interval, interval_at, intervals_between
from gearshift.definitions import Intervals, Pipeline, Table
from gearshift.pipelines.intervals.bounds import bounds, kind_of_time
from gearshift.pipelines.intervals.log import Entry, Failure, Input, IntervalLog
from gearshift.pipelines.intervals.touched import Read, touched

_EMPTY_IN_A_ROW = 1000  # a longer gap means a row with an invalid time
_MINUTE = timedelta(minutes=1)


class State(StrEnum):
    """The state of an interval."""

    OPEN = "open"
    """It has not ended, or its grace period has not."""
    DUE = "due"
    FAILED = "failed"
    """Its latest run failed and will be retried."""
    DONE = "done"
    LATE = "late"
    """Rows arrived or changed since it ran, within `late`: it will run again."""
    TOO_LATE = "too late"
    """Rows arrived or changed since it ran, after `late`: it will not run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """One interval, its latest run, and the number of rows added to its sources since."""

    interval: Interval
    state: State
    entry: Entry | None
    late_rows: int = 0
    failure: Failure | None = None
    """The failure of the latest run, in any state; an earlier result stays in the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The intervals of a pipeline and its sources' versions."""

    statuses: tuple[Status, ...]
    versions: dict[str, int]
    """By source, its table's version."""
    without_time: int
    """Rows without an event time, which belong to no interval."""
    at: datetime
    """When these versions had been read."""
    changed: frozenset[Interval]
    """The intervals whose rows have changed since they ran."""

    def unchanged(self) -> dict[Interval, Entry]:
        """The runs whose rows were the same in these versions."""
        return {
            status.interval: status.entry
            for status in self.statuses
            if status.entry is not None and status.interval not in self.changed
        }

    def of(self, *states: State) -> list[Status]:
        """The intervals in one of these states, oldest first."""
        return [status for status in self.statuses if status.state in states]


def survey(
    pipeline: Pipeline,
    zone: tzinfo,
    table_uri: Callable[[Table], str],
    log: IntervalLog,
    now: datetime,
    earlier: Survey | None = None,
) -> Survey:
    """Every interval from the first that has rows to the current one.

    After an `earlier` survey only what was committed since is looked at for changes.
    """
    intervals = pipeline.intervals
    assert intervals is not None
    versions = {
        name: tables.read_paths(table_uri(source)).version for name, source in pipeline.tables.items()
    }
    at = datetime.now(UTC)  # of the commits' clock
    found: set[Interval] = set()
    without = 0
    kinds: dict[str, str] = {}
    for name, column in intervals.event_time.items():
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
    changed = _changed(pipeline, zone, table_uri, done, kinds, versions, earlier)
    statuses = [
        _status(
            intervals, interval, done.get(interval), failed.get(interval), newest, changed.get(interval), now
        )
        for interval in sorted(ours | set(done))
    ]
    return Survey(
        statuses=tuple(statuses),
        versions=versions,
        without_time=without,
        at=at,
        changed=frozenset(changed),
    )


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
        entry = None  # the table has been dropped since
    if intervals.has(interval) and (entry is None or not entry.is_final):
        state = State.DUE if now >= interval.end + intervals.grace else State.OPEN
    elif late_rows is None:
        state = State.DONE
    else:
        in_time = intervals.allowed_lateness is None or now < interval.end + intervals.allowed_lateness
        state = State.LATE if intervals.has(interval) and in_time else State.TOO_LATE
    if failure is not None and state in (State.DUE, State.LATE):
        state = State.FAILED
    return Status(interval=interval, state=state, entry=entry, late_rows=late_rows or 0, failure=failure)


def _holding(
    pipeline: Pipeline, zone: tzinfo, minutes: Iterable[datetime], *, is_date: bool
) -> Iterator[Interval]:
    """The intervals that have rows, from the minutes that have some."""
    interval: Interval | None = None
    for minute in minutes:
        # A date means the day in the app's time zone; it arrives here as midnight in UTC.
        first = minute.replace(tzinfo=zone) if is_date else minute
        last = first if is_date else first + _MINUTE - timedelta(microseconds=1)
        for moment in (first, last):
            if interval is None or moment not in interval:
                interval = interval_at(pipeline.calendar, moment, zone)
                yield interval


def _filled(pipeline: Pipeline, zone: tzinfo, found: set[Interval], now: datetime) -> set[Interval]:
    """The given intervals and the empty ones between them, up to now."""
    if not found:
        return found
    present = interval_at(pipeline.calendar, now, zone)
    filled = found | {present}
    # Gaps between rows in the future are not filled.
    for interval, following in pairwise(sorted(each for each in filled if each.start <= present.start)):
        between = intervals_between(
            pipeline.calendar, interval.end, following.start, zone, most=_EMPTY_IN_A_ROW + 1
        )
        if len(between) <= _EMPTY_IN_A_ROW:
            filled.update(between)
    return filled


def _changed(
    pipeline: Pipeline,
    zone: tzinfo,
    table_uri: Callable[[Table], str],
    done: dict[Interval, Entry],
    kinds: dict[str, str],
    versions: dict[str, int],
    earlier: Survey | None,
) -> dict[Interval, int]:
    """The intervals whose rows have changed since they ran, with the number of added rows."""
    assert pipeline.intervals is not None
    unchanged = earlier.unchanged() if earlier is not None else {}

    def read(interval: Interval, entry: Entry, name: str) -> Read:
        """The latest version of a source in which the rows of a run were seen."""
        version = entry.inputs[name].version
        if earlier is not None and unchanged.get(interval) == entry and version <= earlier.versions[name]:
            return Read(earlier.versions[name], earlier.at)
        return Read(version, entry.began + timedelta(seconds=entry.seconds))

    found: dict[Interval, int] = {}
    for name, column in pipeline.intervals.event_time.items():
        is_date = kinds[name] == "date"
        uri = table_uri(pipeline.tables[name])
        before = {interval: entry.inputs[name] for interval, entry in done.items() if name in entry.inputs}
        seen = {interval: read(interval, done[interval], name) for interval in before}
        suspects = touched(
            uri,
            column,
            seen,
            lambda minutes, is_date=is_date: _holding(pipeline, zone, minutes, is_date=is_date),
        )
        for columns, entries in _by_digest(uri, {each: before[each] for each in sorted(suspects)}).items():
            tallies = tables.tallies(
                uri,
                column,
                [bounds(kinds[name], interval) for interval in entries],
                version=versions[name],
                columns=columns,
            )
            for interval, tally in zip(entries, tallies, strict=True):
                known = before[interval]
                if (tally.rows, tally.digest) != (known.rows, known.digest):
                    found[interval] = found.get(interval, 0) + max(0, tally.rows - known.rows)
    return found


def _by_digest(uri: str, before: dict[Interval, Input]) -> dict[tuple[str, ...] | None, list[Interval]]:
    """The intervals by what their digests are of: None for those by name, or the columns that the table had then."""
    found: dict[tuple[str, ...] | None, list[Interval]] = {}
    known: dict[int, tuple[str, ...] | None] = {}
    for interval, read in before.items():
        columns = None
        if read.rows and not (read.digest or "").startswith(tables.BY_NAME):
            if read.version not in known:
                # Where the log does not go back so far, the columns are taken to be the same.
                known[read.version] = tables.column_names(uri, read.version) or tables.column_names(uri)
            columns = known[read.version]
        found.setdefault(columns, []).append(interval)
    return found


def _target(pipeline: Pipeline) -> Table:
    assert isinstance(pipeline.target, Table)
    return pipeline.target
