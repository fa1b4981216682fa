"""The apps that the fault tests kill."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from tests.flow import Count, Event

PACE = "4 seconds"  # so that near-real-time starts a micro-batch every two seconds


@dataclass(frozen=True)
class CopyAndCount:
    """A stateless pipeline, `copy`, and a stateful one, `count`, over the same topic."""

    app: gs.App
    events: gs.Topic
    copies: gs.Topic
    counts: gs.Topic


def copy_and_count(
    name: str, *, copy_in: str = "batch", count_in: str = "batch", replicas: int | None = None
) -> CopyAndCount:
    """Declare the two, each in a gear."""
    app = gs.App(name)
    events = app.topic(f"{name}-events", value=Event, key="key", partitions=3, replicas=replicas)
    copies = app.topic(f"{name}-copies", value=Event, key="key", partitions=3, replicas=replicas)
    counts = app.topic(f"{name}-counts", value=Count, key="key", partitions=3, replicas=replicas)

    @app.pipeline(source=events, to=copies, freshness=PACE, gear=copy_in)
    def copy(events: DataFrame) -> DataFrame:
        return events

    @app.pipeline(source=events, to=counts, freshness=PACE, gear=count_in)
    def count(events: DataFrame) -> DataFrame:
        return events.groupBy("key").agg(F.count("*").alias("count"))

    return CopyAndCount(app, events, copies, counts)


@dataclass(frozen=True)
class Keep:
    """A pipeline, `keep`, from a topic to a table."""

    app: gs.App
    events: gs.Topic
    kept: gs.Table


def keep(name: str) -> Keep:
    """Declare it, near-real-time."""
    app = gs.App(name)
    events = app.topic(f"{name}-events", value=Event, key="key", partitions=3)
    kept = app.table(f"{name}_kept")

    @app.pipeline(source=events, to=kept, freshness=PACE, gear="near-real-time")
    def keep(events: DataFrame) -> DataFrame:
        """With state: a batch that the table has and Spark has not must bring its state stores along."""
        timed = events.withColumn("at", F.timestamp_seconds(F.col("n") + 1))
        return timed.withWatermark("at", "1 day").dropDuplicatesWithinWatermark(["n"])

    return Keep(app, events, kept)


@dataclass(frozen=True)
class Republish:
    """A pipeline, `keep`, from a topic to a table, and one, `publish`, from the table to a topic."""

    app: gs.App
    events: gs.Topic
    copies: gs.Topic


def republish(name: str) -> Republish:
    """Declare both, in batches."""
    app = gs.App(name)
    events = app.topic(f"{name}-events", value=Event, key="key", partitions=3)
    copies = app.topic(f"{name}-copies", value=Event, key="key", partitions=3)
    kept = app.table(f"{name}_kept")

    @app.pipeline(source=events, to=kept, gear="batch", freshness="1 day")
    def keep(events: DataFrame) -> DataFrame:
        return events

    @app.pipeline(source=kept, to=copies, freshness="1 day")
    def publish(kept: DataFrame) -> DataFrame:
        return kept

    return Republish(app, events, copies)


@dataclass(frozen=True)
class FourCounts:
    """Four stateful pipelines over one topic: two in near-real-time, two in real-time."""

    app: gs.App
    events: gs.Topic
    counts: dict[str, gs.Topic]


def four_counts(name: str) -> FourCounts:
    """Declare them."""
    app = gs.App(name)
    events = app.topic(f"{name}-events", value=Event, key="key", partitions=2)
    gears = {"near": "near-real-time", "nearer": "near-real-time", "real": "real-time", "realer": "real-time"}
    counts = {each: app.topic(f"{name}-{each}", value=Count, key="key", partitions=2) for each in gears}

    def declare(pipeline: str) -> None:
        def count(events: DataFrame) -> DataFrame:
            return events.groupBy("key").agg(F.count("*").alias("count"))

        count.__name__ = pipeline
        app.pipeline(events, to=counts[pipeline], freshness=PACE, gear=gears[pipeline])(count)

    for each in gears:
        declare(each)
    return FourCounts(app, events, counts)
