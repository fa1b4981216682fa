"""A pipeline's function alone, on static frames: no Kafka, no checkpoint, no gear."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from gearshift.app import App
from gearshift.calendars import Interval, interval_at
from gearshift.definitions import Graph, Pipeline, Table, Topic
from gearshift.errors import DefinitionError
from gearshift.pipelines.failures import explain
from gearshift.pipelines.intervals.run import labelled
from gearshift.pipelines.query import apply
from gearshift.testing.frames import as_list, frame_of, frame_of_rows, require_values, values_of
from gearshift.testing.inputs import match_names
from gearshift.testing.namespace import pipeline_named
from gearshift.testing.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Transform:
    """Calls pipelines' functions on static frames of values."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def __call__(
        self,
        app: App,
        pipeline: Callable[..., Any] | str,
        values: Mapping[str, Sequence[Any]],
        *,
        at: datetime | None = None,
    ) -> list[Any]:
        """The values that a pipeline's function makes of the values of its topics and the rows of its tables.

        `at` is an instant of the interval that a function with a parameter `interval` gets. The result are values of
        the target topic, or dicts for a table.
        """
        __tracebackhide__ = True
        chosen = pipeline_named(app, pipeline)
        match_names(chosen, {source.name: source for source in chosen.sources.values()}, values)
        spark = self._sessions.open(app.graph)
        frames = {
            name: _frame(spark, app.graph, source, values[source.name])
            for name, source in chosen.sources.items()
        }
        frame = apply(chosen, frames, _interval(app.graph, chosen, at))
        target = chosen.target
        try:
            return values_of(frame, target.value if isinstance(target, Topic) else None)
        except DefinitionError:
            raise
        except Exception as error:
            raise explain(error, chosen) from error


def _frame(spark: SparkSession, graph: Graph, source: Topic | Table, values: object) -> DataFrame:
    if isinstance(source, Topic):
        return frame_of(spark, source, require_values(values, source.name, source.value))
    rows = as_list(values, source.name)
    return frame_of_rows(spark, source.name, rows, columns_of(spark, graph, source))


def columns_of(spark: SparkSession, graph: Graph, table: Table) -> Any:
    """The columns of a table as the pipeline that writes it makes them; None if no pipeline does."""
    writer = next((each for each in graph.pipelines.values() if each.target == table), None)
    if writer is None or any(source == table for source in writer.sources.values()):
        return None
    frames: dict[str, DataFrame] = {}
    for name, source in writer.sources.items():
        if isinstance(source, Topic):
            if source.envelope is not None:
                return None
            frames[name] = frame_of(spark, source, [])
            continue
        columns = columns_of(spark, graph, source)
        if columns is None:
            return None
        frames[name] = spark.createDataFrame([], columns)  # pyright: ignore[reportUnknownMemberType]
    frame = apply(writer, frames)
    if writer.intervals is not None:
        zone = ZoneInfo(graph.timezone)
        frame = labelled(frame, writer, interval_at(writer.calendar, datetime.now(UTC), zone))
    schema: Any = frame.schema
    return type(schema)([field for field in schema.fields if field.name != table.deleted])


def _interval(graph: Graph, pipeline: Pipeline, at: datetime | None) -> Interval | None:
    if at is None:
        return None
    if pipeline.intervals is None or not pipeline.intervals.is_parameter:
        raise DefinitionError(
            "the function has no parameter interval, so at= has no effect",
            hint="remove at=",
            pipeline=pipeline.name,
        )
    if at.tzinfo is None:
        raise DefinitionError("at= has no time zone", hint="write at=datetime(…, tzinfo=UTC)")
    return interval_at(pipeline.calendar, at, ZoneInfo(graph.timezone))
