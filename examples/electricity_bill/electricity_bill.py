"""The electricity bill: half-hourly readings as meters really send them, and monthly bills in the customer's time zone.

The rules of a bill (their arithmetic is in `billing.py`):

- A reading up to five minutes off the grid of half hours is that of the nearest half hour. Other readings off the grid,
  nulls and negative values are set aside.
- A half hour counts once. Of several readings the one nearest to the grid counts; if they are equally near, the lowest.
- A month begins at midnight in the customer's time zone; a day whose clocks change has 46 or 50 half hours.
- A missing half hour, from the day of the customer's first reading, is counted and estimated: as the mean of the
  readings of its month. The estimates by day and by night are each rounded to a watt-hour.
- Each line of a bill is rounded half up to the cent; the total is the sum of the lines.

`month_so_far` has the month's energy in real-time. It cannot wait for a better reading of a half hour, so it counts the
first to arrive, and it estimates nothing. `GEARSHIFT_STORY_DATA` names a file of readings, METER_TIMEZONE the customers'
time zone and METER_DATES its order of day and month, where the file does not say them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import billing
from loader import load
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from reading import HalfHour, MeterReading, MonthSoFar
from simulator import simulate

import gearshift as gs

DATA, ZONE, DATES = map(os.environ.get, ("GEARSHIFT_STORY_DATA", "METER_TIMEZONE", "METER_DATES"))
LATENESS = "7 days"  # how late a reading may be for `month_so_far`; a bill has no limit


app = gs.App("electricity-bill")  # in UTC, as `wall_time` is written
readings = app.topic("raw-readings", value=MeterReading, key="meter_id", partitions=2)
half_hours = app.topic("half-hours", value=HalfHour, key="meter_id", partitions=2)
months = app.topic("months-so-far", value=MonthSoFar, key="meter_id")
stored = app.table("half_hours", key=("meter_id", "begins_at"), sequence_by=("nearness", "saving"))
bills = app.table("bills")


@app.source(
    to=readings,
    rate=2_000 if DATA else 300,
    seed=7,
    out_of_order=0.0 if DATA else 0.05,
    duplicates=0.0 if DATA else 0.02,
    max_delay="4 seconds",  # four days of simulated readings
)
def meters() -> Iterator[MeterReading]:
    """The readings of the file in the order of their time, or simulated ones."""
    return iter(load(Path(DATA), zone=ZONE, dates=DATES)) if DATA else simulate()


@app.pipeline(source=readings, to=half_hours, freshness="1 second")
def clean_readings(readings: DataFrame) -> DataFrame:
    """Usable readings, each at its half hour."""
    off = billing.off_grid("read_at", "zone")
    begins_at = F.timestamp_micros(F.unix_micros("read_at") - off)
    return readings.where((F.col("kwh") >= 0) & (F.abs(off) <= billing.TOLERANCE)).select(
        "meter_id",
        "tariff",
        "zone",
        begins_at.alias("begins_at"),
        F.from_utc_timestamp(begins_at, F.col("zone")).alias("wall_time"),
        "kwh",
        F.abs(off).alias("off_grid"),
    )


@app.pipeline(source=half_hours, to=months, freshness="1 second")
def month_so_far(half_hours: DataFrame) -> DataFrame:
    """Each customer's running month; a repeated reading counts once."""
    energy = billing.price("day") * F.col("day_kwh") + billing.price("night") * F.col("night_kwh")
    return (
        half_hours.withWatermark("begins_at", LATENESS)
        .dropDuplicates(["meter_id", "begins_at"])
        .groupBy("meter_id", "tariff", F.date_format("wall_time", "yyyy-MM").alias("month"))
        .agg(F.count("*").alias("half_hours"), *billing.day_and_night("kwh"))
        .withColumn("amount", billing.money(energy))
    )


@app.pipeline(source=half_hours, to=stored, freshness="10 seconds")
def keep_half_hours(half_hours: DataFrame) -> DataFrame:
    """Each half hour once, in its best reading, whichever arrives first."""
    return half_hours.withColumn("nearness", -F.col("off_grid")).withColumn("saving", -F.col("kwh"))


@app.pipeline(
    source={"half_hours": stored, "history": stored},
    to=bills,
    freshness="1 month",
    event_time={"half_hours": "wall_time"},
    grace="1 day",  # in the west a month ends up to twelve hours after UTC's
)
def monthly_bills(half_hours: DataFrame, history: DataFrame, interval: gs.Interval) -> DataFrame:
    """The bills of the customers with a reading in this month."""
    expected = billing.expected(half_hours, history, F.lit(interval.start), F.lit(interval.end))
    sums = (
        expected.join(half_hours.select("meter_id", "begins_at", "kwh"), ["meter_id", "begins_at"], "left")
        .withColumn("lacking", F.when(F.col("kwh").isNull(), 1).otherwise(0))
        .groupBy("meter_id", "tariff")
        .agg(
            F.count("kwh").alias("half_hours"),
            F.sum("lacking").alias("missing"),
            F.countDistinct(F.to_date("wall_time")).alias("days"),
            *billing.day_and_night("kwh"),
            *billing.day_and_night("lacking", "decimal(5,0)"),
        )
    )
    bill = billing.with_amounts(billing.with_estimates(sums)).drop("day_lacking", "night_lacking")
    return bill.withColumn("month", F.lit(f"{interval.start:%Y-%m}"))
