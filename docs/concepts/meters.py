"""The app of the pages on concepts: electricity meters, an alert for high loads, and a slow receiver of the alerts."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs


@dataclass
class Reading:
    meter_id: str
    load_kw: float
    read_at: datetime


app = gs.App("meters")
readings = app.topic("readings", value=Reading, key="meter_id", partitions=3, replicas=3)
alerts = app.topic("alerts", value=Reading, key="meter_id", partitions=3, replicas=3)
history = app.table("history")


@app.source(to=readings, rate=100)
def meters() -> Iterator[Reading]:
    """A factory and twenty houses; the factory's meter sends half of all readings."""
    chance = random.Random(7)
    while True:
        meter = "factory" if chance.random() < 0.5 else f"house-{chance.randrange(20):02}"
        yield Reading(meter, round(chance.uniform(0.1, 2.6), 2), datetime.now(UTC))


@app.pipeline(source=readings, to=alerts, freshness="1 second")
def load_alerts(readings: DataFrame) -> DataFrame:
    return readings.where(F.col("load_kw") > 2)


@app.pipeline(source=readings, to=history, freshness="10 seconds")
def keep_history(readings: DataFrame) -> DataFrame:
    return readings


@app.delivery(alerts, group_id="sms-sender", once_by=("meter_id", "read_at"))
def text_owner(alert: gs.Record[Reading]) -> None:
    if alert.value.meter_id == "house-13":
        raise ValueError("house-13 has no phone number")
    time.sleep(0.1)  # a gateway that takes ten messages a second, of some twenty that arrive
