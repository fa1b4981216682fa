"""Batches of a pipeline that reads tables alone: all there is, or the intervals that are due."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from gearshift.definitions import Pipeline
from gearshift.freshness import Gear
from gearshift.pipelines.adapting import Adaptation
from gearshift.pipelines.calendar_runs import CalendarRuns
from gearshift.pipelines.context import Context
from gearshift.pipelines.ledger.recorder import Recorder
from gearshift.pipelines.ledger.runs import Run
from gearshift.pipelines.query import QueryBuilder
from gearshift.pipelines.sinks.whole_tables import record_batch, run_over_tables
from gearshift.spark.jobs import Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRuns:
    """What a batch over tables needs of its pipeline."""

    context: Context
    pipeline: Pipeline
    recorder: Recorder
    tasks: Tasks
    calendar: CalendarRuns
    builder: QueryBuilder
    adaptation: Adaptation

    def run(self, run: Run, stopping: threading.Event) -> None:
        """Run a batch to its end, and record it."""
        with self.tasks.tagged():
            if self.calendar.has_intervals:
                self._run_intervals(run, stopping)
            else:
                self._run_whole(run)

    def _run_whole(self, run: Run) -> None:
        run_over_tables(
            self.context,
            self.pipeline,
            run,
            self.recorder,
            self.tasks,
            frame=self.builder.transformed({}, Gear.BATCH, run.tables),
            schema_id=self.adaptation.target_schema(),
            sets_aside=self.adaptation.sets_aside,
        )

    def _run_intervals(self, run: Run, stopping: threading.Event) -> None:
        for entry in self.calendar.run_intervals(run, stopping):
            record_batch(
                self.recorder,
                ends={each.table: {0: each.version} for each in entry.inputs.values()},
                records=sum(each.rows for each in entry.inputs.values()),
                written=entry.rows,
            )
