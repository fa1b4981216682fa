"""The built-in scheduler: which intervals of a pipeline to run now, and again for rows that came late."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from time import monotonic
from zoneinfo import ZoneInfo

from gearshift import tables
from gearshift.calendars import Interval, interval_at
from gearshift.definitions import Pipeline
from gearshift.pipelines.checkpoint import open_folder
from gearshift.pipelines.engine import Engine
from gearshift.pipelines.interval_log import Entry, IntervalLog
from gearshift.pipelines.interval_runs import run_interval
from gearshift.pipelines.interval_states import Look, State, Status, look

log = logging.getLogger(__name__)

_MICROSECOND = timedelta(microseconds=1)
_LOOKS_EVERY = timedelta(seconds=10)  # for late rows
_SHARE_OF_LOOKING = 20  # one part in so many of the time: a look reads the rows of a table that changed


class IntervalSchedule:
    """What a pipeline's calendar, the ledger's entries and the rows of its sources leave to do."""

    def __init__(self, engine: Engine, pipeline: Pipeline) -> None:
        self.too_late = 0
        """Rows that came after the time which `late` allows, and are in no result."""
        self._engine = engine
        self._pipeline = pipeline
        self._zone = ZoneInfo(engine.graph.timezone)
        self._log = IntervalLog(open_folder(engine.folder_of(pipeline)))
        cut = [pipeline.tables[name].name for name in pipeline.intervals.by] if pipeline.intervals else []
        self._feeders = [
            (each, IntervalLog(open_folder(engine.folder_of(each))))
            for each in engine.graph.pipelines.values()
            if each.intervals is not None and each.target.name in cut
        ]
        self._to_run: list[Status] = []
        """What is due, up to the first interval whose sources are not all there yet."""
        self._seen: Look | None = None
        self._look_at = datetime.min.replace(tzinfo=UTC)
        self._closes = datetime.min.replace(tzinfo=UTC)
        self._told: set[tuple[str, int]] = set()

    def next_run(self, now: datetime) -> datetime:
        """When there is something to run: now, or when the open interval is over and its grace too."""
        if now >= min(self._look_at, self._closes):
            self._look(now)
        return now if self._to_run else self._closes

    def run(self, now: datetime, stopping: threading.Event) -> Iterator[Entry]:
        """Run what is due, oldest first, until all is done or the runner stops."""
        self._look(now)
        for status in self._to_run:
            if stopping.is_set():
                return
            why = "late rows" if status.state is State.LATE else "calendar"
            yield run_interval(self._engine, self._pipeline, status.interval, why)
        self._look(now)

    def _is_fed(self, interval: Interval) -> bool:
        """Whether the pipelines that write the sources have come to where this interval ends."""
        return all(
            log.has_reached(interval_at(feeder.calendar, interval.end - _MICROSECOND, self._zone))
            for feeder, log in self._feeders
        )

    def _look(self, now: datetime) -> None:
        intervals = self._pipeline.intervals
        assert intervals is not None
        self._look_at = now + _LOOKS_EVERY
        if self._seen is not None and now < self._closes and not self._seen.of(State.DUE, State.LATE):
            versions = {
                name: tables.read_paths(self._engine.table_uri(source)).version
                for name, source in self._pipeline.tables.items()
            }
            if versions == self._seen.versions:
                return
        clock = monotonic()
        entries = self._log.entries()
        self._seen = look(self._pipeline, self._zone, self._engine.table_uri, entries, now)
        self._look_at = now + max(_LOOKS_EVERY, timedelta(seconds=_SHARE_OF_LOOKING * (monotonic() - clock)))
        due = self._seen.of(State.DUE, State.LATE)
        self._to_run = list(takewhile(lambda status: self._is_fed(status.interval), due))
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
