"""A board as Spark columns: from the set of a tournament's scores to the places of its best players."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def standings(scores: str) -> Column:
    """Each player's points, the best first; equal points in the order of the names."""

    def of(player: Column) -> Column:
        points = F.aggregate(
            F.filter(scores, lambda score: score["player"] == player),
            F.lit(0).cast("bigint"),
            lambda total, score: total + score["points"],
        )
        return F.struct((-points).alias("behind"), player.alias("player"), points.alias("points"))

    players = F.array_distinct(F.transform(scores, lambda score: score["player"]))
    return F.array_sort(F.transform(players, of))


def best(standings: str, places: int) -> Column:
    """The players of the first places. Players with equal points share a place, and the next one is left out."""

    def placed(one: Column) -> Column:
        ahead = F.size(F.filter(standings, lambda other: other["points"] > one["points"]))
        return F.struct((ahead + 1).cast("bigint").alias("place"), one["player"], one["points"])

    return F.filter(F.transform(standings, placed), lambda one: one["place"] <= places)
