"""The built-in scheduler: runs due intervals, retries failed ones, and reruns those with late rows."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from time import monotonic
from zoneinfo import ZoneInfo

from gearshift import tables
from gearshift.calendars import Interval, interval_at
from gearshift.definitions import Pipeline
from gearshift.errors import GearshiftError
from gearshift.pipelines.context import Context
from gearshift.pipelines.intervals.log import Entry, IntervalLog
from gearshift.pipelines.intervals.run import run_interval
from gearshift.pipelines.intervals.states import State, Status, Survey, survey
from gearshift.storage.folders import open_folder

log = logging.getLogger(__name__)

_MICROSECOND = timedelta(microseconds=1)
_SURVEY_EVERY = timedelta(seconds=10)  # for late rows
_SURVEY_SHARE = 20  # at most 1/20 of the time: a survey reads all rows of a changed table
_LONGEST_BACKOFF = timedelta(minutes=10)
REQUESTED = "requested"
"""Why an interval runs that a person asked for."""
_WHY = {State.DUE: "calendar", State.FAILED: "retry", State.LATE: "late rows"}


class IntervalSchedule:
    """Decides which intervals of a pipeline to run, from its calendar, its ledger and its sources."""

    def __init__(self, context: Context, pipeline: Pipeline) -> None:
        self.too_late = 0
        """Rows that arrived after `late` and are in no result."""
        self._context = context
        self._pipeline = pipeline
        self._zone = ZoneInfo(context.graph.timezone)
        self._log = IntervalLog(open_folder(context.folder_of(pipeline)))
        self._to_run: list[Status] = []
        """Intervals that are due and whose sources are complete."""
        self._requested: dict[Interval, None] = {}
        """Intervals that a person asked for, in that order; not persisted."""
        self._running: Interval | None = None
        self._retry_at: dict[Interval, datetime] = {}
        """When to retry failed intervals; not persisted, so that a restarted runner retries at once."""
        self._seen: Survey | None = None
        self._survey_at = datetime.min.replace(tzinfo=UTC)
        self._closes = datetime.min.replace(tzinfo=UTC)
        self._reported: set[tuple[str, int]] = set()

    def next_run(self, now: datetime) -> datetime:
        """When the next interval is due: now, at the next retry, or at the end of the open interval."""
        if now >= min(self._survey_at, self._closes):
            self._survey(now)
        ready = [self._retry_at.get(status.interval, now) for status in self._to_run]
        return min([*ready, self._closes])

    def request(self, interval: Interval) -> None:
        """Run an interval, again if it has run, before those that are due."""
        self._requested[interval] = None

    @property
    def has_requests(self) -> bool:
        """Whether requested intervals wait or run."""
        return bool(self._requested)

    @property
    def in_progress(self) -> tuple[Interval, ...]:
        """The interval that is running, and the requested ones that wait."""
        running = self._running
        return tuple(dict.fromkeys([*([] if running is None else [running]), *tuple(self._requested)]))

    @property
    def error(self) -> str | None:
        """The error of the first failed interval, and the number of others."""
        failed = self._seen.of(State.FAILED) if self._seen is not None else []
        if not failed or failed[0].failure is None:
            return None
        more = f"; {len(failed) - 1} more failed" if len(failed) > 1 else ""
        return f"interval {failed[0].interval}: {failed[0].failure.error}{more}"

    def run(self, now: datetime, stopping: threading.Event) -> Iterator[Entry]:
        """Run the intervals that are due, oldest first, until the runner stops or an interval is requested.

        A failed interval is retried later: the others do not depend on it.
        """
        clock = monotonic()
        self._survey(now)
        for status in self._to_run:
            if self._retry_at.get(status.interval, now) > now:
                continue
            if stopping.is_set() or self.has_requests:
                return
            at = now + timedelta(seconds=monotonic() - clock)
            yield from self._run(status.interval, _WHY[status.state], at, stopping)
        if not stopping.is_set():
            self._survey(now)

    def run_requested(self, now: datetime, stopping: threading.Event) -> Iterator[Entry]:
        """Run the requested intervals, in the order of the requests."""
        while not stopping.is_set() and (waiting := tuple(self._requested)):
            yield from self._run(waiting[0], REQUESTED, now, stopping)
            if not stopping.is_set():
                del self._requested[waiting[0]]
        self._seen = None  # a failure changes no table, so that a survey would not notice it
        self._survey(now)

    def _run(self, interval: Interval, why: str, now: datetime, stopping: threading.Event) -> Iterator[Entry]:
        clock, self._running = monotonic(), interval
        try:
            entry = run_interval(self._context, self._pipeline, interval, why, stopping)
        except GearshiftError as error:
            if not stopping.is_set():
                self._put_off(interval, now + timedelta(seconds=monotonic() - clock), error)
        else:
            self._retry_at.pop(interval, None)
            yield entry
        finally:
            self._running = None

    def _put_off(self, interval: Interval, now: datetime, error: GearshiftError) -> None:
        failure = self._log.failure_of(interval)
        tries = failure.tries if failure is not None else 1
        pause = min(timedelta(seconds=2 ** min(tries - 1, 20)), _LONGEST_BACKOFF)
        self._retry_at[interval] = now + pause
        log.error("interval %s: %s; retrying in %.0f s", interval, error, pause.total_seconds())

    def _is_fed(self, interval: Interval) -> bool:
        """Whether the pipelines that write the sources have completed everything up to the end of an interval.

        A failed interval blocks all that depends on it, however many pipelines downstream.
        """
        graph, left, seen = self._context.graph, [(self._pipeline, interval)], set[str]()
        while left:
            reader, span = left.pop()
            seen.add(reader.name)
            cut = (
                [reader.tables[name].name for name in reader.intervals.event_time] if reader.intervals else []
            )
            for feeder in graph.pipelines.values():
                if feeder.intervals is None or feeder.target.name not in cut or feeder.name in seen:
                    continue
                log = IntervalLog(open_folder(self._context.folder_of(feeder)))
                first = interval_at(feeder.calendar, span.start, self._zone)
                last = interval_at(feeder.calendar, span.end - _MICROSECOND, self._zone)
                needed = Interval(first.start, last.end)
                if not log.has_reached(last) or log.lacks(needed, feeder.intervals):
                    return False
                left.append((feeder, needed))
        return True

    def _survey(self, now: datetime) -> None:
        intervals = self._pipeline.intervals
        assert intervals is not None
        self._survey_at = now + _SURVEY_EVERY
        if self._seen is not None and now < self._closes and not self._seen.of(*_WHY):
            versions = {
                name: tables.read_paths(self._context.table_uri(source)).version
                for name, source in self._pipeline.tables.items()
            }
            if versions == self._seen.versions:
                return
        clock = monotonic()
        self._seen = survey(self._pipeline, self._zone, self._context.table_uri, self._log, now, self._seen)
        self._survey_at = now + max(_SURVEY_EVERY, timedelta(seconds=_SURVEY_SHARE * (monotonic() - clock)))
        self._to_run = [status for status in self._seen.of(*_WHY) if self._is_fed(status.interval)]
        # The next interval whose grace period ends; the interval itself may have ended already.
        self._closes = (
            interval_at(self._pipeline.calendar, now - intervals.grace, self._zone).end + intervals.grace
        )
        self._report(self._seen)

    def _report(self, seen: Survey) -> None:
        """Log each set of rows that no run will include, once."""
        missed = seen.of(State.TOO_LATE)
        self.too_late = sum(status.late_rows for status in missed)
        for status in missed:
            key = (status.interval.name, status.late_rows)
            if key not in self._reported:
                self._reported.add(key)
                log.warning(
                    "%s: %s rows arrived or changed too late for the closed interval %s; "
                    'run "gearshift batch run" with --from %s to include them',
                    self._pipeline.name,
                    status.late_rows,
                    status.interval,
                    status.interval.key,
                )
        if seen.without_time and ("without time", seen.without_time) not in self._reported:
            self._reported.add(("without time", seen.without_time))
            log.warning(
                "%s: %s rows of its sources have no event time and belong to no interval",
                self._pipeline.name,
                seen.without_time,
            )
