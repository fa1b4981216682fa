"""What an app declares, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gearshift.definitions import (
    ChangeCapture,
    Delivery,
    FileSource,
    Graph,
    HttpSource,
    Location,
    Pipeline,
    Source,
    Table,
    Topic,
)
from gearshift.freshness import Gear


def describe_graph(graph: Graph) -> dict[str, Any]:
    """The graph as plain data; a destination only by its kind, since its options may be secret."""
    return {
        "app": graph.app,
        "timezone": graph.timezone,
        "topics": [_topic(topic) for topic in declared_topics(graph).values()],
        "tables": [_table(table) for table in graph.tables.values()],
        "sources": [
            *(_source(source, "simulator", [source.topic]) for source in graph.sources.values()),
            *(_source(source, "files", [source.topic]) for source in graph.file_sources.values()),
            *(_source(source, "http", source.topics.values()) for source in graph.http_sources.values()),
        ],
        "captures": [_capture(capture) for capture in graph.captures.values()],
        "pipelines": [_pipeline(pipeline, graph) for pipeline in graph.pipelines.values()],
        "deliveries": [_delivery(delivery) for delivery in graph.deliveries.values()],
    }


def declared_topics(graph: Graph) -> dict[str, Topic]:
    """The topics that an app declares and those of its captures, by name."""
    captured = {topic.name: topic for capture in graph.captures.values() for topic in capture.topics.values()}
    return {**captured, **graph.topics}


def _topic(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "value": topic.value.__name__,
        "key": topic.key,
        "partitions": topic.partitions,
        "format": topic.format,
        "external": topic.external,
        **_place(topic.defined_at),
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "partition_by": list(table.partition_by),
        "key": list(table.key),
        **_place(table.defined_at),
    }


def _source(source: Source | FileSource | HttpSource, kind: str, to: Iterable[Topic]) -> dict[str, Any]:
    return {
        "name": source.name,
        "kind": kind,
        "to": [_store(topic) for topic in to],
        "rate": source.rate if isinstance(source, Source) else None,
        **_place(source.defined_at),
    }


def _capture(capture: ChangeCapture) -> dict[str, Any]:
    return {
        "name": capture.name,
        "tables": {table: _store(topic) for table, topic in capture.topics.items()},
        **_place(capture.defined_at),
    }


def _pipeline(pipeline: Pipeline, graph: Graph) -> dict[str, Any]:
    batch = pipeline.gear is Gear.BATCH
    return {
        "name": pipeline.name,
        "sources": {name: _store(source) for name, source in pipeline.sources.items()},
        "target": _store(pipeline.target),
        "gear": str(pipeline.gear),
        "freshness": str(pipeline.freshness),
        "freshness_seconds": pipeline.freshness.duration.total_seconds(),
        "calendar": str(pipeline.calendar) if batch else None,
        "intervals": _intervals(pipeline),
        "after": [other.name for other in graph.pipelines.values() if _feeds(other, pipeline)],
        **_place(pipeline.defined_at),
    }


def _intervals(pipeline: Pipeline) -> dict[str, Any] | None:
    cut = pipeline.intervals
    if cut is None:
        return None
    late = cut.allowed_lateness.total_seconds() if cut.allowed_lateness is not None else None
    return {
        "event_time": dict(cut.event_time),
        "grace_seconds": cut.grace.total_seconds(),
        "allowed_lateness_seconds": late,
        "since": cut.since.isoformat() if cut.since is not None else None,
    }


def _delivery(delivery: Delivery) -> dict[str, Any]:
    target = delivery.target
    if target is not None:
        target = _store(target) if isinstance(target, Topic) else {"destination": type(target).__name__}
    return {
        "name": delivery.name,
        "topic": delivery.topic.name,
        "group_id": delivery.group_id,
        "target": target,
        **_place(delivery.defined_at),
    }


def _store(store: Topic | Table) -> dict[str, str]:
    """A topic or a table by kind and name, since both may have the same name.

    >>> from gearshift import App
    >>> _store(App("shop").table("orders"))
    {'table': 'orders'}
    """
    return {"topic" if isinstance(store, Topic) else "table": store.name}


def _feeds(first: Pipeline, second: Pipeline) -> bool:
    """Whether one pipeline writes what another reads."""
    return first.name != second.name and _store(first.target) in map(_store, second.sources.values())


def _place(at: Location) -> dict[str, Any]:
    return {"file": at.file, "line": at.line}
