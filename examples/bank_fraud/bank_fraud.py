"""Bank transactions and fraud: a model learns from history, real-time scores every payment, and balances are exact.

Once a week a batch fits a Spark ML model to the stored transactions, up to the last two days of the week, and compares it
on those days with the bank's rules. The table `models` records the data, precision, recall and AUC, and whether the
model is approved: its F1 is at least that of the rules. A run that is repeated for late rows replaces its week's model.

`score` joins that table, so each change of it restarts the query between two batches: the newest approved model takes
over and no transaction is lost. Until one is approved the bank's rules decide. A fitted model is Java, so real-time runs
it. Velocity rules need state: they are a windowed aggregation, which has a pipeline of its own in real-time too.

Repeated transactions count once: in balances and velocity for two days of event time, in the table and in the alerts
for good. `GEARSHIFT_STORY_DATA` names a file, folder or zip of transactions to read instead of simulating; balances then
begin at zero.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import model
import rules
from loader import load
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from simulator import last_weeks, simulate
from transaction import Alert, Balance, Burst, Scored, Transaction

import gearshift as gs

DATA = os.environ.get("GEARSHIFT_STORY_DATA")
MODELS = Path(os.environ.get("BANK_FRAUD_MODELS", ".gearshift/models"))  # a folder per version
HELD_BACK = timedelta(days=2)
LATENESS = "2 days"  # a transaction that is later than this no longer counts in balances and velocity

app = gs.App("bank-fraud")
transactions = app.topic("transactions", value=Transaction, key="account", partitions=2)
scored = app.topic("scored-transactions", value=Scored, key="account", partitions=2)
bursts = app.topic("payment-bursts", value=Burst, key="account")
alerts = app.topic("fraud-alerts", value=Alert, key="account")
balances = app.topic("balances", value=Balance, key="account")
history = app.table("history", key="transaction_id")
models = app.table("models")

app.board(
    "fraud",
    gs.Number(alerts, title="Alerts today", today=True),
    gs.Feed(alerts, text="{account}: {reason}", at="at", level="warning"),
    gs.TableView(
        models, columns=("version", "precision", "recall", "auc", "approved"), order_by="trained_until"
    ),
)


@app.source(
    to=transactions,
    rate=2_000 if DATA else 200,
    seed=7,
    out_of_order=0.0 if DATA else 0.05,
    duplicates=0.0 if DATA else 0.02,
    max_delay="1 second",  # hours of the simulated weeks
)
def bank() -> Iterator[Transaction]:
    """The transactions of the file, or four simulated weeks up to this one."""
    return load(Path(DATA)) if DATA else simulate(first=last_weeks(datetime.now(UTC).date()))


@app.pipeline(source=transactions, to=history, freshness="10 seconds")
def keep_history(transactions: DataFrame) -> DataFrame:
    """Every transaction once: the table's key drops repeated ones."""
    return transactions


@app.pipeline(
    source={"of_week": history, "history": history},
    to=models,
    freshness="1 week",
    event_time={"of_week": "at"},
)
def train(of_week: DataFrame, history: DataFrame, interval: gs.Interval) -> DataFrame:
    """The week's model, of all history before its last two days, judged on those; none without fraud to learn from."""
    is_over = interval.end <= datetime.now(UTC)  # `gearshift check` plans with the week in progress
    row = None
    if is_over and not of_week.isEmpty():
        week, since = f"{interval.start:%G-W%V}", interval.end - HELD_BACK
        row = model.train(history, since=since, until=interval.end, week=week, folder=MODELS)
    return history.sparkSession.createDataFrame([row] if row else [], model.COLUMNS)


@app.pipeline(
    source={"transactions": transactions, "models": models},
    to=scored,
    freshness="1 second",
    refresh="10 seconds",
)
def score(transactions: DataFrame, models: DataFrame) -> DataFrame:
    """Every transaction with the score of the newest approved model; the rules decide where there is none."""
    by_model = F.col("score") >= model.THRESHOLD
    return model.scored(transactions, models).select(
        *("transaction_id", "account", "amount", "at", "version", "score"),
        F.coalesce(by_model, rules.is_suspicious()).alias("is_suspicious"),
    )


@app.pipeline(source=transactions, to=bursts, freshness="1 second")
def velocity(transactions: DataFrame) -> DataFrame:
    """Each window of an account with too many or too large payments, and again with each further payment."""
    payments = F.col("payments"), F.col("amount")
    return (
        transactions.where(F.col("amount") > 0)
        .withWatermark("at", LATENESS)
        .dropDuplicates(["transaction_id", "at"])
        .groupBy("account", F.window("at", rules.WINDOW).alias("span"))
        .agg(F.count("*").alias("payments"), F.sum("amount").cast("decimal(28,2)").alias("amount"))
        .where(rules.is_too_much(*payments))
        .select("account", F.col("span.start").alias("since"), *payments)
    )


@app.delivery(scored, to=alerts, once_by=("account", "transaction_id"))
def alert_transaction(record: gs.Record[Scored]) -> Alert | None:
    """One alert per suspicious transaction, however often it was sent or scored."""
    found = record.value
    if not found.is_suspicious:
        return None
    certainty = f": {found.score:.0%}" if found.score is not None else ""
    return Alert(found.account, f"{found.version}{certainty}", found.transaction_id, found.at)


@app.delivery(bursts, to=alerts, once_by=("account", "since"))
def alert_burst(record: gs.Record[Burst]) -> Alert:
    """One alert per account and window, at the payment that makes it too much."""
    burst = record.value
    reason = f"{burst.payments} payments of {burst.amount} in {rules.WINDOW}"
    return Alert(burst.account, reason, f"{burst.since:%Y-%m-%dT%H:%M}", burst.since)


@app.pipeline(source=transactions, to=balances, freshness="1 second")
def balance_accounts(transactions: DataFrame) -> DataFrame:
    """The balance of each account: what arrived minus what left, each transaction once."""
    return (
        transactions.withWatermark("at", LATENESS)
        .dropDuplicates(["transaction_id", "at"])
        .groupBy("account")
        .agg((-F.sum("amount")).cast("decimal(28,2)").alias("balance"), F.count("*").alias("transactions"))
    )
