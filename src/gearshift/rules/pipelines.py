"""What the sources of a pipeline may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gearshift.definitions import DELETED, POSITION, Location, Table, Topic
from gearshift.rules.declared import wrong


def match_sources(
    name: str,
    parameters: list[str],
    source: Topic | Table | Mapping[str, Topic | Table],
    where: Location,
) -> dict[str, Topic | Table]:
    """The sources by the parameters of the transform."""
    if isinstance(source, Topic | Table):
        if len(parameters) != 1:
            raise wrong(
                f"pipeline {name} has one source but {len(parameters)} parameters",
                "give it one parameter, or name each source: source={'parameter': topic}",
                where,
            )
        return {parameters[0]: source}
    if not isinstance(source, Mapping) or not all(isinstance(s, Topic | Table) for s in source.values()):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise wrong(
            f"pipeline {name} reads from {source!r}", "source= takes what app.topic or app.table gave", where
        )
    if set(source) != set(parameters):
        raise wrong(
            f"pipeline {name} takes {', '.join(parameters) or 'nothing'} but its sources are {', '.join(source) or 'nothing'}",
            "name the sources as the parameters",
            where,
        )
    return {parameter: source[parameter] for parameter in parameters}


def as_of_latest(
    name: str, sources: Mapping[str, Topic | Table], to: Topic | Table, as_of: str, where: Location
) -> dict[str, Topic | Table]:
    """The sources with the captured tables as they are now."""
    if as_of != "latest":
        raise wrong(f"pipeline {name} has as_of={as_of!r}", "say as_of='latest', or leave it out", where)
    captured = [source for source in sources.values() if isinstance(source, Topic) and source.envelope]
    if len(captured) != 1:
        raise wrong(
            f"pipeline {name} has as_of='latest' and {len(captured)} captured tables among its sources",
            "give it one topic of app.cdc",
            where,
        )
    if isinstance(to, Table) and (not to.key or to.order_by != (POSITION,) or to.deleted != DELETED):
        raise wrong(
            f"pipeline {name} has as_of='latest', and table {to.name} does not keep rows by what it gives",
            f"declare it with key=…, order_by={POSITION!r}, deleted={DELETED!r}",
            where,
        )
    return {
        parameter: replace(source, as_of="latest")
        if isinstance(source, Topic) and source.envelope is not None
        else source
        for parameter, source in sources.items()
    }
