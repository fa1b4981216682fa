"""Creates an app's topics and schemas; external ones are checked and left unchanged."""

from __future__ import annotations

from collections.abc import Iterable

from gearshift import stack as local
from gearshift.definitions import Graph, Topic
from gearshift.schemas import Registry
from gearshift.settings import Settings
from gearshift.topics import Admin
from gearshift.topics.access.granting import grant
from gearshift.topics.access.principal import principal_of
from gearshift.topics.access.rules import rules_of


def grant_rules(graph: Graph, settings: Settings) -> None:
    """On a secured local Kafka, grant the app exactly what `gearshift acls` prints."""
    stack = local.find(settings)
    if stack is not None and stack.superuser is not None:
        grant(stack.superuser, principal_of(stack.connection.kafka), rules_of(graph))


def make_topics(graph: Graph, topics: Iterable[Topic], admin: Admin, registry: Registry) -> None:
    """Check external topics, then create missing topics and register their schemas."""
    wanted = list(topics)
    # Nothing is created for an app that could not read or write its external topics.
    for topic in wanted:
        if topic.external:
            check_external(graph, topic, admin, registry)
    admin.ensure(wanted)
    for topic in wanted:
        if topic.envelope is None and not topic.external:  # a connector registers its envelopes
            registry.register(topic)


def check_external(graph: Graph, topic: Topic, admin: Admin, registry: Registry) -> None:
    """Raise unless an external topic exists and the app can read or write it as declared."""
    admin.require_external(topic)
    if topic.name in _read(graph):
        registry.require_readable(topic)
    if topic.name in _written(graph):
        registry.register(topic)  # only checks an external topic


def _read(graph: Graph) -> set[str]:
    piped = {topic.name for pipeline in graph.pipelines.values() for topic in pipeline.topics.values()}
    return piped | {delivery.topic.name for delivery in graph.deliveries.values()}


def _written(graph: Graph) -> set[str]:
    targets = [each.target for each in (*graph.pipelines.values(), *graph.deliveries.values())]
    sources = [each.topic for each in (*graph.sources.values(), *graph.file_sources.values())]
    ports = [topic for port in graph.http_sources.values() for topic in port.topics.values()]
    return {each.name for each in (*targets, *sources, *ports) if isinstance(each, Topic)}
