"""Topics: all of them, one of them, and how evenly its load is spread."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from gearshift.console.console import Console, Here
from gearshift.console.describing import declared_topics
from gearshift.console.inputs import TopicPath
from gearshift.errors import GearshiftError
from gearshift.schemas.registry_client import Registry
from gearshift.topics.dead_letters.letters import SUFFIX
from gearshift.topics.description import TopicDescription, describe
from gearshift.topics.overview import overview
from gearshift.topics.skew.sampling import measure

router = APIRouter(tags=["topics"])


@router.get("/api/topics")
def topics(console: Here) -> list[dict[str, Any]]:
    """All topics except Kafka's internal ones."""
    running = console.running
    declared = declared_topics(running.app.graph) if running is not None else {}
    measured = running.status().get("topics") or () if running is not None else ()
    rates = {each["name"]: each.get("records_per_second") for each in measured}
    return [
        {
            "name": topic.name,
            "partitions": topic.partitions,
            "records": topic.records,
            "records_per_second": rates.get(topic.name),
            "declared": topic.name in declared,
            "dead_letters": topic.name.endswith(SUFFIX),
        }
        for topic in overview(console.connection)
    ]


@router.get("/api/topics/{topic}")
def topic(topic: TopicPath, console: Here) -> dict[str, Any]:
    """A topic: partitions, settings, the groups that read it, and its latest schemas."""
    found = describe(console.connection, topic)
    value_schema, key_schema = _schemas(console, topic)
    return {
        "name": found.name,
        "id": found.id,
        "partitions": [
            {
                "number": each.number,
                "leader": each.leader,
                "replicas": list(each.replicas),
                "in_sync": list(each.in_sync),
                "begin": each.begin,
                "end": each.end,
                "records": each.records,
            }
            for each in found.partitions
        ],
        "settings": _settings(found),
        "groups": [
            {
                "group_id": each.group_id,
                "state": each.state,
                "members": each.members,
                "lag": each.lag,
                "partitions": {str(number): lag for number, lag in each.partitions.items()},
            }
            for each in found.groups
        ],
        "bytes": None,  # Kafka's C client cannot ask for it
        "value_schema": value_schema,
        "key_schema": key_schema,
    }


@router.get("/api/topics/{topic}/skew")
def skew(topic: TopicPath, console: Here) -> dict[str, Any]:
    """The load of each partition and the hottest keys of the newest 100,000 records, with a verdict."""
    return measure(console.connection, topic).as_data()


def _settings(found: TopicDescription) -> list[dict[str, Any]] | None:
    if found.settings is None:
        return None
    return [{"name": each.name, "value": each.value, "is_own": each.is_own} for each in found.settings]


def _schemas(console: Console, topic: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The latest schemas of values and keys; None without a registry, since the rest is still useful."""
    try:
        with Registry(console.connection) as registry:
            return _latest(registry, f"{topic}-value"), _latest(registry, f"{topic}-key")
    except GearshiftError:
        return None, None


def _latest(registry: Registry, subject: str) -> dict[str, Any] | None:
    numbers = registry.version_numbers(subject)
    if not numbers:
        return None
    schema = registry.version(subject, max(numbers))
    return {"subject": subject, "id": schema.id, "version": max(numbers), "format": schema.format}
