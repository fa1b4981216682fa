"""One pipeline of an app under a unique prefix, so that runs on one stack do not meet."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from gearshift.app import App
from gearshift.definitions import Delivery, Graph, Pipeline, Table, Topic
from gearshift.errors import DefinitionError
from gearshift.freshness import Freshness, Gear

_SOON = Freshness(2, "second")  # a micro-batch every second, whatever the declared freshness


def pipeline_named(app: App, pipeline: Callable[..., Any] | str) -> Pipeline:
    """A pipeline of an app, by its function or its name."""
    known = app.graph.pipelines
    name = pipeline if isinstance(pipeline, str) else pipeline.__name__
    found = known.get(name)
    if found is None or (not isinstance(pipeline, str) and found.transform is not pipeline):
        raise DefinitionError(f"unknown pipeline {name!r}", hint=suggest(name, list(known)), app=app.name)
    return found


def delivery_named(app: App, delivery: Callable[..., Any] | str) -> Delivery:
    """A delivery of an app, by its function or its name."""
    known = app.graph.deliveries
    name = delivery if isinstance(delivery, str) else delivery.__name__
    found = known.get(name)
    if found is None or (not isinstance(delivery, str) and found.handler is not delivery):
        raise DefinitionError(f"unknown delivery {name!r}", hint=suggest(name, list(known)), app=app.name)
    return found


def unique_prefix() -> str:
    """A prefix that nobody else uses.

    >>> len(unique_prefix())
    9
    """
    return f"t{uuid.uuid4().hex[:8]}"


def isolated(graph: Graph, pipeline: Pipeline, gear: Gear, prefix: str) -> Graph:
    """A graph with this pipeline only, in this gear, whose topics and app have names of their own.

    Tables keep their names: they are in the folder of the run. A target topic has one partition, so that its order is
    the order of writing.
    """
    before = f"{prefix}-{gear}"

    def renamed(each: Topic | Table) -> Topic | Table:
        if isinstance(each, Table):
            return replace(each, publish=None)
        return replace(each, name=f"{before}.{each.name}", external=False, max_lag=None, replicas=None)

    sources = {name: renamed(source) for name, source in pipeline.sources.items()}
    target = renamed(pipeline.target)
    if isinstance(target, Topic):
        target = replace(target, partitions=1)
    freshness = pipeline.freshness if pipeline.intervals is not None else _SOON
    copy = replace(pipeline, sources=sources, target=target, gear=gear, freshness=freshness)
    used = [*sources.values(), target]
    return Graph(
        app=f"{before}.{graph.app}",
        timezone=graph.timezone,
        topics={each.name: each for each in used if isinstance(each, Topic)},
        tables={each.name: each for each in used if isinstance(each, Table)},
        pipelines={copy.name: copy},
    )


def suggest(name: str, known: list[str]) -> str:
    """A hint for an unknown name: the closest known one, or all of them."""
    close = get_close_matches(name, known, 1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"use one of {', '.join(known)}" if known else "the app declares none"
