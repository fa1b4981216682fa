"""One small pipeline per operator, for `tools/operators.py`, which asks the checker about each.

A pipeline's docstring is its row in docs/operators.md, and its `return` line is the code shown there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd
from pyspark.ml import Pipeline
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.regression import LinearRegression
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import gearshift as gs


@dataclass
class Event:
    key: str
    n: int
    at: datetime
    words: list[str]


@dataclass
class Result:
    key: str | None = None
    n: int | None = None
    at: datetime | None = None
    word: str | None = None
    count: int | None = None
    score: float | None = None


app = gs.App("operators")
events_topic = app.topic("events", value=Event, key="key")
others_topic = app.topic("others", value=Event, key="key")
names = app.table("names", key="key")
rows = app.table("rows")
totals = app.table("totals", key="key")

EVENTS: dict[str, Any] = {"events": events_topic}
BOTH: dict[str, Any] = {"events": events_topic, "others": others_topic}
NAMED: dict[str, Any] = {"events": events_topic, "names": names}

Transform = Callable[..., DataFrame]
GROUPS: dict[str, list[str]] = {}
"""The names of the pipelines under each heading of the page, in order."""


def operator(
    heading: str, source: dict[str, Any] = EVENTS, to: Any = None
) -> Callable[[Transform], Transform]:
    """Declare a pipeline under a heading; without `to` it writes a topic of its own."""

    def declare(transform: Transform) -> Transform:
        name = transform.__name__
        target = to if to is not None else app.topic(name.replace("_", "-"), value=Result, key="key")
        app.pipeline(source=source, to=target, gear="batch")(transform)
        GROUPS.setdefault(heading, []).append(name)
        return transform

    return declare


@app.pipeline(source=events_topic, to=names, freshness="1 minute")
def keep_names(events: DataFrame) -> DataFrame:
    return events.select("key", F.upper("key").alias("word"))


ROWS, STATE, JOINS, PYTHON, ORDER, TARGETS = (
    "Rows, one at a time",
    "Aggregations and duplicates",
    "Joins",
    "Python and models",
    "Order and layout",
    "Sources and targets",
)


@operator(ROWS)
def projection(events: DataFrame) -> DataFrame:
    """select, withColumn"""
    return events.select("key", (F.col("n") * 2).alias("n"))


@operator(ROWS)
def filtered(events: DataFrame) -> DataFrame:
    """where, filter"""
    return events.where(F.col("n") > 2).select("key", "n")


@operator(ROWS)
def exploded(events: DataFrame) -> DataFrame:
    """explode"""
    return events.select("key", F.explode("words").alias("word"))


@operator(ROWS, BOTH)
def united(events: DataFrame, others: DataFrame) -> DataFrame:
    """union of two topics"""
    return events.select("key", "n").unionByName(others.select("key", "n"))


@operator(ROWS)
def higher_order(events: DataFrame) -> DataFrame:
    """functions over arrays"""
    return events.select("key", F.array_join(F.transform("words", F.upper), " ").alias("word"))


@operator(STATE)
def counted(events: DataFrame) -> DataFrame:
    """groupBy and count, sum, max …"""
    return events.groupBy("key").count()


@operator(STATE)
def windowed(events: DataFrame) -> DataFrame:
    """F.window with a watermark"""
    return (
        events.withWatermark("at", "1 minute")
        .groupBy("key", F.window("at", "10 seconds"))
        .count()
        .drop("window")
    )


@operator(STATE)
def sliding(events: DataFrame) -> DataFrame:
    """F.window that slides"""
    return (
        events.withWatermark("at", "1 minute")
        .groupBy("key", F.window("at", "1 minute", "10 seconds"))
        .count()
        .drop("window")
    )


@operator(STATE)
def latest_by(events: DataFrame) -> DataFrame:
    """max_by, min_by"""
    return events.groupBy("key").agg(F.max_by("n", "at").alias("n"))


@operator(STATE)
def top_three(events: DataFrame) -> DataFrame:
    """the top N of a group, as an array"""
    return events.groupBy("key").agg(
        F.array_join(F.slice(F.array_sort(F.collect_set("n")), -3, 3), " ").alias("word")
    )


@operator(STATE)
def deduplicated(events: DataFrame) -> DataFrame:
    """dropDuplicates"""
    return events.withWatermark("at", "1 minute").dropDuplicates(["key", "at"]).select("key", "at")


@operator(STATE)
def deduplicated_within(events: DataFrame) -> DataFrame:
    """dropDuplicatesWithinWatermark"""
    return events.withWatermark("at", "1 minute").dropDuplicatesWithinWatermark(["key"]).select("key")


@operator(STATE)
def sessions(events: DataFrame) -> DataFrame:
    """session window"""
    return (
        events.withWatermark("at", "1 minute")
        .groupBy("key", F.session_window("at", "5 minutes"))
        .count()
        .drop("session_window")
    )


@operator(STATE)
def chained(events: DataFrame) -> DataFrame:
    """an aggregation of an aggregation"""
    return (
        events.withWatermark("at", "1 minute")
        .groupBy("key", F.window("at", "10 seconds"))
        .count()
        .groupBy("key", F.window(F.window_time("window"), "1 minute"))
        .agg(F.max("count").alias("count"))
        .drop("window")
    )


@operator(JOINS, NAMED)
def joined_broadcast(events: DataFrame, names: DataFrame) -> DataFrame:
    """a table, broadcast"""
    return events.join(F.broadcast(names), "key").select("key", "n", "word")


@operator(JOINS, NAMED)
def joined_shuffled(events: DataFrame, names: DataFrame) -> DataFrame:
    """a table, shuffled"""
    return events.join(names.hint("merge"), "key").select("key", "n", "word")


@operator(JOINS, BOTH)
def joined_streams(events: DataFrame, others: DataFrame) -> DataFrame:
    """two topics"""
    return (
        events.join(others.select("key", F.col("at").alias("then")), "key")
        .where("at = then")
        .select("key", "n")
    )


@operator(PYTHON)
def model_scored(events: DataFrame) -> DataFrame:
    """a fitted Spark ML model"""
    return model(events.sparkSession).transform(events).select("key", F.col("prediction").alias("score"))


@operator(PYTHON)
def python_function(events: DataFrame) -> DataFrame:
    """Python UDF"""
    return events.select("key", F.udf(lambda word: word.upper(), "string")("key").alias("word"))


@operator(PYTHON)
def pandas_function(events: DataFrame) -> DataFrame:
    """pandas UDF"""
    return events.select("key", F.pandas_udf(twice, "long")("n").alias("n"))


@operator(PYTHON)
def mapped(events: DataFrame) -> DataFrame:
    """mapInPandas"""
    return events.select("key", "n").mapInPandas(same, "key string, n long")


@operator(PYTHON)
def transformed_with_state(events: DataFrame) -> DataFrame:
    """transformWithState"""
    return events.groupBy("key").transformWithState(Total(), "key string, n long", "Update", "None")


@operator(ORDER)
def repartitioned(events: DataFrame) -> DataFrame:
    """repartition by hash"""
    return events.repartition(2, "key").select("key", "n")


@operator(ORDER)
def repartitioned_by_range(events: DataFrame) -> DataFrame:
    """repartitionByRange"""
    return events.repartitionByRange(2, "key").select("key", "n")


@operator(ORDER)
def sorted_rows(events: DataFrame) -> DataFrame:
    """orderBy"""
    return events.orderBy("at").select("key", "n")


@operator(ORDER)
def limited(events: DataFrame) -> DataFrame:
    """limit"""
    return events.limit(10).select("key", "n")


@operator(ORDER)
def ranked(events: DataFrame) -> DataFrame:
    """rank over a Window"""
    return events.select("key", F.rank().over(Window.partitionBy("key").orderBy("n")).alias("count"))


@operator(TARGETS, to=rows)
def into_table(events: DataFrame) -> DataFrame:
    """rows into a table"""
    return events.select("key", "n")


@operator(TARGETS, to=totals)
def into_keyed_table(events: DataFrame) -> DataFrame:
    """running totals into a table with a key"""
    return events.groupBy("key").count()


@operator(TARGETS, to=app.table("running_counts"))
def running_into_table(events: DataFrame) -> DataFrame:
    """running totals into a table without a key"""
    return events.groupBy("key").count()


@operator(TARGETS, to=app.table("closed_windows"))
def windows_into_table(events: DataFrame) -> DataFrame:
    """closed windows into a table without a key"""
    return events.withWatermark("at", "1 minute").groupBy("key", F.window("at", "10 seconds")).count()


@operator(TARGETS, {"rows": rows}, to=app.table("report"))
def from_table(rows: DataFrame) -> DataFrame:
    """a table as the only source: every operator of Spark, ranks and sorts too"""
    return rows.select("key", F.rank().over(Window.orderBy("n")).alias("place"))


# What the pipelines above use


def model(spark: SparkSession) -> Any:
    """A model fitted to two points."""
    data = spark.createDataFrame([(1, 2.0), (2, 4.0)], "n long, label double")
    features = VectorAssembler(inputCols=["n"], outputCol="features")
    return Pipeline(stages=[features, LinearRegression(maxIter=1)]).fit(data)


def twice(numbers: pd.Series) -> pd.Series:
    return numbers * 2


def same(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    yield from frames


class Total(StatefulProcessor):
    """Adds up the numbers of each key."""

    def init(self, handle: Any) -> None:
        self._total = handle.getValueState("total", "total long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        before = self._total.get()[0] if self._total.exists() else 0
        self._total.update((before + sum(row.n for row in rows),))
        yield Row(key=key[0], n=self._total.get()[0])

    def close(self) -> None:
        pass
