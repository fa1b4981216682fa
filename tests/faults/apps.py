"""The apps that the fault tests kill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from tests.flow import Count, Event

BATCH, NEAR, REAL = "batch", "near-real-time", "real-time"
EVERY_GEAR = {
    f"{kind}_in_{label}": gear
    for label, gear in (("batch", BATCH), ("near", NEAR), ("real", REAL))
    for kind in ("copy", "count")
}
# For each record: so that a batch takes seconds, and a test can meet it in its middle.
_A_MOMENT = "reflect('java.lang.Thread', 'sleep', 2L) is null"
PACE = "2 seconds"  # so that near-real-time starts a micro-batch every second


@dataclass(frozen=True)
class Pipelines:
    """Pipelines over one topic, each with a target of its own."""

    app: gs.App
    events: gs.Topic
    targets: dict[str, gs.Topic]


def copies_and_counts(name: str, gears: Mapping[str, str], *, replicas: int | None = None) -> Pipelines:
    """Declare a pipeline for each name: stateless for `copy_…`, stateful for `count_…`."""
    app = gs.App(name)
    events = app.topic(f"{name}-events", value=Event, key="key", partitions=3, replicas=replicas)
    targets: dict[str, gs.Topic] = {}
    for pipeline, gear in gears.items():

        def copy(events: DataFrame) -> DataFrame:
            return events

        def copy_slowly(events: DataFrame) -> DataFrame:
            return events.where(_A_MOMENT)

        def count(events: DataFrame) -> DataFrame:
            return events.groupBy("key").agg(F.count("*").alias("count"))

        transform, value = (copy, Event) if pipeline.startswith("copy_") else (count, Count)
        transform = copy_slowly if pipeline == "copy_in_batch" else transform
        transform.__name__ = pipeline
        target = f"{name}-{pipeline.replace('_', '-')}"
        targets[pipeline] = app.topic(target, value=value, key="key", partitions=3, replicas=replicas)
        pace = (
            "1 hour" if gear == BATCH else PACE
        )  # the first batch runs at once, the others when a test says
        app.pipeline(source=events, to=targets[pipeline], freshness=pace, gear=gear)(transform)
    return Pipelines(app, events, targets)


@dataclass(frozen=True)
class Tables:
    """Pipelines from one topic, each to a table of its own."""

    app: gs.App
    events: gs.Topic
    kept: dict[str, gs.Table]


def keep(name: str, pipelines: Iterable[str]) -> Tables:
    """Declare a pipeline for each name, near-real-time."""
    app = gs.App(name)
    events = app.topic(f"{name}-events", value=Event, key="key", partitions=3)
    kept: dict[str, gs.Table] = {}
    for pipeline in pipelines:

        def rows(events: DataFrame) -> DataFrame:
            return events

        rows.__name__ = pipeline
        kept[pipeline] = app.table(f"{name}_{pipeline}")
        app.pipeline(source=events, to=kept[pipeline], freshness=PACE, gear=NEAR)(rows)
    return Tables(app, events, kept)
