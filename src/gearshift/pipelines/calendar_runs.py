"""When the next batch of a pipeline in the batch gear is due."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from gearshift.calendars import Interval
from gearshift.definitions import Pipeline
from gearshift.freshness import Gear
from gearshift.pipelines.context import Context
from gearshift.pipelines.intervals.log import Entry
from gearshift.pipelines.intervals.scheduler import REQUESTED, IntervalSchedule
from gearshift.pipelines.intervals.selection import interval_from
from gearshift.pipelines.ledger.ledger import Ledger
from gearshift.pipelines.ledger.runs import Run


class CalendarRuns:
    """The calendar of one pipeline: one batch per period, or the intervals that are due."""

    def __init__(self, context: Context, pipeline: Pipeline, ledger: Ledger) -> None:
        self._context = context
        self._pipeline = pipeline
        self._ledger = ledger
        self._intervals = IntervalSchedule(context, pipeline) if pipeline.intervals is not None else None

    @property
    def has_intervals(self) -> bool:
        """Whether each batch is a set of intervals instead of all there is."""
        return self._intervals is not None

    @property
    def is_external(self) -> bool:
        """Whether `gearshift batch run` runs the intervals instead of this process."""
        return self._intervals is not None and not self._context.settings.scheduler

    @property
    def late_rows(self) -> int | None:
        """Rows that arrived after their interval was closed for good and so are in no result."""
        return self._intervals.too_late if self._intervals is not None else None

    @property
    def error(self) -> str | None:
        """The first failed interval and its error; failed intervals are retried later."""
        return self._intervals.error if self._intervals is not None else None

    def next_run(self, now: datetime) -> datetime:
        """When the next batch is due; not after `now` if it is due already."""
        if self._intervals is not None:
            return self._intervals.next_run(now)
        began = [run.began for run in self._ledger.runs if run.gear is Gear.BATCH and run.verified]
        zone = ZoneInfo(self._context.graph.timezone)
        return self._pipeline.calendar.next_run(began[-1], zone) if began else now

    def request(self, start: datetime) -> Interval:
        """Run the interval that begins at `start` next; DefinitionError if there is none."""
        interval = interval_from(self._context.graph, self._pipeline.name, start, datetime.now(UTC))
        assert self._intervals is not None
        self._intervals.request(interval)
        return interval

    @property
    def in_progress(self) -> tuple[Interval, ...]:
        """The interval that is running, and the requested ones that wait."""
        return self._intervals.in_progress if self._intervals is not None else ()

    @property
    def why(self) -> str:
        """Why the next batch runs."""
        return REQUESTED if self.has_requests else "calendar"

    @property
    def has_requests(self) -> bool:
        """Whether a person asked for intervals that have not run yet."""
        return self._intervals is not None and self._intervals.has_requests

    def run_intervals(self, run: Run, stopping: threading.Event) -> Iterator[Entry]:
        """Run the intervals that were requested, or else those that are due, oldest first."""
        assert self._intervals is not None
        now = datetime.now(UTC)
        if run.why == REQUESTED:
            return self._intervals.run_requested(now, stopping)
        return self._intervals.run(now, stopping)
