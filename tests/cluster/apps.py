"""The app of the cluster tests: what a smart meter's app has, with records that can be counted."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from tests.flow import Count, Event

PACE = "4 seconds"  # so that near-real-time starts a micro-batch every two seconds


@dataclass(frozen=True)
class Meter:
    """Alerts in real-time, a history and the newest reading of each key near-real-time, and totals by month."""

    app: gs.App
    events: gs.Topic
    alerts: gs.Topic
    counts: gs.Topic
    history: gs.Table
    newest: gs.Table
    monthly: gs.Table


@dataclass(frozen=True)
class Priced:
    """A reading and its price."""

    key: str
    n: int
    price: int


def meter(name: str) -> Meter:
    """Declare it."""
    app = gs.App(name)
    events = app.topic(f"{name}-events", value=Event, key="key", partitions=2)
    alerts = app.topic(f"{name}-alerts", value=Event, key="key", partitions=2)
    counts = app.topic(f"{name}-counts", value=Count, key="key", partitions=2)
    history = app.table("history", partition_by="day")
    newest = app.table("newest", key="key")
    monthly = app.table("monthly")

    @app.pipeline(source=events, to=alerts, freshness="1 second")
    def alert(events: DataFrame) -> DataFrame:
        return events

    @app.pipeline(source=events, to=counts, freshness=PACE, gear="near-real-time")
    def count(events: DataFrame) -> DataFrame:
        return events.groupBy("key").agg(F.count("*").alias("count"))

    @app.pipeline(source=events, to=history, freshness=PACE, gear="near-real-time")
    def keep(events: DataFrame) -> DataFrame:
        """The first record is of January 2024, and each day has two thousand."""
        timed = events.withColumn("read_at", F.timestamp_seconds(F.lit(1704067200) + F.col("n") * 43))
        return timed.withColumn("day", F.to_date("read_at"))

    @app.pipeline(source=events, to=newest, freshness=PACE, gear="near-real-time")
    def follow(events: DataFrame) -> DataFrame:
        return events

    @app.pipeline(source=history, to=monthly, freshness="1 month", event_time="read_at")
    def bill(history: DataFrame) -> DataFrame:
        return history.groupBy("key").agg(F.count("*").alias("readings"))

    return Meter(app, events, alerts, counts, history, newest, monthly)
