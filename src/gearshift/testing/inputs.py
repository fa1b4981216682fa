"""The values that a test gives to a pipeline, matched with its sources and in their order of arrival."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, cast

from gearshift.definitions import Pipeline, Table, Topic
from gearshift.errors import DefinitionError
from gearshift.testing.arrival import Arrival, event_times
from gearshift.testing.frames import as_list, require_values
from gearshift.testing.namespace import suggest

EventTime = str | Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The values of each topic and the rows of each table, by its name, in their order of arrival."""

    topics: Mapping[str, Sequence[Any]]
    tables: Mapping[str, Sequence[Any]]


def inputs_of(
    pipeline: Pipeline, values: Mapping[str, Any], arrival: Arrival, event_time: EventTime = None
) -> Inputs:
    """The inputs of a pipeline; raises unless the values are those of its sources, all of them."""
    sources = {source.name: source for source in pipeline.sources.values()}
    match_names(pipeline, sources, values)
    topics = {
        name: _arriving(source, values[name], arrival, _named(event_time, name))
        for name, source in sources.items()
        if isinstance(source, Topic)
    }
    cut = {pipeline.sources[name].name: column for name, column in _cut(pipeline).items()}
    tables = {
        name: _arriving_rows(name, as_list(values[name], name), arrival, cut.get(name))
        for name, source in sources.items()
        if isinstance(source, Table)
    }
    return Inputs(topics=topics, tables=tables)


def match_names(pipeline: Pipeline, sources: Mapping[str, Topic | Table], values: Mapping[str, Any]) -> None:
    """Raise unless the names of the values are those of the pipeline's sources."""
    for name in values:
        if name not in sources:
            raise DefinitionError(
                f"the pipeline does not read {name!r}",
                hint=suggest(name, list(sources)),
                pipeline=pipeline.name,
            )
    for name, source in sources.items():
        kind = "topic" if isinstance(source, Topic) else "table"
        if name not in values:
            raise DefinitionError(
                f"no values for the {kind} {name}",
                hint=f"give them as {{{name!r}: […]}}; an empty list is allowed",
                pipeline=pipeline.name,
            )
        if isinstance(source, Topic) and source.envelope is not None:
            raise DefinitionError(
                f"the topic {name} holds the changes of a database",
                hint="test the function with gearshift_spark, or the app with a database of gearshift_stores",
                pipeline=pipeline.name,
            )


def _arriving(topic: Topic, values: object, arrival: Arrival, event_time: str | None) -> list[Any]:
    found = as_list(values, topic.name)
    raw = [value for value in found if isinstance(value, bytes)]
    require_values([value for value in found if not isinstance(value, bytes)], topic.name, topic.value)
    if not arrival.needs_times:
        return arrival.order(found)
    if raw:
        raise DefinitionError(
            "bytes have no event time, by which disorder= orders the values",
            hint="test corrupt records in another run, without disorder=",
            topic=topic.name,
        )
    return arrival.order(found, event_times(topic.value, event_time, topic.name))


def _arriving_rows(name: str, rows: list[Any], arrival: Arrival, column: str | None) -> list[Any]:
    if column is None:
        return rows  # a whole table has no order
    return arrival.order(rows, _column_time(name, column) if arrival.needs_times else None)


def _column_time(table: str, column: str) -> Callable[[Any], datetime]:
    def time_of(row: Any) -> datetime:
        found: Any = (
            cast("Mapping[str, Any]", row).get(column)
            if isinstance(row, Mapping)
            else getattr(row, column, None)
        )
        if not isinstance(found, date):
            raise DefinitionError(f"a row of {table} has no {column}", hint="disorder= needs it in every row")
        return found if isinstance(found, datetime) else datetime(found.year, found.month, found.day)  # noqa: DTZ001

    return time_of


def _cut(pipeline: Pipeline) -> Mapping[str, str]:
    return pipeline.intervals.event_time if pipeline.intervals is not None else {}


def _named(event_time: EventTime, topic: str) -> str | None:
    return event_time if isinstance(event_time, str) or event_time is None else event_time.get(topic)
