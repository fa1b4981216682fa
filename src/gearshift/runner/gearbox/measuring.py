"""Measures one pipeline for the gearbox, from what the runner knows already."""

from __future__ import annotations

import time
from datetime import datetime

from gearshift.freshness import Gear
from gearshift.gearbox.measurements import Measurements
from gearshift.pipelines.supervisor import Supervisor
from gearshift.runner.gearbox.arrivals import Arrivals
from gearshift.runner.rates import Figures

_CURRENT = 5.0
"""Seconds after which figures are out of date: Kafka does not answer."""


_ENOUGH = 5
"""Measurements of the backlog from which its trend shows."""


class Measuring:
    """The measurements of one pipeline over time."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._arrivals = Arrivals()
        self._backlogs: list[tuple[float, int]] = []
        self._noted = 0.0
        self._gear: Gear | None = None

    def measure(
        self, figures: Figures | None, *, gear: Gear, works: bool, slots_free: int, slots_wanted: int
    ) -> Measurements:
        """The pipeline now."""
        now = time.monotonic()
        if figures is not None and figures.at > self._noted:
            self._note(figures)
        if not works or gear is not self._gear:  # the backlog grows then whatever the gear can do
            self._backlogs, self._gear = [], gear
        is_current = figures is not None and now - figures.at < _CURRENT
        batch, took, records = self._batch()
        return Measurements(
            gear=gear,
            works=works and is_current,
            arriving=self._arrivals.rate(),
            backlog=_backlog(figures) if figures is not None else 0,
            shrinking=self._shrinking(),
            age=self._arrivals.age(figures.at, figures.done) if figures is not None else 0.0,
            idle=self._arrivals.idle(now),
            batch=batch,
            batch_seconds=took,
            batch_records=records,
            slots_free=slots_free,
            slots_wanted=slots_wanted,
        )

    def _note(self, figures: Figures) -> None:
        if self._arrivals.is_empty and (settled := self._settled()) is not None:
            # What was processed last had arrived by then, and what was not arrived since.
            since = figures.at - (time.time() - settled.timestamp())
            self._arrivals.note(min(since, figures.at), figures.done)
        self._arrivals.note(figures.at, figures.ends, figures.done)
        self._noted = figures.at
        self._backlogs = [*self._backlogs, (figures.at, _backlog(figures))][-10:]

    def _settled(self) -> datetime | None:
        """When the last batch of an earlier run was committed."""
        recent = self._supervisor.ledger.recent
        return datetime.fromtimestamp(recent[-1].timestamp_ms / 1000).astimezone() if recent else None

    def _shrinking(self) -> float:
        if len(self._backlogs) < _ENOUGH:
            return 0.0
        (first, begin), (last, end) = self._backlogs[0], self._backlogs[-1]
        return (begin - end) / (last - first)

    def _batch(self) -> tuple[int, float, int]:
        """The last micro-batch of this run; not its first one, which also plans the query."""
        supervisor = self._supervisor
        query, run = supervisor.query, supervisor.run
        latest = supervisor.condition.progress_of(query) if query is not None else None
        if latest is None or run is None or supervisor.gear is not Gear.NEAR_REAL_TIME:
            return -1, 0.0, 0
        if run.first_batch is None or latest.batch_id <= run.first_batch:
            return -1, 0.0, 0
        return latest.batch_id, latest.took.total_seconds(), latest.records


def _backlog(figures: Figures) -> int:
    return sum(end - figures.done.get(place, 0) for place, end in figures.ends.items())
