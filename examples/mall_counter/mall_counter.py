"""A live counter in a mall: people now per zone, a call when one is full, and footfall by hour in the warehouse.

**People now** is what came in minus what went out since five in the morning, per zone and for the mall. Sensors miss
people, so the difference drifts; at night the mall is empty, so each business day starts again at zero. What was left
at the end of a day is its drift, a table that shows the doors to repair.

**Full** has hysteresis: a zone is full from the report that reaches its capacity until one that is at or below 90 % of
it. That depends on the order of the reports, which arrive out of order; so the day's reports are a set, sorted by time
(and door) and folded. The result is the same in every gear, and a repeated report changes nothing. A delivery calls a
guard once per crossing, by its number: a crossing that a late report undoes is not called again when it comes.

**Footfall** keeps the two hours from two to three apart in the night that has both: by their offset from UTC.

`GEARSHIFT_STORY_DATA` names a file of counts, MALL_TIMEZONE the mall's time zone and MALL_DATES its order of day and
month (day-first or month-first), where the file does not say them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import counting
from loader import load, zone_of
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from simulator import simulate
from values import STREET, Crowding, DoorReport, GuardCall, PeopleNow

import gearshift as gs

DATA = os.environ.get("GEARSHIFT_STORY_DATA")  # a file or folder of counts; without it they are simulated
ZONE = os.environ.get("MALL_TIMEZONE") or (zone_of(Path(DATA)) if DATA else None) or "Europe/Amsterdam"
SPEED = 3600  # an hour passes in a second
LATENESS = "36 hours"  # a report counts until the business day after its own is over
CAPACITY = {"food": 500, "fashion": 450, "cinema": 250, "mall": 1200}


app = gs.App("mall-counter", timezone=ZONE)
reports = app.topic("door-reports", value=DoorReport, key="door", partitions=2)
people_now = app.topic("people-now", value=PeopleNow, key="zone")
crowding = app.topic("crowding", value=Crowding, key="zone")
guard_calls = app.topic("guard-calls", value=GuardCall, key="zone")
door_reports = app.table("door_reports", key=("door", "counted_at"))
footfall = app.table("footfall")
drift = app.table("drift")

app.board(
    "mall",
    gs.Zones(people_now, name="zone", value="people", capacity=CAPACITY, newest="business_day"),
    gs.Feed(guard_calls, text="{text}", level="warning"),
    title="People now",
)


@app.source(
    to=reports,
    rate=2_000 if DATA else 2.5 * SPEED / 60,
    seed=7,
    time_factor=SPEED,
    out_of_order=0.0 if DATA else 0.05,
    duplicates=0.0 if DATA else 0.02,
    max_delay="20 minutes",
)
def doors(chance: random.Random) -> Iterator[DoorReport]:
    """The reports of the file in the order of their time, or simulated ones."""
    return iter(load(Path(DATA), zone=ZONE, dates=os.environ.get("MALL_DATES"))) if DATA else simulate(chance)


@app.pipeline(source=reports, to=people_now, freshness="1 second")
def count_people(reports: DataFrame) -> DataFrame:
    """People now; never below zero, whatever the sensors missed."""
    once = (
        reports.withColumn("opened", counting.opened("counted_at", ZONE))
        .withWatermark("opened", LATENESS)
        .dropDuplicates(["door", "counted_at", "opened"])
    )
    totals = counting.sides(once).groupBy("zone", "opened")
    return totals.agg(*counting.sums(), F.max("counted_at").alias("counted_at")).select(
        "zone",
        counting.business_day("opened", ZONE),
        F.greatest(F.col("entered") - F.col("left"), F.lit(0)).alias("people"),
        "entered",
        "left",
        "counted_at",
    )


@app.pipeline(source=reports, to=crowding, freshness="1 second")
def watch_capacity(reports: DataFrame) -> DataFrame:
    """The zones that have been full today: how often, and since when the last time."""
    day = reports.withColumn("opened", counting.opened("counted_at", ZONE)).withWatermark("opened", LATENESS)
    known = counting.sides(day).withColumn("capacity", counting.capacity_of("zone", CAPACITY))
    step = F.struct("counted_at", "door", (F.col("entered") - F.col("left")).alias("change"))
    return (
        known.where("capacity is not null")
        .groupBy("zone", "opened", "capacity")
        .agg(F.array_sort(F.collect_set(step)).alias("steps"))  # a set: a repeated report is in it once
        .withColumn("now", counting.fold_of_day("steps"))
        .where("now.crossings > 0")
        .select(
            "zone",
            counting.business_day("opened", ZONE),
            "capacity",
            F.greatest("now.people", F.lit(0)).alias("people"),
            "now.is_full",
            "now.crossings",
            F.col("now.since").alias("full_since"),
        )
    )


@app.delivery(crowding, to=guard_calls, once_by=("zone", "business_day", "crossings"))
def call_guard(record: gs.Record[Crowding]) -> GuardCall:
    """One call per crossing of a zone's capacity."""
    zone = record.value
    return GuardCall(
        zone.zone, f"{zone.zone} is full: {zone.people} of {zone.capacity} at {zone.full_since:%H:%M} UTC"
    )


@app.pipeline(source=reports, to=door_reports, freshness="10 seconds")
def keep_reports(reports: DataFrame) -> DataFrame:
    """Every report once, for the warehouse."""
    return reports


@app.pipeline(source=door_reports, to=footfall, freshness="1 day", event_time="counted_at")
def sum_footfall(door_reports: DataFrame, interval: gs.Interval) -> DataFrame:
    """People at the street doors, by zone and hour of the mall's clock; the hour carries its offset from UTC."""
    at_street = door_reports.where(F.col("beyond") == STREET)
    return at_street.groupBy("zone", *counting.hour_of("counted_at", ZONE)).agg(*counting.sums())


@app.pipeline(source=door_reports, to=drift, cron=f"0 {counting.DAY_BEGINS} * * *", event_time="counted_at")
def close_day(door_reports: DataFrame, interval: gs.Interval) -> DataFrame:
    """What the sensors left in each zone at the end of a business day, when nobody was there."""
    of_the_day = counting.sides(door_reports.withColumn("opened", F.lit(interval.start)))
    return (
        of_the_day.groupBy("zone")
        .agg(*counting.sums())
        .withColumn("drift", F.col("entered") - F.col("left"))
        .withColumn("business_day", F.lit(interval.start.date()))
    )
