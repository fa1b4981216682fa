"""The built-in scheduler: which intervals of a pipeline to run now, and again for rows that came late."""

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
from gearshift.pipelines.checkpoint import open_folder
from gearshift.pipelines.engine import Engine
from gearshift.pipelines.interval_log import Entry, IntervalLog
from gearshift.pipelines.interval_runs import run_interval
from gearshift.pipelines.interval_states import Look, State, Status, look

log = logging.getLogger(__name__)

_MICROSECOND = timedelta(microseconds=1)
_LOOKS_EVERY = timedelta(seconds=10)  # for late rows
_SHARE_OF_LOOKING = 20  # one part in so many of the time: a look reads the rows of a table that changed
_LONGEST_BACKOFF = timedelta(minutes=10)
_WHY = {State.DUE: "calendar", State.FAILED: "retry", State.LATE: "late rows"}


class IntervalSchedule:
    """What a pipeline's calendar, the ledger's entries and the rows of its sources leave to do."""

    def __init__(self, engine: Engine, pipeline: Pipeline) -> None:
        self.too_late = 0
        """Rows that came after the time which `late` allows, and are in no result."""
        self._engine = engine
        self._pipeline = pipeline
        self._zone = ZoneInfo(engine.graph.timezone)
        self._log = IntervalLog(open_folder(engine.folder_of(pipeline)))
        self._to_run: list[Status] = []
        """What is due and has all of its sources."""
        self._again: dict[Interval, datetime] = {}
        """When intervals that failed are tried again; a new runner tries them at once, its code may be mended."""
        self._seen: Look | None = None
        self._look_at = datetime.min.replace(tzinfo=UTC)
        self._closes = datetime.min.replace(tzinfo=UTC)
        self._told: set[tuple[str, int]] = set()

    def next_run(self, now: datetime) -> datetime:
        """When there is something to run: now, at the next try of one that failed, or when the open one is over."""
        if now >= min(self._look_at, self._closes):
            self._look(now)
        ready = [self._again.get(status.interval, now) for status in self._to_run]
        return min([*ready, self._closes])

    @property
    def error(self) -> str | None:
        """Of the intervals that failed, the first and why, and how many more there are."""
        failed = self._seen.of(State.FAILED) if self._seen is not None else []
        if not failed or failed[0].failure is None:
            return None
        more = f"; {len(failed) - 1} more failed too" if len(failed) > 1 else ""
        return f"interval {failed[0].interval}: {failed[0].failure.error}{more}"

    def run(self, now: datetime, stopping: threading.Event) -> Iterator[Entry]:
        """Run what is due, oldest first, until all is tried or the runner stops.

        One that fails is left for later: the others do not need its result, for each has rows of its own.
        """
        clock = monotonic()
        self._look(now)
        for status in self._to_run:
            interval = status.interval
            if self._again.get(interval, now) > now:
                continue
            if stopping.is_set():
                return
            try:
                entry = run_interval(self._engine, self._pipeline, interval, _WHY[status.state], stopping)
            except GearshiftError as error:
                if stopping.is_set():
                    return
                self._put_off(interval, now + timedelta(seconds=monotonic() - clock), error)
            else:
                self._again.pop(interval, None)
                yield entry
        self._look(now)

    def _put_off(self, interval: Interval, now: datetime, error: GearshiftError) -> None:
        failure = self._log.failure_of(interval)
        tries = failure.tries if failure is not None else 1
        pause = min(timedelta(seconds=2 ** min(tries - 1, 20)), _LONGEST_BACKOFF)
        self._again[interval] = now + pause
        log.error("interval %s: %s; trying again in %.0f s", interval, error, pause.total_seconds())

    def _is_fed(self, interval: Interval) -> bool:
        """Whether the pipelines that write the sources have come to where an interval ends, with none left out.

        One that failed keeps waiting what is made of it, whatever number of pipelines further on.
        """
        graph, left, seen = self._engine.graph, [(self._pipeline, interval)], set[str]()
        while left:
            reader, span = left.pop()
            seen.add(reader.name)
            cut = [reader.tables[name].name for name in reader.intervals.by] if reader.intervals else []
            for feeder in graph.pipelines.values():
                if feeder.intervals is None or feeder.target.name not in cut or feeder.name in seen:
                    continue
                log = IntervalLog(open_folder(self._engine.folder_of(feeder)))
                first = interval_at(feeder.calendar, span.start, self._zone)
                last = interval_at(feeder.calendar, span.end - _MICROSECOND, self._zone)
                needed = Interval(first.start, last.end)
                if not log.has_reached(last) or log.lacks(needed, feeder.intervals):
                    return False
                left.append((feeder, needed))
        return True

    def _look(self, now: datetime) -> None:
        intervals = self._pipeline.intervals
        assert intervals is not None
        self._look_at = now + _LOOKS_EVERY
        if self._seen is not None and now < self._closes and not self._seen.of(*_WHY):
            versions = {
                name: tables.read_paths(self._engine.table_uri(source)).version
                for name, source in self._pipeline.tables.items()
            }
            if versions == self._seen.versions:
                return
        clock = monotonic()
        self._seen = look(self._pipeline, self._zone, self._engine.table_uri, self._log, now)
        self._look_at = now + max(_LOOKS_EVERY, timedelta(seconds=_SHARE_OF_LOOKING * (monotonic() - clock)))
        self._to_run = [status for status in self._seen.of(*_WHY) if self._is_fed(status.interval)]
        # The interval that is the first to be over with its grace; it may have ended already.
        self._closes = (
            interval_at(self._pipeline.calendar, now - intervals.grace, self._zone).end + intervals.grace
        )
        self._tell(self._seen)

    def _tell(self, seen: Look) -> None:
        """Say once of each what no run will take: nothing is lost in silence."""
        missed = seen.of(State.TOO_LATE)
        self.too_late = sum(status.late_rows for status in missed)
        for status in missed:
            told = (status.interval.name, status.late_rows)
            if told not in self._told:
                self._told.add(told)
                log.warning(
                    "%s: %s rows more, or other rows, for the closed interval %s; "
                    '"gearshift batch run" with --from %s takes them',
                    self._pipeline.name,
                    status.late_rows,
                    status.interval,
                    status.interval.key,
                )
        if seen.without_time and ("without time", seen.without_time) not in self._told:
            self._told.add(("without time", seen.without_time))
            log.warning(
                "%s: %s rows of its sources have no time, and so are in no interval",
                self._pipeline.name,
                seen.without_time,
            )
