"""App: the ordinary object a user declares topics, tables, pipelines and sources on."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gearshift.definitions import Format, Graph, Location, Pipeline, Source, Table, Topic
from gearshift.errors import DefinitionError
from gearshift.freshness import Freshness, Gear

Transform = TypeVar("Transform", bound=Callable[..., Any])
Generator = TypeVar("Generator", bound=Callable[[], Iterator[Any]])

_COMPATIBILITY = tuple(
    f"{way}{reach}" for way in ("BACKWARD", "FORWARD", "FULL") for reach in ("", "_TRANSITIVE")
)


class App:
    """One app: what it declares, in one file, with no global registry.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Reading:
    ...     meter_id: str
    ...     load_kw: float
    >>> app = App("smart-meter")
    >>> readings = app.topic("meter-readings", value=Reading, key="meter_id", partitions=3)
    >>> history = app.table("readings_history")
    >>> @app.pipeline(source=readings, to=history, freshness="1 minute")
    ... def keep_history(readings):
    ...     return readings
    >>> app.graph.pipelines["keep_history"].gear
    <Gear.NEAR_REAL_TIME: 'near-real-time'>
    """

    def __init__(self, name: str, *, timezone: str = "UTC") -> None:
        where = _caller()
        _require_name(name, "app", where)
        try:
            ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError):
            raise _wrong(
                f"unknown time zone {timezone!r}", "use a name such as Europe/Berlin", where
            ) from None
        self.name = name
        self.timezone = timezone
        self._topics: dict[str, Topic] = {}
        self._tables: dict[str, Table] = {}
        self._pipelines: dict[str, Pipeline] = {}
        self._sources: dict[str, Source] = {}

    @property
    def graph(self) -> Graph:
        """What has been declared so far, as a frozen value."""
        return Graph(
            app=self.name,
            timezone=self.timezone,
            topics=dict(self._topics),
            tables=dict(self._tables),
            pipelines=dict(self._pipelines),
            sources=dict(self._sources),
        )

    def topic(
        self,
        name: str,
        *,
        value: type[Any],
        key: str | None = None,
        partitions: int = 1,
        replicas: int | None = None,
        format: Format = "avro",  # noqa: A002  (the word users know)
        compatibility: str = "BACKWARD",
    ) -> Topic:
        """Declare a topic whose values are of a dataclass and whose key is one of its fields."""
        where = _caller()
        _require_name(name, "topic", where, limit=249 - len(".dlq"))
        if name in self._topics:
            raise _wrong(
                f"topic {name} is declared twice", f"the first is at {self._topics[name].defined_at}", where
            )
        if not (is_dataclass(value) and isinstance(value, type)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _wrong(f"the value of topic {name} is not a dataclass", "declare it with @dataclass", where)
        names = [field.name for field in fields(value)]
        if key is not None and key not in names:
            raise _wrong(
                f"topic {name} has no field {key!r} to be its key",
                f"{value.__name__} has {', '.join(names)}",
                where,
            )
        if partitions < 1:
            raise _wrong(f"topic {name} needs at least one partition", "partitions=1", where)
        if replicas is not None and replicas < 1:
            raise _wrong(f"topic {name} needs at least one replica", "replicas=1", where)
        if format not in ("avro", "json"):
            raise _wrong(f"unknown format {format!r} of topic {name}", "use 'avro' or 'json'", where)
        if compatibility not in (*_COMPATIBILITY, "NONE"):
            raise _wrong(
                f"unknown compatibility {compatibility!r}", f"use {', '.join(_COMPATIBILITY)} or NONE", where
            )
        topic = Topic(
            name=name,
            value=value,
            key=key,
            partitions=partitions,
            replicas=replicas,
            format=format,
            compatibility=compatibility,
            defined_at=where,
        )
        self._topics[name] = topic
        return topic

    def table(self, name: str, *, partition_by: str | tuple[str, ...] = ()) -> Table:
        """Declare a warehouse table."""
        where = _caller()
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", name):
            raise _wrong(f"{name!r} is no table name", "use letters, digits and _, as SQL does", where)
        if name in self._tables:
            raise _wrong(
                f"table {name} is declared twice", f"the first is at {self._tables[name].defined_at}", where
            )
        columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        table = Table(name=name, partition_by=columns, defined_at=where)
        self._tables[name] = table
        return table

    def pipeline(
        self,
        *,
        source: Topic | Table | Mapping[str, Topic | Table],
        to: Topic | Table,
        freshness: str | None = None,
        gear: str | None = None,
    ) -> Callable[[Transform], Transform]:
        """Declare a pipeline: a function from DataFrames, named as its parameters, to a DataFrame."""

        called_at = _caller()

        def declare(transform: Transform) -> Transform:
            where = _location_of(transform, called_at)
            name = transform.__name__
            _require_name(name, "pipeline", where)
            if name in self._pipelines:
                first = self._pipelines[name].defined_at
                raise _wrong(f"pipeline {name} is declared twice", f"the first is at {first}", where)
            if freshness is None and gear is None:
                raise _wrong(
                    f"pipeline {name} says neither freshness nor gear", "add freshness='1 minute'", where
                )
            try:
                chosen = Gear.named(gear) if gear is not None else None
                promise = (
                    Freshness.parse(freshness)
                    if freshness is not None
                    else _USUAL[chosen or Gear.NEAR_REAL_TIME]
                )
            except DefinitionError as error:
                raise _wrong(f"pipeline {name}: {error.what}", error.hint or "", where) from None
            if not isinstance(to, Topic | Table):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise _wrong(
                    f"pipeline {name} writes to {to!r}", "to= takes what app.topic or app.table gave", where
                )
            self._pipelines[name] = Pipeline(
                name=name,
                transform=transform,
                sources=_match_sources(name, transform, source, where),
                target=to,
                freshness=promise,
                gear=chosen or promise.gear,
                defined_at=where,
            )
            return transform

        return declare

    def source(self, to: Topic, *, rate: float = 1.0) -> Callable[[Generator], Generator]:
        """Declare a simulated source: a generator of values that are sent at `rate` records a second."""

        called_at = _caller()

        def declare(generate: Generator) -> Generator:
            where = _location_of(generate, called_at)
            name = generate.__name__
            if name in self._sources:
                raise _wrong(
                    f"source {name} is declared twice",
                    f"the first is at {self._sources[name].defined_at}",
                    where,
                )
            if rate <= 0:
                raise _wrong(f"source {name} has a rate of {rate}", "use a number above 0", where)
            self._sources[name] = Source(name=name, generate=generate, topic=to, rate=rate, defined_at=where)
            return generate

        return declare


_USUAL = {
    Gear.REAL_TIME: Freshness(1, "second"),
    Gear.NEAR_REAL_TIME: Freshness(1, "minute"),
    Gear.BATCH: Freshness(1, "day"),
}


def _match_sources(
    name: str,
    transform: Callable[..., Any],
    source: Topic | Table | Mapping[str, Topic | Table],
    where: Location,
) -> dict[str, Topic | Table]:
    parameters = list(inspect.signature(transform).parameters)
    if isinstance(source, Topic | Table):
        if len(parameters) != 1:
            raise _wrong(
                f"pipeline {name} has one source but {len(parameters)} parameters",
                "give it one parameter, or name each source: source={'parameter': topic}",
                where,
            )
        return {parameters[0]: source}
    if not isinstance(source, Mapping) or not all(isinstance(s, Topic | Table) for s in source.values()):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _wrong(
            f"pipeline {name} reads from {source!r}", "source= takes what app.topic or app.table gave", where
        )
    if set(source) != set(parameters):
        raise _wrong(
            f"pipeline {name} takes {', '.join(parameters) or 'nothing'} but its sources are {', '.join(source) or 'nothing'}",
            "name the sources as the parameters",
            where,
        )
    return {parameter: source[parameter] for parameter in parameters}


def _require_name(name: str, kind: str, where: Location, limit: int = 249) -> None:
    if not re.fullmatch(r"[a-zA-Z0-9._-]+", name) or name in (".", "..") or len(name) > limit:
        raise _wrong(
            f"{name!r} is no {kind} name", f"use letters, digits, '.', '_' and '-', at most {limit}", where
        )


def _wrong(what: str, hint: str, where: Location) -> DefinitionError:
    return DefinitionError(what, hint=hint, file=where.file, line=where.line)


def _caller() -> Location:
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]  (inspect.stack reads every source file)
    return Location.at(frame.f_code.co_filename, frame.f_lineno)


def _location_of(function: Callable[..., Any], called_at: Location) -> Location:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or not hasattr(function, "__name__"):
        raise _wrong(f"{function!r} is no function", "decorate a function written with def", called_at)
    return Location.at(code.co_filename, code.co_firstlineno)
