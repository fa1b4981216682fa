"""The SparkSession of a test run: opened when the first test needs it, shared by the next ones, and closed in between.

A process has one Spark, so the session is closed before a test that does not use this plugin, which may open its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gearshift.definitions import Graph
from gearshift.errors import RunnerError
from gearshift.pipelines.listener import Progress, listen
from gearshift.settings import Settings
from gearshift.spark.private import has_session
from gearshift.spark.session import jars_for, open_session, start_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SLOTS = 32
_NO_APP = Graph(app="tests", timezone="UTC")


class Sessions:
    """Opens and closes the one session, and passes the progress of its queries to those who run them."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._folder = folder
        self.settings = settings
        self._lock = threading.RLock()
        self._spark: SparkSession | None = None
        self._slots = 0
        self._readers: dict[str, Callable[[Progress], None]] = {}

    def open(self, graph: Graph = _NO_APP, *, slots: int = 0) -> SparkSession:
        """The session, prepared for an app's functions, with at least this many task slots."""
        with self._lock:
            if self._spark is not None and (slots > self._slots or not _is_alive(self._spark)):
                self.close()
            log_file, found = self._folder / "logs" / "spark.log", jars_for(self.settings)
            ours = self.settings.model_copy(update={"home": self._folder})
            if self._spark is None:
                self._require_no_other()
                self._slots = max(_SLOTS, slots)
                os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # as `open_session` sets it
                # What the Java process is started with stays for all sessions of this process, also those of others.
                start_java(_with_spark(ours, {"spark.jars": ",".join(map(str, found))}), log_file=log_file)
            # A frame of a few rows needs no more tasks than a shuffle has.
            settings = _with_spark(ours, {"spark.default.parallelism": "2"}).model_copy(
                update={"spark_master": f"local[{self._slots}]"}
            )
            # For an open session this only makes the app's functions known to it.
            spark = open_session(graph, settings, found, log_file=log_file)
            if self._spark is None:
                listen(spark, self._pass_on)
                self._spark = spark
            return spark

    def close(self) -> None:
        """Stop Spark; its Java process stays."""
        with self._lock:
            spark, self._spark = self._spark, None
            if spark is not None and _is_alive(spark):
                spark.stop()

    def follow(self, query: str, reader: Callable[[Progress], None]) -> None:
        """Pass the progress of the query with this name to a function."""
        self._readers[query] = reader

    def unfollow(self, query: str) -> None:
        """Stop passing it on."""
        self._readers.pop(query, None)

    def _pass_on(self, progress: Progress) -> None:
        reader = self._readers.get(progress.query)
        if reader is not None:
            reader(progress)

    def _require_no_other(self) -> None:
        if has_session():
            raise RunnerError(
                "another SparkSession is open in this process, which has no more than one",
                hint="use the fixture gearshift_spark instead, or stop the other session first",
            )


def _with_spark(settings: Settings, configuration: dict[str, str]) -> Settings:
    return settings.model_copy(update={"spark": {**configuration, **settings.spark}})


def _is_alive(spark: Any) -> bool:
    try:
        return spark.sparkContext.startTime > 0
    except Exception:  # it was stopped, or its Java process has ended
        return False
