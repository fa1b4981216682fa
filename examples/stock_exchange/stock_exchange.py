"""Stock exchange: ticks become bars of a second and of a minute, with their VWAP, and a circuit breaker.

Ticks arrive late, repeated and out of order. Open and close are the first and the last price by event time, and by the
feed's sequence within one instant, so that the order of arrival changes no bar. Real-time updates a bar with every
tick; once a day a batch computes the minute bars again from the stored ticks, with the same function, and the two
agree in every column of every row. `GEARSHIFT_STORY_DATA` names a tick file to read instead of simulating.

Money is Decimal: turnover is exact, and VWAP is its quotient by the volume, rounded half up to 8 decimals. A bar of
quotes has no volume, and so no VWAP.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from loader import load
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from simulator import SYMBOLS, TICKS_PER_SECOND, simulate
from values import Bar, Tick, Trip

import gearshift as gs

DATA = os.environ.get("GEARSHIFT_STORY_DATA")
SYMBOL = os.environ.get("BOARD_SYMBOL", next(iter(SYMBOLS)))  # the one that the board shows
ZONE = "America/New_York"  # trading days begin at midnight there
TIME_FACTOR = 60  # the simulated exchange runs that many times as fast
# Later ticks do not count; a file is read faster than its time passes.
LATENESS = "1 day" if DATA else "5 minutes"
LIMIT = 5  # percent from the reference price at which trading halts

app = gs.App("stock-exchange", timezone=ZONE)
ticks = app.topic("ticks", value=Tick, key="symbol", partitions=2)
second_bars = app.topic("second-bars", value=Bar, key="symbol", partitions=2)
minute_bars = app.topic("minute-bars", value=Bar, key="symbol", partitions=2)
trips = app.topic("breaker-trips", value=Trip, key="symbol")
halts = app.topic("trading-halts", value=Trip, key="symbol")
stored_ticks = app.table("ticks", key=("symbol", "at", "sequence"))
live_bars = app.table("live_minute_bars", key=("symbol", "start"), sequence_by="ticks")
settled_bars = app.table("settled_minute_bars")

app.board(
    "exchange",
    gs.Candles(minute_bars, where={"symbol": SYMBOL}, volume="volume", title=f"{SYMBOL} by the minute"),
    gs.Feed(halts, text="{symbol} halted at {price}: {change} %", at="at", level="error"),
)


@app.source(
    to=ticks,
    rate=2_000 if DATA else TICKS_PER_SECOND * TIME_FACTOR,
    seed=7,
    out_of_order=0.0 if DATA else 0.05,
    duplicates=0.0 if DATA else 0.02,
    max_delay="2 minutes",
    time_factor=TIME_FACTOR,
)
def feed() -> Iterator[Tick]:
    """The ticks of the file in the order of their time, or a simulated day."""
    return iter(load(Path(DATA))) if DATA else simulate()


def bars(ticks: DataFrame, width: str) -> DataFrame:
    """The bars of each symbol. A repeated tick counts once."""
    order = F.struct("at", "sequence")
    return (
        ticks.withWatermark("at", LATENESS)
        .dropDuplicates(["symbol", "at", "sequence"])
        .groupBy("symbol", F.window("at", width).alias("span"))
        .agg(
            F.min_by("price", order).alias("open"),
            F.max("price").alias("high"),
            F.min("price").alias("low"),
            F.max_by("price", order).alias("close"),
            F.sum("size").alias("volume"),
            F.sum(F.col("price") * F.col("size")).alias("turnover"),
            F.count("*").alias("ticks"),
        )
        .withColumn("vwap", F.try_divide("turnover", "volume").cast("decimal(18,8)"))
        .withColumn("start", F.col("span.start"))
        .select("symbol", "start", "open", "high", "low", "close", "volume", "turnover", "vwap", "ticks")
    )


@app.pipeline(source=ticks, to=second_bars, freshness="1 second")
def second_bars_live(ticks: DataFrame) -> DataFrame:
    return bars(ticks, "1 second")


@app.pipeline(source=ticks, to=minute_bars, freshness="1 second")
def minute_bars_live(ticks: DataFrame) -> DataFrame:
    return bars(ticks, "1 minute")


@app.pipeline(source=ticks, to=trips, freshness="1 second")
def circuit_breaker(ticks: DataFrame) -> DataFrame:
    """Every price beyond the limit. Without state: which of them arrives first changes nothing."""
    change = (F.col("price") - F.col("reference")) * 100
    return ticks.where(F.abs(change) > F.col("reference") * LIMIT).select(
        "symbol",
        F.to_date(F.from_utc_timestamp("at", ZONE)).alias("day"),
        "sequence",
        "price",
        "reference",
        F.round(change / F.col("reference"), 2).cast("decimal(18,2)").alias("change"),
        "at",
    )


@app.delivery(trips, to=halts, once_by=("symbol", "day"))
def halt_trading(trip: gs.Record[Trip]) -> Trip:
    """One halt per symbol and day, at the first price beyond the limit that arrives."""
    return trip.value


@app.pipeline(source=ticks, to=stored_ticks, freshness="10 seconds")
def keep_ticks(ticks: DataFrame) -> DataFrame:
    """Every tick once: the table's key drops repeated ones."""
    return ticks


@app.pipeline(source=minute_bars, to=live_bars, freshness="10 seconds")
def keep_live_bars(minute_bars: DataFrame) -> DataFrame:
    """The last version of each bar, which is the one with the most ticks."""
    return minute_bars


@app.pipeline(source=stored_ticks, to=settled_bars, freshness="1 day")
def settle_minute_bars(ticks: DataFrame) -> DataFrame:
    """The minute bars again, from all ticks."""
    return bars(ticks, "1 minute")
