"""`gearshift batch`: intervals of one pipeline, run in a Spark of their own. Kafka is not needed."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress

from gearshift.app import App
from gearshift.calendars import Interval
from gearshift.definitions import Pipeline
from gearshift.pipelines.engine import Engine
from gearshift.pipelines.interval_log import Entry
from gearshift.pipelines.interval_runs import run_interval
from gearshift.pipelines.session import open_session
from gearshift.runner.offline import without_kafka
from gearshift.settings import Settings
from gearshift.stack.artifacts import jars


@contextmanager
def opened(app: App, settings: Settings) -> Generator[Engine]:
    """What intervals run on; leaving it in the middle of one cancels it."""
    graph = app.graph
    log_file = settings.home.absolute() / "logs" / "batch.log"
    spark = open_session(graph, settings, jars("spark", cache=settings.cache), log_file=log_file)
    try:
        with without_kafka(spark, settings, graph) as engine:
            yield engine
    finally:
        with suppress(Exception):  # a call that was interrupted takes its connection to Spark with it
            spark.sparkContext.cancelAllJobs()
        spark.stop()


def run_all(engine: Engine, pipeline: Pipeline, intervals: list[Interval], why: str) -> Iterator[Entry]:
    """Run intervals, the oldest first, each when the one before is done."""
    for interval in intervals:
        yield run_interval(engine, pipeline, interval, why)
