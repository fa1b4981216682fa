"""One run of a pipeline over the intervals that are due: after the first half of its rows, then after all."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from gearshift import tables
from gearshift.calendars import interval_at
from gearshift.definitions import Intervals, Pipeline
from gearshift.freshness import Gear
from gearshift.pipelines.context import Context
from gearshift.pipelines.intervals.bounds import kind_of_time
from gearshift.pipelines.intervals.log import IntervalLog
from gearshift.pipelines.intervals.run import run_interval
from gearshift.pipelines.intervals.states import State, survey
from gearshift.storage.folders import open_folder
from gearshift.testing.arrival import halves
from gearshift.testing.clock import Clock
from gearshift.testing.stored import TableRows


class IntervalRun:
    """A pipeline that has intervals, which are due by the clock, or when all that have rows are over."""

    gear = Gear.BATCH

    def __init__(
        self, context: Context, rows: Mapping[str, tuple[TableRows, Sequence[Any]]], clock: Clock
    ) -> None:
        """`rows` are by the name of the parameter that takes the table; only what is cut comes in halves."""
        [pipeline] = context.graph.pipelines.values()
        assert pipeline.intervals is not None
        self.context = context
        self.pipeline: Pipeline = pipeline
        self._intervals: Intervals = pipeline.intervals
        self._zone = ZoneInfo(context.graph.timezone)
        self._rows = rows
        self._clock = clock
        self._done = 0
        self._closing = threading.Event()

    @property
    def progress(self) -> str:
        """How far it is, in words."""
        return f"{self._done} intervals were computed"

    def run(self) -> None:
        """Compute the intervals that are due; raises the pipeline's failure."""
        for number in range(2):
            for name, (table, rows) in self._rows.items():
                part = halves(rows)[number] if name in self._intervals.event_time else rows
                if number == 0 or (part and name in self._intervals.event_time):
                    table.write(self._uri(name), part)
            self._run_due()

    def close(self) -> None:
        """Cancel what still runs."""
        self._closing.set()
        self.context.spark.sparkContext.cancelAllJobs()

    def _run_due(self) -> None:
        now = self._clock.time or self._when_all_are_over()
        if now is None:
            return  # there are no rows
        log = IntervalLog(open_folder(self.context.folder_of(self.pipeline)))
        seen = survey(self.pipeline, self._zone, self.context.table_uri, log, now)
        for status in seen.of(State.DUE, State.LATE, State.FAILED):
            if self._closing.is_set():
                return
            run_interval(self.context, self.pipeline, status.interval, "test")
            self._done += 1

    def _when_all_are_over(self) -> datetime | None:
        """The end of the last interval that has rows, with its grace."""
        found: list[datetime] = []
        for name, column in self._intervals.event_time.items():
            uri = self._uri(name)
            kind = kind_of_time(self.pipeline, name, column, tables.read_paths(uri).fields)
            for minute in tables.times(uri, column).minutes[-1:]:
                last = minute + timedelta(minutes=1) - timedelta(microseconds=1)
                moment = minute.replace(tzinfo=self._zone) if kind == "date" else last
                found.append(interval_at(self.pipeline.calendar, moment, self._zone).end)
        return max(found) + self._intervals.grace if found else None

    def _uri(self, name: str) -> str:
        return self.context.table_uri(self.pipeline.tables[name])
