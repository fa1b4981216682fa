"""Live cricket: scores, cards and results, ball by ball, right after every correction.

Scorers send deliveries; some are corrected later, some come late, some twice. A sum that is counted up could not take a
wrong delivery back. So `score_innings` keeps the *set* of an innings' deliveries (a repeated one changes nothing), takes
the highest revision of each, and computes the whole scorecard from them. It is one aggregation, and real-time runs it;
two in a row (the latest revision of each ball, then totals) it would refuse. A one-day innings is 300 deliveries, some
50 kB of state, which is kept: a correction may come after days. `version` counts the events behind a card: the highest
is the newest, in whatever order cards are read.

`follow_matches` does the same for the innings of a match: target, required rate and result. Real-time cannot write
tables; the last three pipelines do that in micro-batches, a row per batter, bowler and match.

Run it on real matches: `GEARSHIFT_STORY_DATA=1384401.json gearshift run live_cricket.py`, with a file, folder or zip of
cricsheet's JSON.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

from judging import CARD, INNINGS, judged, latest_card
from loader import load
from match_events import Event
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from scorecards import Scorecard, Standing
from scoring import DELIVERY, scored
from simulator import season

import gearshift as gs

DATA = os.environ.get("GEARSHIFT_STORY_DATA")  # cricsheet's JSON; without it a season is simulated

app = gs.App("live-cricket")
feed = app.topic("match-feed", value=Event, key="match", partitions=2)
scorecards = app.topic("scorecards", value=Scorecard, key="match", partitions=2)
standings = app.topic("standings", value=Standing, key="match")
batting = app.table("batting", key=("match", "innings", "batter"), sequence_by="version", deleted="withdrawn")
bowling = app.table("bowling", key=("match", "innings", "bowler"), sequence_by="version", deleted="withdrawn")
matches = app.table("matches", key="match", sequence_by="version")

app.board(
    "matches",
    gs.TableView(standings, columns=("title", "batting", "score", "overs", "needed", "result")),
    gs.Leaderboard(batting, by="runs", label="batter", title="Most runs in an innings"),
    title="Live scores",
)


@app.source(
    to=feed,
    rate=60,
    seed=7,
    out_of_order=0.0 if DATA else 0.05,
    duplicates=0.0 if DATA else 0.02,
    max_delay="1 second",
)
def scorers(chance: random.Random) -> Iterator[Event]:
    """The matches of the data file, or a simulated season."""
    return load(Path(DATA)) if DATA else season(chance)


@app.pipeline(source=feed, to=scorecards, freshness="1 second")
def score_innings(feed: DataFrame) -> DataFrame:
    """The scorecard of each innings, from its deliveries and the facts that the scorers sent about it."""
    delivery = F.struct(*(F.col("ball")[name].alias(name) for name in DELIVERY))
    return scored(
        feed.withColumn("number", F.coalesce("ball.innings", "innings.number"))
        .where("number is not null")
        .groupBy("match", F.col("number").alias("innings"))
        .agg(
            F.collect_set(F.when(F.col("ball").isNotNull(), delivery)).alias("events"),
            F.max_by("innings", "innings.revision").alias("notes"),
            F.max("at").alias("as_of"),
        )
    )


@app.pipeline(source={"scorecards": scorecards, "feed": feed}, to=standings, freshness="1 second")
def follow_matches(scorecards: DataFrame, feed: DataFrame) -> DataFrame:
    """Where each match stands, from the newest card of each innings and the newest match sheet."""
    sheets = feed.where("sheet is not null").select("match", "sheet", F.col("at").alias("as_of"))
    return judged(
        scorecards.select("match", *CARD)
        .unionByName(sheets, allowMissingColumns=True)
        .groupBy("match")
        .agg(
            *map(latest_card, INNINGS),
            F.max_by("sheet", "sheet.revision").alias("sheet"),
            F.max("as_of").alias("as_of"),
        )
    )


@app.pipeline(source=scorecards, to=batting, freshness="10 seconds")
def keep_batting(scorecards: DataFrame) -> DataFrame:
    """The card of each batter; a row goes when the only deliveries that named the batter were corrected."""
    card = F.explode("batters").alias("card")
    return scorecards.select("match", "innings", "team", "version", card).select(
        "match", "innings", "team", "version", "card.*"
    )


@app.pipeline(source=scorecards, to=bowling, freshness="10 seconds")
def keep_bowling(scorecards: DataFrame) -> DataFrame:
    """The card of each bowler."""
    card = F.explode("bowlers").alias("card")
    return scorecards.select("match", "innings", "version", card).select(
        "match", "innings", "version", "card.*"
    )


@app.pipeline(source=standings, to=matches, freshness="10 seconds")
def keep_matches(standings: DataFrame) -> DataFrame:
    """Where each match stands, and in the end its result."""
    return standings
