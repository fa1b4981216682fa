"""The column arithmetic of a bill: the grid of half hours, the estimate of missing ones, and the money."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from reading import TARIFFS

HALF_HOUR = 30 * 60 * 1_000_000  # microseconds
TOLERANCE = 5 * 60 * 1_000_000
NIGHT_ENDS = 7  # o'clock
ENERGY = "decimal(14,7)"


def off_grid(at: str, zone: str) -> Column:
    """Microseconds after the nearest half hour of the zone's wall clock, which is not UTC's in Kathmandu."""
    wall = F.unix_micros(F.from_utc_timestamp(at, F.col(zone)))
    past = F.pmod(wall, F.lit(HALF_HOUR))
    return F.when(past > HALF_HOUR / 2, past - HALF_HOUR).otherwise(past)


def expected(half_hours: DataFrame, history: DataFrame, begin: Column, end: Column) -> DataFrame:
    """The half hours of each customer between two wall times, from the day of the first reading in the history.

    They are the instants that really pass: 46 on the day on which clocks are put forward, 50 on the one of the other way.
    """
    first = history.groupBy("meter_id").agg(F.min("wall_time").alias("first"))
    customers = half_hours.groupBy("meter_id").agg(
        F.max_by("tariff", "begins_at").alias("tariff"), F.max_by("zone", "begins_at").alias("zone")
    )
    since = F.to_utc_timestamp(F.greatest(begin, F.date_trunc("day", "first")), F.col("zone"))
    half_hour = F.expr("interval 30 minutes")
    grid = F.sequence(since, F.to_utc_timestamp(end, F.col("zone")) - half_hour, half_hour)
    return (
        customers.join(first, "meter_id")
        .withColumn("begins_at", F.explode(grid))
        .withColumn("wall_time", F.from_utc_timestamp("begins_at", F.col("zone")))
    )


def day_and_night(name: str, kind: str = ENERGY) -> list[Column]:
    """The sums of a column by day and by night."""
    is_night = F.hour("wall_time") < NIGHT_ENDS
    value = F.coalesce(name, F.lit(0))
    by_day, by_night = (
        F.sum(F.when(is_night, 0).otherwise(value)),
        F.sum(F.when(is_night, value).otherwise(0)),
    )
    return [by_day.cast(kind).alias(f"day_{name}"), by_night.cast(kind).alias(f"night_{name}")]


def with_estimates(sums: DataFrame) -> DataFrame:
    """The estimates of the missing half hours: each as the mean of the month's readings, rounded to a watt-hour."""
    total, readings = (F.col("day_kwh") + F.col("night_kwh")).cast(ENERGY), F.col("half_hours")
    for part in ("day", "night"):
        estimate = total * F.col(f"{part}_lacking") / readings.cast("decimal(5,0)")
        sums = sums.withColumn(f"{part}_estimate", F.round(estimate, 3).cast("decimal(14,3)"))
    return sums


def with_amounts(lines: DataFrame) -> DataFrame:
    """The lines of the bill in money, and their sum."""
    amounts = {"standing_amount": money(F.col("days") * price("standing"))}
    for part in ("day", "night"):
        energy = F.col(f"{part}_kwh") + F.col(f"{part}_estimate")
        amounts[f"{part}_amount"] = money(energy * price(part))
    total = F.col("day_amount") + F.col("night_amount") + F.col("standing_amount")
    return lines.withColumns(amounts).withColumn("total", money(total))


def price(part: str) -> Column:
    """A price of the row's tariff."""
    known = [F.lit(value) for name, tariff in TARIFFS.items() for value in (name, getattr(tariff, part))]
    return F.create_map(*known)[F.col("tariff")]


def money(amount: Column) -> Column:
    """Rounded half up to the cent."""
    return F.round(amount, 2).cast("decimal(12,2)")
