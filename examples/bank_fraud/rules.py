"""The rules that the bank has without a model: what is suspicious by itself, and what is too much in ten minutes."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

WINDOW = "10 minutes"
MOST_PAYMENTS = 5
MOST_AMOUNT = 4_000  # of two payments or more
ABROAD = 400
NEW_DEVICE = 1_000


def is_suspicious() -> Column:
    """Whether a transaction is suspicious by itself."""
    abroad = F.col("is_abroad") & (F.col("amount") >= ABROAD)
    return abroad | (F.col("is_new_device") & (F.col("amount") >= NEW_DEVICE))


def is_too_much(payments: Column, amount: Column) -> Column:
    """Whether an account's payments in one window are too many or too much."""
    return (payments >= MOST_PAYMENTS) | ((payments >= 2) & (amount >= MOST_AMOUNT))


def flagged(transactions: DataFrame) -> DataFrame:
    """Stored transactions with `by_rules`: whether a rule would have stopped each one when it was made."""
    spent = F.when(F.col("amount") > 0, F.col("amount"))
    until_now = (
        Window.partitionBy("account", "window_start")
        .orderBy("at", "transaction_id")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    too_much = is_too_much(F.count(spent).over(until_now), F.sum(spent).over(until_now))
    return (
        transactions.withColumn("window_start", F.window("at", WINDOW)["start"])
        .withColumn(
            "by_rules", is_suspicious() | ((F.col("amount") > 0) & F.coalesce(too_much, F.lit(False)))
        )
        .drop("window_start")
    )
