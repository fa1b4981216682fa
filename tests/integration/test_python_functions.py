"""Python in a pipeline: pandas UDFs, the three ways to keep state, and a model of Spark ML, each really run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pandas as pd
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.regression import LinearRegression
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import gearshift as gs
from gearshift.freshness import Gear
from gearshift.pipelines.check.gears import Checker
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from gearshift.topics import Producer
from tests.flow import Event, values
from tests.support import eventually

SCORED = "key string, score double"


@dataclass
class Scored:
    key: str
    score: float


class Total(StatefulProcessor):
    """Adds up the numbers of each key."""

    def init(self, handle: Any) -> None:
        self._total = handle.getValueState("total", "total double")

    def _add(self, numbers: list[int]) -> float:
        before = self._total.get()[0] if self._total.exists() else 0.0
        self._total.update((before + sum(numbers),))
        return float(self._total.get()[0])

    def close(self) -> None:
        pass


class TotalOfRows(Total):
    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        yield Row(key=key[0], score=self._add([row.n for row in rows]))


class TotalOfPandas(Total):
    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        score = self._add([int(number) for frame in rows for number in frame["n"]])
        yield pd.DataFrame({"key": [key[0]], "score": [score]})


def add_up(key: tuple[str], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    total = (state.get[0] if state.exists else 0.0) + float(sum(frame["n"].sum() for frame in frames))
    state.update((total,))
    yield pd.DataFrame({"key": [key[0]], "score": [total]})


@lru_cache
def model(spark: SparkSession) -> Any:
    """Twice the number, learned."""
    known = spark.createDataFrame([(float(n), 2.0 * n) for n in range(10)], "n double, label double")
    return LinearRegression().fit(VectorAssembler(inputCols=["n"], outputCol="features").transform(known))


def test_every_kind_of_python_function_runs_in_near_real_time_and_real_time_says_what_it_cannot_take(
    unique: str, settings: Settings
) -> None:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key", partitions=2)
    names = ("twice_in_pandas", "total_of_rows", "total_of_pandas", "total_with_state", "predicted")
    out = {name: app.topic(f"{unique}-{name}", value=Scored, key="key") for name in names}
    how: dict[str, Any] = {"source": events, "gear": "near-real-time", "freshness": "2 seconds"}

    @app.pipeline(to=out["twice_in_pandas"], **how)
    def twice_in_pandas(events: DataFrame) -> DataFrame:
        @F.pandas_udf("double")
        def twice(numbers: pd.Series) -> pd.Series:
            return numbers * 2.0

        return events.select("key", twice("n").alias("score"))

    @app.pipeline(to=out["total_of_rows"], **how)
    def total_of_rows(events: DataFrame) -> DataFrame:
        return events.groupBy("key").transformWithState(TotalOfRows(), SCORED, "Update", "None")

    @app.pipeline(to=out["total_of_pandas"], **how)
    def total_of_pandas(events: DataFrame) -> DataFrame:
        return events.groupBy("key").transformWithStateInPandas(TotalOfPandas(), SCORED, "Update", "None")

    @app.pipeline(to=out["total_with_state"], **how)
    def total_with_state(events: DataFrame) -> DataFrame:
        return events.groupBy("key").applyInPandasWithState(
            add_up, SCORED, "total double", "Update", "NoTimeout"
        )

    @app.pipeline(to=out["predicted"], **how)
    def predicted(events: DataFrame) -> DataFrame:
        features = VectorAssembler(inputCols=["n"], outputCol="features").transform(events)
        scored = model(events.sparkSession).transform(features)
        return scored.select("key", F.round("prediction", 3).alias("score"))

    with Runner(app, settings) as runner, Producer(runner.context.connection) as producer:
        connection = runner.context.connection

        def latest(name: str) -> dict[str, float]:
            return {each.key: each.score for each in values(connection, out[name])}

        for turn in range(2):  # the second time there is state
            producer.send(events, Event("a", 5 + turn))
            producer.send(events, Event("b", 7 + turn))
            producer.flush()
            twice, total = {"a": 10.0, "b": 14.0}, {"a": 5.0, "b": 7.0}
            if turn:
                twice, total = {"a": 12.0, "b": 16.0}, {"a": 11.0, "b": 15.0}
            for name in names:
                wanted = total if name.startswith("total") else twice
                eventually(
                    lambda name=name, wanted=wanted: (
                        latest(name) == wanted or runner.supervisors[name].condition.error
                    ),
                    every=0.3,
                )
                assert runner.supervisors[name].condition.error is None
                assert latest(name) == wanted, name
        checker = Checker(runner.context)
        refusals = {
            name: [each.what for each in checker.report(pipeline).verdicts[Gear.REAL_TIME].refusals]
            for name, pipeline in runner.graph.pipelines.items()
        }
    assert refusals == {
        "twice_in_pandas": ["a Python UDF"],
        "total_of_rows": ["transformWithState in Python"],
        "total_of_pandas": ["transformWithState in Python"],
        "total_with_state": ["applyInPandasWithState"],
        "predicted": [],
    }
