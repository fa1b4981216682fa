"""The rules (Kafka's ACLs) that an app needs. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gearshift.definitions import Graph, Pipeline, Table, Topic

Resource = Literal["topic", "group", "transactional-id", "cluster"]
CREATE, READ, WRITE, DESCRIBE, CONFIGS = "Create", "Read", "Write", "Describe", "DescribeConfigs"
CLUSTER = "kafka-cluster"
_OWN = (CREATE, READ, WRITE, CONFIGS)


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """What a principal may do with one resource, or with all whose names begin so."""

    resource: Resource
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False

    def line(self, principal: str) -> str:
        """The rule as arguments of `kafka-acls.sh`.

        >>> Rule("group", "meter.alerts", ("Read",)).line("User:me")
        '--add --allow-principal User:me --operation Read --group meter.alerts'
        """
        words = ["--add", "--allow-principal", principal]
        for operation in self.operations:
            words += ["--operation", operation]
        words += ["--cluster"] if self.resource == "cluster" else [f"--{self.resource}", self.name]
        words += ["--resource-pattern-type", "prefixed"] if self.prefixed else []
        return shlex.join(words)


def rules_of(graph: Graph) -> list[Rule]:
    """Every rule that an app needs to run, and for the commands and the console on what is its own.

    Describe is part of Read and of Write, and Write on a topic permits idempotent producers: so nothing is needed on
    the cluster.
    """
    found: dict[tuple[Resource, str, bool], set[str]] = {}
    for rule in _needs(graph):
        found.setdefault((rule.resource, rule.name, rule.prefixed), set()).update(rule.operations)
    return sorted(
        Rule(resource, name, tuple(sorted(operations)), prefixed)
        for (resource, name, prefixed), operations in found.items()
    )


def _needs(graph: Graph) -> Iterator[Rule]:
    captured = [topic for capture in graph.captures.values() for topic in capture.topics.values()]
    for topic in (*graph.topics.values(), *captured):
        yield Rule("topic", topic.name, (DESCRIBE, CONFIGS) if topic.external else (CREATE, READ, CONFIGS))
        yield from _dead_letters(topic)
    for topic in captured:
        yield _may(topic, WRITE)  # a new snapshot begins with a truncate
    for pipeline in graph.pipelines.values():
        yield from _pipeline(graph.app, pipeline)
    for delivery in graph.deliveries.values():
        yield _may(delivery.topic, READ)
        yield Rule("topic", delivery.topic.replays, _OWN)
        yield Rule("group", delivery.group_id, (READ,))
        if delivery.once_by:
            yield Rule("topic", delivery.once_topic, _OWN)
        if isinstance(delivery.target, Topic):
            yield _may(delivery.target, WRITE)
            # Followed by the name of a consumer process, each of which writes in transactions of its own.
            yield Rule("transactional-id", f"{graph.app}.{delivery.name}.", (WRITE,), prefixed=True)
    marked = [(each.marks, [each.topic]) for each in (*graph.sources.values(), *graph.file_sources.values())]
    marked += [(each.marks, list(each.topics.values())) for each in graph.http_sources.values()]
    for marks, topics in marked:
        yield Rule("topic", marks, _OWN)
        yield Rule("transactional-id", marks, (WRITE,))
        yield from (_may(topic, WRITE) for topic in topics)


def _pipeline(app: str, pipeline: Pipeline) -> Iterator[Rule]:
    name = f"{app}.{pipeline.name}"
    for topic in pipeline.topics.values():
        yield _may(topic, READ)
        if not topic.external:
            yield _may(topic, WRITE)  # `gearshift dlq replay` sends a pipeline's dead letters here again
    if pipeline.topics:
        yield Rule("group", name, (READ,))  # mirrors its position
        yield Rule("group", f"gearshift-{name}-", (READ,), prefixed=True)  # Spark's own
    if isinstance(pipeline.target, Table):
        yield Rule("topic", pipeline.target.dead_letters, _OWN)
    else:
        yield _may(pipeline.target, READ, WRITE)  # what was written is read again to count replays


def _dead_letters(topic: Topic) -> Iterator[Rule]:
    yield Rule("topic", topic.dead_letters, _OWN)
    yield Rule("transactional-id", f"gearshift.dlq.{topic.name}", (WRITE,))


def _may(topic: Topic, *operations: str) -> Rule:
    return Rule("topic", topic.name, operations)
