"""An app with two gearboxes in a process of its own: `python -m tests.integration.gearbox_process NAME`."""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift.gearbox.measurements import Limits
from gearshift.runner.runner import Runner
from gearshift.settings import load
from tests.flow import Count, Event

SLOW = "slow"
"""The key of records that take a pipeline long."""
# Only silence saves so much, and only a slow burst makes records so old.
HURRIED = Limits(
    rest=timedelta(seconds=2),
    calm=timedelta(seconds=3),
    budget=20,
    budget_time=timedelta(seconds=10),
    down_below=0.85,
    up_above=0.95,
    late_share=1.0,
    saving=0.9,
    worth_draining=timedelta(milliseconds=50),
)


@dataclass(frozen=True)
class Declared:
    """The app and its topics."""

    app: gs.App
    events: gs.Topic
    copies: gs.Topic
    counts: gs.Topic


def declare(name: str) -> Declared:
    """A copy that micro-batches can keep fresh, and a count that only real-time can."""
    app = gs.App(name)
    events = app.topic(f"{name}-events", value=Event, key="key", partitions=4)
    copies = app.topic(f"{name}-copies", value=Event, key="key")
    counts = app.topic(f"{name}-counts", value=Count, key="key")

    @app.pipeline(events, to=copies, freshness="5 seconds", gear="auto")
    def copy(events: DataFrame) -> DataFrame:
        steps = F.sequence(F.lit(0), F.col("n") + 400_000)
        total = F.aggregate(steps, F.lit(0).cast("long"), lambda sum_, step: sum_ + step)
        worked = F.when(F.col("key") == SLOW, total).otherwise(F.lit(1).cast("long"))
        return events.select("key", F.when(worked > 0, F.col("n")).otherwise(F.lit(-1)).alias("n"))

    @app.pipeline(events, to=counts, freshness="1 second", gear="auto")
    def count(events: DataFrame) -> DataFrame:
        return events.groupBy("key").agg(F.count("*").alias("count"))

    return Declared(app, events, copies, counts)


if __name__ == "__main__":
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    with Runner(declare(sys.argv[1]).app, load(), limits=HURRIED):
        ending.wait()
