"""`gearshift batch`: runs intervals of one pipeline in a separate Spark, without Kafka."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress

from gearshift.app import App
from gearshift.calendars import Interval
from gearshift.definitions import Pipeline
from gearshift.pipelines.context import Context
from gearshift.pipelines.intervals.log import Entry
from gearshift.pipelines.intervals.run import run_interval
from gearshift.settings import Settings
from gearshift.spark.session import jars_for, open_session
from gearshift.storage.reaching import require_all_reachable


@contextmanager
def opened(app: App, settings: Settings) -> Generator[Context]:
    """Spark and settings to run intervals with; leaving the context cancels a running interval."""
    graph = app.graph
    log_file = settings.home.absolute() / "logs" / "batch.log"
    require_all_reachable(settings.checkpoints_uri, settings.warehouse_uri)
    spark = open_session(graph, settings, jars_for(settings), log_file=log_file)
    try:
        yield Context(spark=spark, settings=settings, graph=graph)
    finally:
        with suppress(Exception):  # an interrupted call breaks its connection to Spark
            spark.sparkContext.cancelAllJobs()
        spark.stop()


def run_all(context: Context, pipeline: Pipeline, intervals: list[Interval], why: str) -> Iterator[Entry]:
    """Run intervals one after the other, oldest first."""
    for interval in intervals:
        yield run_interval(context, pipeline, interval, why)
