"""The column arithmetic of the counter: business days, the two sides of a door, being full, and the hours of a clock."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from values import STREET

DAY_BEGINS = 5  # o'clock: between the last visitor and the first
EMPTY_ENOUGH = 90  # percent


def opened(at: str, zone: str) -> Column:
    """When the business day began, on the clock of the mall: that day has 23, 24 or 25 hours."""
    begins = F.expr(f"INTERVAL {DAY_BEGINS} HOURS")
    return F.to_utc_timestamp(F.date_trunc("day", F.from_utc_timestamp(at, zone) - begins) + begins, zone)


def business_day(opened: str, zone: str) -> Column:
    """The date of a business day by its begin."""
    return F.to_date(F.from_utc_timestamp(opened, zone)).alias("business_day")


def sides(reports: DataFrame) -> DataFrame:
    """Each report for the zone on this side, and for the one beyond or, at a street door, the whole mall."""
    this = F.struct("zone", "entered", "left")
    mall = F.struct(F.lit("mall").alias("zone"), "entered", "left")
    other = F.struct(
        F.col("beyond").alias("zone"), F.col("left").alias("entered"), F.col("entered").alias("left")
    )
    both = F.array(this, F.when(F.col("beyond") == STREET, mall).otherwise(other))
    return reports.withColumn("side", F.explode(both)).select("door", "counted_at", "opened", "side.*")


def sums() -> list[Column]:
    """Who entered and who left."""
    return [F.sum("entered").alias("entered"), F.sum("left").alias("left")]


def capacity_of(zone: str, capacity: Mapping[str, int]) -> Column:
    """The capacity of a zone; null if it has none."""
    return F.create_map(*(F.lit(each) for pair in capacity.items() for each in pair))[F.col(zone)].cast(
        "long"
    )


def fold_of_day(steps: str) -> Column:
    """People, whether the zone is full, how often it was and since when, after the day's steps in order."""
    nothing = F.expr(
        "named_struct('people', 0L, 'is_full', false, 'crossings', 0L, 'since', timestamp(null))"
    )

    def follow(before: Column, step: Column) -> Column:
        people = before["people"] + step["change"]
        fills = ~before["is_full"] & (people >= F.col("capacity"))
        stays = before["is_full"] & (people * 100 > F.col("capacity") * EMPTY_ENOUGH)
        return F.struct(
            people.alias("people"),
            (fills | stays).alias("is_full"),
            (before["crossings"] + fills.cast("long")).alias("crossings"),
            F.when(fills, step["counted_at"]).otherwise(before["since"]).alias("since"),
        )

    return F.aggregate(steps, nothing, follow)


def hour_of(at: str, zone: str) -> tuple[Column, Column]:
    """The begin of an hour of the zone's clock, as an instant, and as text with its offset from UTC."""
    local = F.from_utc_timestamp(at, zone)
    past = F.unix_seconds(local) - F.unix_seconds(F.date_trunc("hour", local))
    offset = (F.unix_seconds(local) - F.unix_seconds(at)) / 60
    clock = F.format_string(
        "%s%s%02d:%02d",
        F.date_format(local, "yyyy-MM-dd'T'HH:00"),
        F.when(offset < 0, "-").otherwise("+"),
        F.floor(F.abs(offset) / 60),
        (F.abs(offset) % 60).cast("long"),
    )
    return F.timestamp_seconds(F.unix_seconds(at) - past).alias("hour_start"), clock.alias("hour")
