"""A gaming tournament: a live leaderboard with shared places, per tournament and overall, exact to the last point.

A rank over a stream exists in no gear: the place of a player depends on all others. So there are three ways to a board:

1. `count_points` keeps each player's points, per tournament and overall: one number per player, in real-time. Whoever
   reads its topic sorts it, as the demo's screen does.
2. `lead_tournaments` computes the places in real-time, because the scores of one tournament are few (some hundreds, 30
   kB of state): it keeps their *set*, in which a repeated event is once, and makes sums, order and places of the whole
   array. That is one aggregation; real-time refuses a second one, and sorting rows. A set of *all* scores would grow
   without an end, so there is no overall board of this kind.
3. `rank_players` is what a batch can do: a rank over a table that holds all boards, the overall one too.

A score counts in whatever order it comes, unless it is more than a day behind: then the events by which repeated ones
are recognized, and the sets of tournaments that began before, are dropped.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from boards import best, standings
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from simulator import PER_MINUTE, simulate
from values import Leaderboard, PlayerPoints, Score

import gearshift as gs

SPEED = 60  # simulated minutes pass that much faster
LATENESS = "24 hours"
OVERALL = "overall"
BEST = 5


app = gs.App("gaming-tournament")
scores = app.topic("scores", value=Score, key="player", partitions=2)
player_points = app.topic("player-points", value=PlayerPoints, key="player", partitions=2)
leaderboards = app.topic("leaderboards", value=Leaderboard, key="tournament")
points = app.table("points", key=("board", "player"), sequence_by="scores")
final_boards = app.table("final_boards")

app.board(
    "tournament",
    gs.Leaderboard(
        player_points, by="points", label="player", key=("board", "player"), where={"board": OVERALL}
    ),
    gs.Series(scores, title="Scores per second"),
)


@app.source(
    to=scores,
    rate=PER_MINUTE * SPEED / 60,
    seed=7,
    time_factor=SPEED,
    out_of_order=0.05,
    duplicates=0.02,
    max_delay="5 minutes",
)
def game_servers(chance: random.Random) -> Iterator[Score]:
    """One tournament after the other, some at the same time."""
    return simulate(chance)


@app.pipeline(source=scores, to=player_points, freshness="1 second")
def count_points(scores: DataFrame) -> DataFrame:
    """Each player's points in each tournament and overall; an event counts once, however often it is sent."""
    once = scores.withWatermark("scored_at", LATENESS).dropDuplicates(["event_id", "scored_at"])
    boards = F.explode(F.array("tournament", F.lit(OVERALL))).alias("board")
    return (
        once.select(boards, "player", "points", "scored_at")
        .groupBy("board", "player")
        .agg(
            F.sum("points").alias("points"),
            F.count("*").alias("scores"),
            F.max("scored_at").alias("last_scored_at"),
        )
    )


@app.pipeline(source=scores, to=leaderboards, freshness="1 second")
def lead_tournaments(scores: DataFrame) -> DataFrame:
    """The first places of each tournament."""
    return (
        scores.withWatermark("opened_at", LATENESS)
        .groupBy("tournament", "opened_at")
        .agg(
            F.collect_set(F.struct("event_id", "player", "points")).alias("scores"),
            F.max("scored_at").alias("last_scored_at"),
        )
        .withColumn("standings", standings("scores"))
        .select(
            "tournament",
            best("standings", BEST).alias("best"),
            F.size("standings").cast("bigint").alias("players"),
            F.size("scores").cast("bigint").alias("scores"),
            "last_scored_at",
        )
    )


@app.pipeline(source=player_points, to=points, freshness="10 seconds")
def keep_points(player_points: DataFrame) -> DataFrame:
    """The newest points of each player, for SQL and for the batch."""
    return player_points


@app.pipeline(source=points, to=final_boards, freshness="1 hour")
def rank_players(points: DataFrame) -> DataFrame:
    """The first places of every board, by a rank over the whole table."""
    place = F.rank().over(Window.partitionBy("board").orderBy(F.desc("points")))
    return (
        points.withColumn("place", place)
        .where(F.col("place") <= BEST)
        .select("board", "place", "player", "points")
    )
