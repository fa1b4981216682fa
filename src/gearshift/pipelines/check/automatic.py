"""Which gears the gearbox or a timetable may use."""

from __future__ import annotations

from datetime import timedelta

from gearshift.freshness import Gear
from gearshift.pipelines.check.gears import Report

_SHORTEST_IN_BATCHES = timedelta(seconds=2)
"""The shortest freshness that near-real-time can keep: it starts a micro-batch every second at most."""


def gears_of(report: Report) -> frozenset[Gear]:
    """The gears in which a pipeline may run by itself; raises if it must run in one that it does not support."""
    pipeline = report.pipeline
    if pipeline.timetable is not None:
        for gear in sorted(pipeline.timetable.gears):
            report.require(gear)
        return pipeline.timetable.gears
    if not pipeline.auto or pipeline.gear is Gear.BATCH:
        report.require(pipeline.gear)
        return frozenset({pipeline.gear})
    found = {gear for gear in (Gear.NEAR_REAL_TIME, Gear.REAL_TIME) if report.verdicts[gear].ok}
    if Gear.REAL_TIME not in found and pipeline.freshness.duration < _SHORTEST_IN_BATCHES:
        report.require(Gear.REAL_TIME)
    if not found:
        report.require(pipeline.gear)
    return frozenset(found)
