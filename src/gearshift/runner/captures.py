"""The change captures of a running app: started and described."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gearshift.connection import Connection
from gearshift.definitions import Graph, Topic
from gearshift.settings import Settings
from gearshift.sources.cdc.capture import Capture, parts


def needs(graph: Graph) -> list[str]:
    """The local services that the app's change captures need."""
    return [service for capture in graph.captures.values() for service in (capture.database, "connect")]


def topics_of(graph: Graph) -> list[Topic]:
    """Every topic of an app: the declared ones, and one for each captured table."""
    captured = [topic for capture in graph.captures.values() for topic in capture.topics.values()]
    return [*graph.topics.values(), *captured]


def start_captures(
    graph: Graph,
    connection: Connection,
    settings: Settings,
    *,
    progress: Callable[[str], None],
    at_exit: Callable[[Callable[[], None]], None],
) -> dict[str, Capture]:
    """Start every change capture of an app; its topics already exist."""
    captures: dict[str, Capture] = {}
    for declared in graph.captures.values():
        for capture in parts(declared, settings):
            progress(f"starting change capture {capture.name}")
            running = captures[capture.name] = Capture(capture, settings, connection)
            at_exit(running.close)
            running.open()
    return captures


def describe(running: Capture) -> dict[str, Any]:
    """The last known status of a change capture, as plain data."""
    last = running.last
    return {
        "name": running.capture.name,
        "connector": running.capture.connector,
        "topics": [topic.name for topic in running.capture.topics.values()],
        "state": last.state.lower() if last is not None else "starting",
        "tasks": [
            {
                "number": task.number,
                "state": task.state.lower(),
                "cause": str(task.cause) if task.cause is not None else None,
            }
            for task in (last.tasks if last is not None else ())
        ],
        "running": last is not None and last.running and running.error is None,
        "error": running.error,
        "restarts": running.restarts,
    }
