"""Rules for pipelines and their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import get_args

from gearshift.cron import Cron
from gearshift.definitions import DELETED, POSITION, Graph, Location, OnInvalid, Pipeline, Table, Topic
from gearshift.errors import DefinitionError
from gearshift.freshness import Freshness, Gear
from gearshift.rules.declared import duration, invalid, require_name, require_new
from gearshift.rules.groups import require_own_group
from gearshift.timetable import Timetable

AUTO = "auto"
"""The value of `gear=` with which the gearbox chooses."""

MOST_PARTITIONS = 1000
"""Each shuffle partition is a RocksDB store with files of its own and, in real-time, a task slot."""

_SHORTEST_REFRESH = timedelta(seconds=10)
_DEFAULT_REFRESH = (timedelta(minutes=1), timedelta(hours=1))
_DEFAULT_FRESHNESS = {
    Gear.REAL_TIME: Freshness(1, "second"),
    Gear.NEAR_REAL_TIME: Freshness(1, "minute"),
    Gear.BATCH: Freshness(1, "day"),
}


def check_pipeline(pipeline: Pipeline, graph: Graph) -> None:
    """Require a new name, its own group id and a target that pipelines may write."""
    name, target, where = pipeline.name, pipeline.target, pipeline.defined_at
    require_name(name, "pipeline", where)
    require_new(name, "pipeline", graph.pipelines, where)
    require_own_group(graph, f"{graph.app}.{name}", f"pipeline {name}", where)
    if not isinstance(target, Topic | Table):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise invalid(
            f"pipeline {name} writes to {target!r}",
            "pass a topic or table declared with app.topic or app.table as to=",
            where,
        )
    if isinstance(target, Topic) and target.envelope is not None:
        raise invalid(
            f"pipeline {name} writes to {target.name}, which a connector fills", "use another topic", where
        )
    if pipeline.on_invalid not in (choices := get_args(OnInvalid)):
        raise invalid(
            f"pipeline {name} has on_invalid={pipeline.on_invalid!r}",
            f"use {' or '.join(map(repr, choices))}",
            where,
        )
    if pipeline.parallelism is not None:
        _check_parallelism(pipeline, pipeline.parallelism)


def is_parallelism(number: object) -> bool:
    """Whether a pipeline can have this number of shuffle partitions."""
    return type(number) is int and 1 <= number <= MOST_PARTITIONS


def _check_parallelism(pipeline: Pipeline, number: int) -> None:
    if not is_parallelism(number):
        raise invalid(
            f"pipeline {pipeline.name} has parallelism={number!r}",
            f"use a whole number from 1 to {MOST_PARTITIONS}",
            pipeline.defined_at,
        )
    if not pipeline.topics:
        raise invalid(
            f"pipeline {pipeline.name} has parallelism={number}, but reads no topic",
            'leave it out: batches over tables take "spark.sql.shuffle.partitions" of [spark]',
            pipeline.defined_at,
        )


def schedule_of(
    name: str, freshness: str | None, gear: str | None, cron: str | None, where: Location
) -> tuple[Freshness, Gear, Cron | None]:
    """The freshness, the gear and the cron expression of a pipeline that declares at least one of them."""
    if freshness is not None and cron is not None:
        raise invalid(
            f"pipeline {name} has two calendars: freshness={freshness!r} and cron={cron!r}",
            "keep one of them",
            where,
        )
    if freshness is None and gear is None and cron is None:
        raise invalid(
            f"pipeline {name} has neither freshness nor gear nor cron", "set freshness='1 minute'", where
        )
    try:
        schedule = Cron.parse(cron) if cron is not None else None
        chosen = Gear.named(gear) if gear is not None else Gear.BATCH if schedule is not None else None
        promise = Freshness.parse(freshness) if freshness is not None else None
    except DefinitionError as error:
        raise invalid(f"pipeline {name}: {error.what}", error.hint or "", where) from None
    promise = promise or _DEFAULT_FRESHNESS[chosen or Gear.NEAR_REAL_TIME]
    return promise, chosen or promise.gear, schedule


def timetable_of(
    name: str, gear: str | None, gears: Mapping[str, str] | None, cron: str | None, where: Location
) -> Timetable | None:
    """The timetable of `gears=`, which excludes `gear=` and `cron=`."""
    if gears is None:
        return None
    other = "gear" if gear is not None else "cron" if cron is not None else None
    if other is not None:
        raise invalid(f"pipeline {name} has both gears= and {other}=", "keep one of them", where)
    if not isinstance(gears, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise invalid(
            f"pipeline {name} has gears={gears!r}",
            "use hours and their gears: gears={'mon-fri 09:00-17:30': 'real-time', 'otherwise': 'batch'}",
            where,
        )
    try:
        return Timetable.parse(gears)
    except DefinitionError as error:
        raise invalid(f"pipeline {name}: {error.what}", error.hint or "", where) from None


def require_promise(name: str, freshness: str | None, cron: str | None, where: Location) -> None:
    """Require a freshness for the gearbox to keep."""
    if cron is not None:
        raise invalid(f"pipeline {name} has gear='auto' and cron=", "use cron= with batch only", where)
    if freshness is None:
        raise invalid(
            f"pipeline {name} has gear='auto' without a freshness",
            "set freshness='5 seconds': the gearbox keeps it at the least cost",
            where,
        )


def match_sources(
    name: str,
    parameters: list[str],
    source: Topic | Table | Mapping[str, Topic | Table],
    where: Location,
) -> dict[str, Topic | Table]:
    """The sources by the parameters of the transform."""
    if isinstance(source, Topic | Table):
        if len(parameters) != 1:
            raise invalid(
                f"pipeline {name} has one source but {len(parameters)} parameters",
                "give it one parameter, or name each source: source={'parameter': topic}",
                where,
            )
        return {parameters[0]: source}
    if not isinstance(source, Mapping) or not all(isinstance(s, Topic | Table) for s in source.values()):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise invalid(
            f"pipeline {name} reads from {source!r}",
            "pass topics and tables declared with app.topic and app.table as source=",
            where,
        )
    if set(source) != set(parameters):
        raise invalid(
            f"pipeline {name} takes {', '.join(parameters) or 'nothing'} but its sources are {', '.join(source) or 'nothing'}",
            "give the sources the names of the parameters",
            where,
        )
    return {parameter: source[parameter] for parameter in parameters}


def as_of(
    name: str, sources: dict[str, Topic | Table], to: Topic | Table, version: str | None, where: Location
) -> dict[str, Topic | Table]:
    """The sources; for "latest" with the current rows of the captured table in place of its changes."""
    if version is None:
        return sources
    if version != "latest":
        raise invalid(f"pipeline {name} has as_of={version!r}", "use as_of='latest', or leave it out", where)
    captured = [source for source in sources.values() if isinstance(source, Topic) and source.envelope]
    if len(captured) != 1:
        raise invalid(
            f"pipeline {name} has as_of='latest' and {len(captured)} captured tables among its sources",
            "read exactly one topic of app.cdc",
            where,
        )
    if isinstance(to, Table) and (not to.key or to.sequence_by != (POSITION,) or to.deleted != DELETED):
        raise invalid(
            f"pipeline {name} has as_of='latest', but table {to.name} does not order rows by {POSITION} "
            f"and delete them by {DELETED}",
            f"declare it with key=…, sequence_by={POSITION!r}, deleted={DELETED!r}",
            where,
        )
    return {
        parameter: replace(source, as_of="latest")
        if isinstance(source, Topic) and source.envelope is not None
        else source
        for parameter, source in sources.items()
    }


def refresh_of(
    name: str,
    sources: Mapping[str, Topic | Table],
    refresh: str | None,
    freshness: Freshness,
    where: Location,
) -> timedelta:
    """How often a stream picks up changes of the tables it joins; by default its freshness, a minute to an hour."""
    if refresh is None:
        shortest, longest = _DEFAULT_REFRESH
        return min(max(freshness.duration, shortest), longest)
    if {type(source) for source in sources.values()} != {Topic, Table}:
        raise invalid(
            f"pipeline {name} has refresh={refresh!r}, but does not join a table to a topic",
            "leave it out: a batch over tables always reads their newest versions",
            where,
        )
    found = duration(refresh, f"pipeline {name}: refresh", where)
    if found < _SHORTEST_REFRESH:
        raise invalid(
            f"pipeline {name} has refresh={refresh!r}",
            "use 10 seconds or more: each refresh restarts the query",
            where,
        )
    return found
