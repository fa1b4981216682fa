"""Card statements: batch on a calendar.

Transactions arrive on a topic and are stored in a table. At the end of a month each card gets a statement and the
bank gets its spending by category. Corrections arrive late: statements of their month are recomputed automatically;
spending is closed after 45 days, and its month has to be rerun by hand.
"""

from __future__ import annotations

from decimal import Decimal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from simulator import CardTransaction

import gearshift as gs

CASH_FEE = Decimal("0.04")
LEAST_CASH_FEE = Decimal("3.00")
LEAST_PAYMENT = Decimal("10.00")
DAYS_TO_PAY = 21

app = gs.App("card-statements", timezone="Europe/Amsterdam")
arriving = app.topic("card-transactions", value=CardTransaction, key="card", partitions=2)
transactions = app.table("transactions", key="transaction_id", sequence_by="revision")
statements = app.table("statements")
spending = app.table("spending")


@app.pipeline(source=arriving, to=transactions, freshness="10 seconds")
def keep_transactions(arriving: DataFrame) -> DataFrame:
    """Every transaction, in its latest revision."""
    return arriving


@app.pipeline(source=transactions, to=statements, freshness="1 month", event_time="booked_at")
def monthly_statements(transactions: DataFrame, interval: gs.Interval) -> DataFrame:
    """What each card owes for a month: purchases minus refunds, plus a fee for each cash withdrawal."""
    amount = F.col("amount")
    is_cash = F.col("category") == "cash"
    fee = F.greatest(F.round(amount * F.lit(CASH_FEE), 2), F.lit(LEAST_CASH_FEE))
    owed = transactions.groupBy("card").agg(
        _money(F.sum(F.when(amount > 0, amount).otherwise(0))).alias("purchases"),
        _money(F.sum(F.when(amount < 0, -amount).otherwise(0))).alias("refunds"),
        _money(F.sum(F.when(is_cash, fee).otherwise(0))).alias("fees"),
        F.count("*").alias("transactions"),
    )
    total = F.col("purchases") - F.col("refunds") + F.col("fees")
    least = F.greatest(F.round(total * F.lit(Decimal("0.025")), 2), F.lit(LEAST_PAYMENT))
    return owed.select(
        "card",
        F.lit(f"{interval.start:%Y-%m}").alias("month"),
        "purchases",
        "refunds",
        "fees",
        _money(total).alias("total"),
        _money(F.greatest(F.least(least, total), F.lit(0))).alias("least_payment"),
        F.date_add(F.lit(interval.end.date()), DAYS_TO_PAY).alias("pay_by"),
        "transactions",
    )


@app.pipeline(
    source=transactions, to=spending, freshness="1 month", event_time="booked_at", allowed_lateness="45 days"
)
def monthly_spending(transactions: DataFrame, interval: gs.Interval) -> DataFrame:
    """The monthly spending of all cards by category."""
    return (
        transactions.groupBy("category")
        .agg(
            _money(F.sum("amount")).alias("amount"),
            F.count("*").alias("transactions"),
            F.countDistinct("card").alias("cards"),
        )
        .withColumn("month", F.lit(f"{interval.start:%Y-%m}"))
    )


def _money(column: F.Column) -> F.Column:
    return column.cast("decimal(12,2)")
