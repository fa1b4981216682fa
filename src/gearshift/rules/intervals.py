"""Rules for `event_time=`, `grace=`, `allowed_lateness=` and `since=` of a pipeline."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta, tzinfo
from typing import Any

from gearshift.calendars import EARLIEST, LATEST, local
from gearshift.definitions import Intervals, Pipeline, Table
from gearshift.errors import DefinitionError
from gearshift.freshness import Gear
from gearshift.rules.declared import duration, invalid

INTERVAL = "interval"
"""The transform's parameter that takes the interval."""
INTERVAL_START = "interval_start"
"""The result column, its first partition column, with the start of a row's interval."""


def parameters_of(
    transform: Callable[..., Any], source: object, event_time: object
) -> tuple[list[str], bool]:
    """The transform's parameters for sources, and whether it also takes the interval."""
    parameters = list(inspect.signature(transform).parameters)
    is_source = isinstance(source, Mapping) and INTERVAL in source
    if event_time is None or is_source or INTERVAL not in parameters:
        return parameters, False
    return [name for name in parameters if name != INTERVAL], True


def declare_intervals(
    pipeline: Pipeline,
    event_time: str | Mapping[str, str] | None,
    grace: str | None,
    allowed_lateness: str | None,
    since: str | date | None,
    *,
    zone: tzinfo,
    is_parameter: bool,
) -> Pipeline:
    """The pipeline with its intervals, if it declares an event-time column."""
    name = pipeline.name
    if pipeline.cron is not None and pipeline.gear is not Gear.BATCH:
        raise _invalid(
            pipeline,
            f"pipeline {name} has cron= and gear {pipeline.gear}",
            "use cron= with batch only; leave out one of them",
        )
    if event_time is None:
        given = {"grace": grace, "allowed_lateness": allowed_lateness, "since": since}
        alone = next((option for option, value in given.items() if value is not None), None)
        if alone is not None:
            raise _invalid(
                pipeline,
                f"pipeline {name} has {alone}= without event_time=",
                "name the event-time column: event_time='booked_at'",
            )
        return pipeline
    if pipeline.gear is not Gear.BATCH:
        raise _invalid(
            pipeline,
            f"pipeline {name} has event_time= and gear {pipeline.gear}",
            "use event_time= with batch only: set a freshness of an hour or more",
        )
    if pipeline.topics:
        raise _invalid(
            pipeline,
            f"pipeline {name} cannot cut topic {next(iter(pipeline.topics.values())).name} into intervals",
            "write the topic to a table with another pipeline, and read that table",
        )
    target = pipeline.target
    if not isinstance(target, Table):
        raise _invalid(
            pipeline,
            f"pipeline {name} writes intervals to topic {target.name}, but a topic cannot replace one",
            "write to a table",
        )
    if target.key:
        raise _invalid(
            pipeline,
            f"pipeline {name} replaces intervals of table {target.name}, but its rows replace each other by key",
            "leave key= out of the table, or event_time= out of the pipeline",
        )
    if target in pipeline.sources.values():
        raise _invalid(
            pipeline,
            f"pipeline {name} reads intervals of table {target.name} and writes to it",
            "write to another table",
        )
    if INTERVAL_START in target.partition_by:
        raise _invalid(
            pipeline,
            f"table {target.name} is already partitioned by {INTERVAL_START}",
            f"leave {INTERVAL_START} out of partition_by: Gearshift adds it",
        )
    intervals = Intervals(
        event_time=_columns(pipeline, event_time),
        grace=_duration(pipeline, "grace", grace) or timedelta(0),
        allowed_lateness=_duration(pipeline, "allowed_lateness", allowed_lateness),
        since=_moment(pipeline, since, zone),
        is_parameter=is_parameter,
    )
    if intervals.allowed_lateness is not None and intervals.allowed_lateness < intervals.grace:
        raise _invalid(
            pipeline,
            f"pipeline {name} has allowed_lateness={allowed_lateness!r} shorter than grace={grace!r}",
            "make it at least as long: both count from the end of the interval",
        )
    return replace(pipeline, intervals=intervals)


def check_writers(pipeline: Pipeline, others: Iterable[Pipeline]) -> None:
    """Require one writer for a table of intervals: rerunning an interval would not replace another's rows."""
    for other in others:
        if other.target == pipeline.target and (other.intervals or pipeline.intervals):
            raise _invalid(
                pipeline,
                f"pipelines {other.name} and {pipeline.name} write table {pipeline.target.name}, "
                "and at least one of them writes intervals",
                "give each pipeline its own table",
            )


def _columns(pipeline: Pipeline, event_time: str | Mapping[str, str]) -> dict[str, str]:
    names = list(pipeline.sources)
    if isinstance(event_time, str):
        if len(names) != 1:
            raise _invalid(
                pipeline,
                f"pipeline {pipeline.name} has event_time={event_time!r} and {len(names)} sources",
                f"name the source: event_time={{{names[0]!r}: {event_time!r}}}; the other sources are read whole",
            )
        return {names[0]: event_time}
    for name in event_time:
        if name not in names:
            raise _invalid(
                pipeline,
                f"pipeline {pipeline.name} has event_time= for unknown source {name!r}",
                f"use one of {', '.join(names)}",
            )
    if not event_time:
        raise _invalid(
            pipeline,
            f"pipeline {pipeline.name} has an empty event_time=",
            f"name a source and its column: event_time={{{names[0]!r}: 'booked_at'}}",
        )
    return dict(event_time)


def _duration(pipeline: Pipeline, what: str, text: str | None) -> timedelta | None:
    if text is None:
        return None
    return duration(text, f"pipeline {pipeline.name}: {what}", pipeline.defined_at)


def _moment(pipeline: Pipeline, since: str | date | None, zone: tzinfo) -> datetime | None:
    """Where the calendar begins: a date means midnight, and a time without an offset is in the app's zone."""
    if since is None:
        return None
    hint = "use a date or a time, such as '2026-01-01', date(2026, 1, 1) or '2026-01-01T06:00+01:00'"
    try:
        found = datetime.fromisoformat(since if isinstance(since, str) else since.isoformat())
        moment = local(found if found.tzinfo is not None else found.replace(tzinfo=zone), zone)
    except (ValueError, AttributeError, OverflowError):
        raise _invalid(pipeline, f"pipeline {pipeline.name} has since={since!r}", hint) from None
    if not EARLIEST <= moment <= LATEST:
        raise _invalid(
            pipeline,
            f"pipeline {pipeline.name} has since={since!r}, outside of the years {EARLIEST.year} to {LATEST.year}",
            hint,
        )
    return moment


def _invalid(pipeline: Pipeline, what: str, hint: str) -> DefinitionError:
    return invalid(what, hint, pipeline.defined_at)
