"""The fraud model: its features, its training and judging on held-back days, and scoring with a saved version.

Spark ML runs in Java: fitting takes Spark's jobs in a batch, and a fitted model is a projection, in every gear.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import OneHotEncoder, StringIndexer, VectorAssembler
from pyspark.ml.functions import vector_to_array
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from rules import flagged

THRESHOLD = 0.5
NUMBERS = (
    "log_amount",
    "is_tiny",
    "is_tiny_online",
    "abroad",
    "abroad_amount",
    "new_device",
    "new_device_amount",
    "is_night",
    "empties",
    "log_km",
)
NO_MODEL = "rules"  # the version of scores that no model gave

COLUMNS = (
    "version string, trained_until timestamp, judged_until timestamp, rows bigint, frauds bigint, held_back bigint, "
    "found bigint, false_alarms bigint, missed bigint, precision double, recall double, auc double, "
    "rules_found bigint, rules_false_alarms bigint, rules_missed bigint, rules_precision double, rules_recall double, "
    "approved boolean, folder string"
)
"""The columns of the table of models."""


@dataclass(frozen=True)
class Judgement:
    """How well something found the frauds of the held-back days."""

    found: int
    false_alarms: int
    missed: int

    @property
    def precision(self) -> float | None:
        """The share of the alarms that are right."""
        alarms = self.found + self.false_alarms
        return self.found / alarms if alarms else None

    @property
    def recall(self) -> float | None:
        """The share of the frauds that are found."""
        frauds = self.found + self.missed
        return self.found / frauds if frauds else None

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 where nothing is found."""
        return 2 * self.found / (2 * self.found + self.false_alarms + self.missed) if self.found else 0.0


def features(transactions: DataFrame) -> DataFrame:
    """The numbers that the model sees. It sees neither the label nor anything that is known only later."""
    amount = F.greatest(F.col("amount").cast("double"), F.lit(0.0))
    log_amount = F.log1p(amount)
    tiny = (F.col("amount") > 0) & (F.col("amount") < 2)
    columns: dict[str, Column] = {
        "log_amount": log_amount,
        "is_tiny": _number(tiny),
        "is_tiny_online": _number(tiny & (F.col("kind") == "online")),
        "abroad": _number(F.col("is_abroad")),
        "abroad_amount": _number(F.col("is_abroad")) * log_amount,
        "new_device": _number(F.col("is_new_device")),
        "new_device_amount": _number(F.col("is_new_device")) * log_amount,
        "is_night": _number(F.hour("at") < 6),
        "empties": _number((F.col("amount") > 0) & (F.col("amount") == F.col("balance_before"))),
        "log_km": F.log1p(F.coalesce("distance_km", F.lit(0.0))),
    }
    return transactions.withColumns(columns)


def fit(transactions: DataFrame) -> PipelineModel:
    """A model of labelled transactions."""
    kind = StringIndexer(
        inputCol="kind", outputCol="kind_number", handleInvalid="keep", stringOrderType="alphabetAsc"
    )
    kinds = OneHotEncoder(inputCol="kind_number", outputCol="kinds", dropLast=False)
    vector = VectorAssembler(inputCols=[*NUMBERS, "kinds"], outputCol="features")
    regression = LogisticRegression(labelCol="label", maxIter=25, regParam=0.001)
    return Pipeline(stages=[kind, kinds, vector, regression]).fit(_labelled(features(transactions)))


def scores(model: PipelineModel, transactions: DataFrame) -> DataFrame:
    """The transactions with `score`, the probability of fraud."""
    scored = model.transform(features(transactions))
    return scored.withColumn("score", vector_to_array(F.col("probability"))[1])


