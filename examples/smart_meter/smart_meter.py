"""Smart meters: one stream of readings, three kinds of freshness.

A load above 2 kW is texted to the meter's owner within a second; the history is at most ten seconds old; bills are
computed once a month. The same records, the same code base, three gears.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from reading import MeterReading
from simulator import METERS, simulate

import gearshift as gs

TIME_FACTOR = float(os.environ.get("TIME_FACTOR", "300"))  # a simulated minute lasts 60 / TIME_FACTOR seconds
SMS_URL = os.environ.get("SMS_URL", "http://127.0.0.1:8025")  # gateway.py listens there
Money = Annotated[Decimal, gs.DecimalOf(12, 2)]


@dataclass
class LoadAlert:
    meter_id: str
    load_kw: float
    read_at: datetime


app = gs.App("smart-meter")
readings = app.topic("meter-readings", value=MeterReading, key="meter_id", partitions=3)
alerts = app.topic("load-alerts", value=LoadAlert, key="meter_id", partitions=3)
history = app.table("readings_history", partition_by="day")
bills = app.table("monthly_bills", partition_by="month")

app.board(
    "meters",
    gs.Number(alerts, title="Alerts today", today=True),
    gs.Series(readings, value="load_kw", unit="kW", title="Mean load"),
    gs.Feed(alerts, text="{meter_id}: {load_kw} kW", at="read_at", level="warning", title="Load alerts"),
    gs.Leaderboard(bills, by="amount", label="meter_id", newest="month", title="Highest bills"),
)


@app.source(to=readings, rate=METERS * TIME_FACTOR / 60)
def meters() -> Iterator[MeterReading]:
    """One reading per meter and minute, from now on."""
    return simulate(datetime.now(UTC))


@app.pipeline(source=readings, to=alerts, freshness="1 second")
def load_alerts(readings: DataFrame) -> DataFrame:
    """Loads above 2 kW, in time to switch something off."""
    return readings.where(F.col("load_kw") > 2).select("meter_id", "load_kw", "read_at")


@app.pipeline(source=readings, to=history, freshness="10 seconds")
def keep_history(readings: DataFrame) -> DataFrame:
    """Every reading, partitioned by day."""
    return readings.withColumn("day", F.to_date("read_at"))


@app.pipeline(source=history, to=bills, freshness="1 month")
def monthly_bills(history: DataFrame) -> DataFrame:
    """Each meter's month: one reading per minute, and a higher price by day than by night."""
    energy = (F.col("load_kw") / 60).cast("decimal(18,9)")
    by_day = F.hour("read_at").between(6, 21)
    price = F.when(by_day, F.lit(Decimal("0.3200"))).otherwise(F.lit(Decimal("0.2400")))
    return (
        history.groupBy("meter_id", F.date_format("read_at", "yyyy-MM").alias("month"))
        .agg(
            F.sum(energy).cast("decimal(18,6)").alias("kwh"),
            F.sum(energy * price).cast("decimal(12,2)").alias("amount"),
            F.count("*").alias("readings"),
        )
        .select("meter_id", "month", "kwh", "amount", "readings")
    )


sms = gs.destinations.Sms(
    account="AC-demo", token="demo", sender="+15005550006", url=SMS_URL, idempotent=True
)


@app.delivery(alerts, group_id="sms-sender", to=sms, once_by=("meter_id", "read_at"), parallelism=4)
def text_owner(alert: gs.Record[LoadAlert]) -> gs.destinations.SmsMessage:
    """One text message per meter and reading, even if the alert is delivered again."""
    load = alert.value
    text = f"{load.meter_id}: load is {load.load_kw:.2f} kW at {load.read_at:%Y-%m-%d %H:%M}"
    return gs.destinations.SmsMessage(phone_of(load.meter_id), text)


def phone_of(meter_id: str) -> str:
    """The phone number of a meter's owner; a real app would look it up."""
    return f"+31612340{meter_id[-3:]}"
