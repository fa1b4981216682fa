"""Rules for simulated sources, files and HTTP."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence

from gearshift.definitions import FileSource, Graph, HttpSource, Location, Source, Topic
from gearshift.rules.declared import invalid, require_name, require_new

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def check_simulated(source: Source, graph: Graph) -> None:
    """Require a rate above 0, shares between 0 and 1, and a generator that can be called."""
    name, where = source.name, source.defined_at
    _require_new_source(name, graph, where)
    require_writable(source.topic, f"source {name}", where)
    for what, number in (("rate", source.rate), ("time_factor", source.time_factor)):
        if not 0 < number < float("inf"):
            raise invalid(f"source {name} has {what}={number}", "use a number above 0", where)
    for what, share in (("out_of_order", source.out_of_order), ("duplicates", source.duplicates)):
        if not 0 <= share <= 1:
            raise invalid(f"source {name} has {what}={share}", "use a share from 0 to 1, such as 0.05", where)
        if share and source.seed is None:
            raise invalid(f"source {name} has {what} but no seed", "set seed=7", where)
    required = [
        each for each in inspect.signature(source.generate).parameters.values() if each.default is each.empty
    ]
    if len(required) > (0 if source.seed is None else 1):
        raise invalid(
            f"source {name} takes {', '.join(each.name for each in required)}",
            "with seed=7 it may take one random.Random; without a seed it takes no arguments",
            where,
        )


def shape_of_day(
    name: str, day: Sequence[float] | Callable[[float], float], where: Location
) -> tuple[float, ...]:
    """The weights of a day: one per hour, or one per minute from a function; none for a steady rate."""
    weights = tuple(day(minute / 60) for minute in range(1440)) if callable(day) else tuple(day)
    if weights and not callable(day) and len(weights) != 24:
        raise invalid(
            f"day of source {name} has {len(weights)} weights", "give one for each of 24 hours", where
        )
    if weights and not (all(0 <= weight < float("inf") for weight in weights) and sum(weights)):
        raise invalid(
            f"day of source {name} has a negative weight, or none above 0",
            "use weights of 0 or more, and at least one above 0",
            where,
        )
    return weights


def check_files(source: FileSource, graph: Graph) -> None:
    """Require a known format, and a folder whose files no other source takes."""
    name, where = source.name, source.defined_at
    _require_new_source(name, graph, where)
    require_writable(source.topic, f"files {name}", where)
    if source.format not in ("csv", "jsonl", "parquet"):
        raise invalid(
            f"files {name}: unknown format {source.format!r}", "use 'csv', 'jsonl' or 'parquet'", where
        )
    for other in graph.file_sources.values():
        if other.folder.absolute() == source.folder.absolute() and other.format == source.format:
            raise invalid(
                f"files {name} and {other.name} take the same files",
                f"use another folder; the other declaration is at {other.defined_at}",
                where,
            )


def require_folder(name: str, folder: object, where: Location) -> None:
    """Require a folder's name that is not empty."""
    if not str(folder):
        raise invalid(f"files {name} have no folder", "set folder='orders-in'", where)


def topics_of(name: str, topics: Iterable[Topic], where: Location) -> dict[str, Topic]:
    """The topics that a port takes records for, by name."""
    found: dict[str, Topic] = {}
    for topic in topics:
        require_writable(topic, f"http {name}", where)
        found[topic.name] = topic
    if not found:
        raise invalid(f"http {name} has no topics", "set topics=[readings]", where)
    return found


def token_variable(name: str, token: str | None, where: Location) -> str | None:
    """The environment variable that `${env:NAME}` refers to."""
    if token is None:
        return None
    match = re.fullmatch(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}", token)
    if match is None:
        # The value is not shown, since it may be the token.
        raise invalid(
            f"the token of http {name} is not a reference",
            "name the environment variable that holds it, such as ${env:INGEST_TOKEN}",
            where,
        )
    return match[1]


def check_http(source: HttpSource, graph: Graph) -> None:
    """Require a free port, and a token unless only this machine can connect."""
    name, where = source.name, source.defined_at
    _require_new_source(name, graph, where)
    if not 0 <= source.port <= 65_535:
        raise invalid(
            f"http {name} has port {source.port}", "use a number up to 65535; 0 picks a free port", where
        )
    for other in graph.http_sources.values():
        if other.port == source.port != 0:
            raise invalid(
                f"http {name} and {other.name} have the same port {source.port}",
                f"use another port; the other declaration is at {other.defined_at}",
                where,
            )
    if source.token_variable is None and source.host not in _LOOPBACK:
        raise invalid(
            f"http {name} would take records from anyone who reaches {source.host}",
            "set token='${env:INGEST_TOKEN}', or leave out host",
            where,
        )
    if source.key is not None and source.certificate is None:
        raise invalid(f"http {name} has a key but no certificate", "set certificate='cert.pem' too", where)


def require_writable(topic: object, owner: str, where: Location) -> None:
    """Require a topic of the app that does not hold captured changes."""
    if not isinstance(topic, Topic):
        raise invalid(f"{owner} writes to {topic!r}", "pass a topic declared with app.topic", where)
    if topic.envelope is not None:
        raise invalid(
            f"{owner} writes to {topic.name}, which holds captured changes", "use another topic", where
        )


def _require_new_source(name: str, graph: Graph, where: Location) -> None:
    require_name(name, "source", where, limit=249 - len(f"{graph.app}..requests"))
    require_new(name, "source", {**graph.sources, **graph.file_sources, **graph.http_sources}, where)