def train(
    history: DataFrame, *, since: datetime, until: datetime, week: str, folder: Path
) -> dict[str, Any] | None:
    """Fit a model on the history before `since` and judge it on the days from then `until`; its row for the table.

    None while there is nothing to learn from. The version is a digest of the data, so that the same data makes the same
    version, which is saved once: a running pipeline may be reading its folder.
    """
    flags = flagged(history.where(F.col("at") < F.lit(until))).cache()
    try:
        seen, held_back = flags.where(F.col("at") < F.lit(since)), flags.where(F.col("at") >= F.lit(since))
        digest = F.bit_xor(F.xxhash64("transaction_id", "amount", "is_fraud"))
        counts = flags.agg(
            digest.alias("digest"),
            F.count_if(F.col("at") < F.lit(since)).alias("rows"),
            F.count_if((F.col("at") < F.lit(since)) & F.col("is_fraud")).alias("frauds"),
            F.count_if(F.col("at") >= F.lit(since)).alias("held_back"),
        ).first()
        assert counts is not None
        if not 0 < counts["frauds"] < counts["rows"]:
            return None
        version = f"{week}-{counts['digest'] & 0xFFFFFFFF:08x}"
        saved = folder.absolute() / version
        if saved.exists():
            fitted = load(history.sparkSession, saved.as_uri())
        else:
            fitted, partial = fit(seen), saved.with_name(f".{version}")
            fitted.write().overwrite().save(partial.as_uri())
            partial.rename(saved)
        judged = scores(fitted, held_back)
        ours = judge(judged, F.col("score") >= THRESHOLD)
        rules = judge(judged, F.col("by_rules"))
        evaluator = BinaryClassificationEvaluator(
            rawPredictionCol="score", numBins=0
        )  # exact, of every threshold
        can_rank = 0 < ours.found + ours.missed < counts["held_back"]
        return {
            "version": version,
            "trained_until": since,
            "judged_until": until,
            **{name: counts[name] for name in ("rows", "frauds", "held_back")},
            **_columns(ours),
            "auc": evaluator.evaluate(_labelled(judged)) if can_rank else None,
            **{f"rules_{name}": value for name, value in _columns(rules).items()},
            # At least as good as the rules, on days that have fraud to find.
            "approved": can_rank and ours.f1 >= rules.f1,
            "folder": saved.as_uri(),
        }
    finally:
        flags.unpersist()


def judge(held_back: DataFrame, alarm: Column) -> Judgement:
    """Compare alarms with what the customers reported."""
    fraud = F.col("is_fraud")
    counts = held_back.agg(
        F.count_if(alarm & fraud), F.count_if(alarm & ~fraud), F.count_if(~alarm & fraud)
    ).first()
    assert counts is not None
    return Judgement(*counts)


def newest_approved(models: DataFrame) -> dict[str, Any] | None:
    """The row of the newest approved model, if there is one."""
    found = models.where("approved").orderBy(F.desc("judged_until")).first()
    return found.asDict() if found is not None else None


def scored(transactions: DataFrame, models: DataFrame) -> DataFrame:
    """The transactions with the `score` and the `version` of the newest approved model; without one, no score."""
    newest = newest_approved(models)
    if newest is None:
        return transactions.withColumns({"score": F.lit(None).cast("double"), "version": F.lit(NO_MODEL)})
    model = load(transactions.sparkSession, newest["folder"])
    return scores(model, transactions).withColumn("version", F.lit(newest["version"]))


def load(spark: SparkSession, folder: str) -> PipelineModel:
    """A saved model; loaded once per Spark application, so that a shift does not wait for it."""
    return _load(spark.sparkContext.applicationId, folder)


@lru_cache(maxsize=4)
def _load(_application: str, folder: str) -> PipelineModel:
    return PipelineModel.load(folder)


def _columns(judgement: Judgement) -> dict[str, Any]:
    return {**asdict(judgement), "precision": judgement.precision, "recall": judgement.recall}


def _labelled(transactions: DataFrame) -> DataFrame:
    return transactions.withColumn("label", _number(F.col("is_fraud")))


def _number(condition: Column) -> Column:
    return F.coalesce(condition.cast("double"), F.lit(0.0))
