"""What `by=`, `grace=`, `late=` and `since=` of a pipeline may say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta, tzinfo

from gearshift.calendars import EARLIEST, LATEST, local
from gearshift.definitions import Intervals, Pipeline, Table
from gearshift.errors import DefinitionError
from gearshift.freshness import Gear
from gearshift.rules.declared import duration, wrong

INTERVAL = "interval"
"""The transform's parameter that takes the interval."""
INTERVAL_START = "interval_start"
"""The column of the result, its first partition column, that says which interval a row is of."""


def declare_intervals(
    pipeline: Pipeline,
    by: str | Mapping[str, str] | None,
    grace: str | None,
    late: str | None,
    since: str | date | None,
    *,
    zone: tzinfo,
    is_parameter: bool,
) -> Pipeline:
    """The pipeline with its intervals, if it has any; refuses what cannot be cut or replaced."""
    name = pipeline.name
    if pipeline.cron is not None and pipeline.gear is not Gear.BATCH:
        raise _wrong(pipeline, f"pipeline {name} has cron= and gear {pipeline.gear}", "cron is for batch")
    if by is None:
        given = {"grace": grace, "late": late, "since": since}
        alone = next((word for word, value in given.items() if value is not None), None)
        if alone is not None:
            raise _wrong(
                pipeline,
                f"pipeline {name} has {alone}= without by=",
                "name the column of event time: by='booked_at'",
            )
        return pipeline
    if pipeline.gear is not Gear.BATCH:
        raise _wrong(
            pipeline,
            f"pipeline {name} has by= and gear {pipeline.gear}",
            "intervals are for batch: by= alone",
        )
    if pipeline.topics:
        raise _wrong(
            pipeline,
            f"pipeline {name} would cut topic {next(iter(pipeline.topics.values())).name} into intervals",
            "keep the topic in a table with another pipeline, and cut that",
        )
    target = pipeline.target
    if not isinstance(target, Table):
        raise _wrong(
            pipeline,
            f"pipeline {name} writes intervals to topic {target.name}, which cannot replace one",
            "write to a table",
        )
    if target.key:
        raise _wrong(
            pipeline,
            f"pipeline {name} replaces intervals of table {target.name}, whose rows replace each other by key",
            "leave the key out of the table, or by= out of the pipeline",
        )
    if target in pipeline.sources.values():
        raise _wrong(
            pipeline,
            f"pipeline {name} cuts table {target.name} into intervals and writes to it",
            "write to another table",
        )
    if INTERVAL_START in target.partition_by:
        raise _wrong(
            pipeline,
            f"table {target.name} is partitioned by {INTERVAL_START} already",
            f"leave {INTERVAL_START} out of partition_by: Gearshift adds it",
        )
    intervals = Intervals(
        by=_columns(pipeline, by),
        grace=_duration(pipeline, "grace", grace) or timedelta(0),
        late=_duration(pipeline, "late", late),
        since=_moment(pipeline, since, zone),
        is_parameter=is_parameter,
    )
    if intervals.late is not None and intervals.late < intervals.grace:
        raise _wrong(
            pipeline,
            f"pipeline {name} has late={late!r} shorter than grace={grace!r}",
            "both count from the interval's end",
        )
    return replace(pipeline, intervals=intervals)


def check_writers(pipeline: Pipeline, others: Iterable[Pipeline]) -> None:
    """A table of intervals has one writer: what another writes, the next run of an interval would not know."""
    for other in others:
        if other.target == pipeline.target and (other.intervals or pipeline.intervals):
            raise _wrong(
                pipeline,
                f"pipelines {other.name} and {pipeline.name} write table {pipeline.target.name}, "
                "one of them by intervals",
                "give each a table of its own",
            )


def _columns(pipeline: Pipeline, by: str | Mapping[str, str]) -> dict[str, str]:
    names = list(pipeline.sources)
    if isinstance(by, str):
        if len(names) != 1:
            raise _wrong(
                pipeline,
                f"pipeline {pipeline.name} has by={by!r} and {len(names)} sources",
                f"say which: by={{{names[0]!r}: {by!r}}}; sources that are not named are read whole",
            )
        return {names[0]: by}
    for name in by:
        if name not in names:
            raise _wrong(
                pipeline,
                f"pipeline {pipeline.name} has by= for {name!r}, which is no source of it",
                f"its sources are {', '.join(names)}",
            )
    if not by:
        raise _wrong(
            pipeline, f"pipeline {pipeline.name} has an empty by=", f"by={{{names[0]!r}: 'booked_at'}}"
        )
    return dict(by)


def _duration(pipeline: Pipeline, what: str, text: str | None) -> timedelta | None:
    if text is None:
        return None
    return duration(text, f"pipeline {pipeline.name}: {what}", pipeline.defined_at)


def _moment(pipeline: Pipeline, since: str | date | None, zone: tzinfo) -> datetime | None:
    """Where the calendar begins: a date is its midnight, and a time that names no offset is the app's."""
    if since is None:
        return None
    hint = "write a date or a time, such as '2026-01-01', date(2026, 1, 1) or '2026-01-01T06:00+01:00'"
    try:
        found = datetime.fromisoformat(since if isinstance(since, str) else since.isoformat())
        moment = local(found if found.tzinfo is not None else found.replace(tzinfo=zone), zone)
    except (ValueError, AttributeError, OverflowError):
        raise _wrong(pipeline, f"pipeline {pipeline.name} has since={since!r}", hint) from None
    if not EARLIEST <= moment <= LATEST:
        raise _wrong(pipeline, f"pipeline {pipeline.name} has since={since!r}, where no calendar goes", hint)
    return moment


def _wrong(pipeline: Pipeline, what: str, hint: str) -> DefinitionError:
    return wrong(what, hint, pipeline.defined_at)
