"""The smart-meter story: one stream of readings, three promises.

A load above 2 kW reaches the meter's owner as a text message within a second; the history is never
older than ten seconds; the bill comes once a month. The same records, the same code base, three gears.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs

METERS = 60
TIME_FACTOR = float(os.environ.get("TIME_FACTOR", "300"))  # a meter's minute lasts 60 / TIME_FACTOR seconds
SMS_URL = os.environ.get("SMS_URL", "http://127.0.0.1:8025")  # gateway.py listens there
Money = Annotated[Decimal, gs.DecimalOf(12, 2)]


@dataclass
class MeterReading:
    meter_id: str
    load_kw: float
    read_at: datetime


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


@app.source(readings, rate=METERS * TIME_FACTOR / 60)
def meters() -> Iterator[MeterReading]:
    """Every meter sends a reading a minute; people cook at noon and in the evening, and some own a sauna."""
    chance = random.Random(7)
    clock = datetime.now(UTC).replace(second=0, microsecond=0)
    while True:
        for meter in range(METERS):
            hour = clock.hour + clock.minute / 60
            usual = 0.3 + 0.5 * math.exp(-((hour - 12) ** 2) / 4) + 0.9 * math.exp(-((hour - 19) ** 2) / 6)
            load = usual * chance.uniform(0.5, 1.5) + (
                chance.uniform(1.5, 3.0) if chance.random() < 0.02 else 0.0
            )
            yield MeterReading(f"meter-{meter:03}", round(load, 3), clock)
        clock += timedelta(minutes=1)


@app.pipeline(source=readings, to=alerts, freshness="1 second")
def load_alerts(readings: DataFrame) -> DataFrame:
    """A load above 2 kW, told in time to switch something off."""
    return readings.where(F.col("load_kw") > 2).select("meter_id", "load_kw", "read_at")


@app.pipeline(source=readings, to=history, freshness="10 seconds")
def keep_history(readings: DataFrame) -> DataFrame:
    """Every reading, kept by day."""
    return readings.withColumn("day", F.to_date("read_at"))


@app.pipeline(source=history, to=bills, freshness="1 month")
def monthly_bills(history: DataFrame) -> DataFrame:
    """Each meter's month: a reading a minute is a sixtieth of a kilowatt hour, dear by day and cheap by night."""
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
    """One text for each meter and reading, however often the alert comes."""
    load = alert.value
    text = f"{load.meter_id}: load is {load.load_kw:.2f} kW at {load.read_at:%Y-%m-%d %H:%M}"
    return gs.destinations.SmsMessage(phone_of(load.meter_id), text)


def phone_of(meter_id: str) -> str:
    """The number of a meter's owner; a real app would ask its customer database."""
    return f"+31612340{meter_id[-3:]}"
