"""The rules of scoring as Spark columns: from the deliveries of an innings to its score and cards.

Every function takes and returns columns, so it runs in the JVM, in every gear. The deliveries are an array in the
order in which they were bowled.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

NOT_OUT = ("retired hurt", "retired not out")  # the batter may return
CREDITED = ("bowled", "caught", "caught and bowled", "hit wicket", "lbw", "stumped")  # to the bowler
RATE = "decimal(8,2)"
DELIVERY = (  # in the order by which deliveries are sorted: of one ball, the highest revision is the last
    "over",
    "ball",
    "revision",
    "batter",
    "bowler",
    "non_striker",
    "runs_batter",
    "runs_extras",
    "runs_total",
    "wides",
    "noballs",
    "byes",
    "legbyes",
    "penalty",
    "non_boundary",
    "wickets",
)


def total(items: Column | str, value: Callable[[Column], Column]) -> Column:
    """The sum of a number over an array."""
    return F.aggregate(items, F.lit(0).cast("bigint"), lambda sum_, item: sum_ + value(item).cast("bigint"))


def how_many(items: Column | str, condition: Callable[[Column], Column]) -> Column:
    """The number of items that meet a condition."""
    return F.size(F.filter(items, condition)).cast("bigint")


def rate(amount: Column, per: Column | int, of: Column) -> Column:
    """`amount` per `per` of `of`, as cricket prints it; null before the first ball."""
    times = amount.cast("decimal(18,0)") * (F.lit(per) if isinstance(per, int) else per)
    return F.when(of > 0, (times / of.cast("decimal(18,0)")).cast(RATE))


def is_legal(ball: Column) -> Column:
    """Whether a delivery counts towards the over."""
    return (ball["wides"] == 0) & (ball["noballs"] == 0)


def conceded(ball: Column) -> Column:
    """The runs of a delivery that are charged to the bowler."""
    return ball["runs_total"] - ball["byes"] - ball["legbyes"] - ball["penalty"]


def overs_text(balls: Column, per_over: Column) -> Column:
    """19 overs and 4 balls as 19.4."""
    return F.format_string("%d.%d", F.floor(balls / per_over), balls % per_over)


def only_latest(events: str) -> Column:
    """Of each delivery the highest revision. `events` is sorted by over, ball and revision."""

    def is_latest(event: Column, index: Column) -> Column:
        following = F.get(events, index + 1)
        same = (following["over"] == event["over"]) & (following["ball"] == event["ball"])
        return ~F.coalesce(same, F.lit(False))

    return F.filter(events, is_latest)


def dismissals(balls: str) -> Column:
    """The wickets that fell, each with the bowler of the delivery."""

    def of_ball(ball: Column) -> Column:
        fell = F.filter(ball["wickets"], lambda wicket: ~wicket["kind"].isin(*NOT_OUT))
        return F.transform(
            fell,
            lambda wicket: F.struct(
                wicket["player_out"].alias("player_out"),
                wicket["kind"].alias("kind"),
                ball["bowler"].alias("bowler"),
                wicket["fielders"].alias("fielders"),
            ),
        )

    return F.flatten(F.transform(balls, of_ball))


def over_ends(balls: str) -> Column:
    """The indexes of the last deliveries of the overs."""

    def end(ball: Column, index: Column) -> Column:
        return F.when(~F.coalesce(F.get(balls, index + 1)["over"] == ball["over"], F.lit(False)), index)

    return F.filter(F.transform(balls, end), lambda index: index.isNotNull())


def bowled_overs(balls: str, ends: str, per_over: Column, miscounted: Column) -> Column:
    """The overs with their deliveries. An over is complete once another follows, or it has all its balls."""

    def over(end: Column, index: Column) -> Column:
        before = F.coalesce(F.get(ends, index - 1), F.lit(-1))
        deliveries = F.slice(balls, before + 2, end - before)
        number = F.get(balls, end)["over"].cast("string")
        legal = how_many(deliveries, is_legal)
        is_complete = (index < F.size(ends) - 1) | (
            legal >= F.coalesce(F.try_element_at(miscounted, number), per_over)
        )
        return F.struct(
            deliveries.alias("deliveries"),
            F.array_distinct(F.transform(deliveries, lambda ball: ball["bowler"])).alias("bowlers"),
            is_complete.alias("is_complete"),
            F.when(is_complete, per_over).otherwise(legal).alias("balls"),
            total(deliveries, conceded).alias("conceded"),
        )

    return F.transform(ends, over)


def batters_of(balls: str) -> Column:
    """Who came in to bat, in that order."""

    def names(ball: Column) -> Column:
        out = F.transform(ball["wickets"], lambda wicket: wicket["player_out"])
        return F.concat(F.array(ball["batter"], ball["non_striker"]), out)

    return F.array_distinct(F.flatten(F.transform(balls, names)))


def bowlers_of(balls: str) -> Column:
    """Who bowled, in that order."""
    return F.array_distinct(F.transform(balls, lambda ball: ball["bowler"]))


def batter_cards(names: str, still: str, balls: str, wickets: str) -> Column:
    """A card for each of `names`; wides are not faced, no-balls are."""

    def card(found: Column) -> Column:
        faced = found["faced"]
        out = F.get(F.filter(wickets, lambda wicket: wicket["player_out"] == found["name"]), F.lit(0))
        runs = total(faced, lambda ball: ball["runs_batter"])
        count = how_many(faced, lambda ball: ball["wides"] == 0)
        return F.struct(
            found["name"].alias("batter"),
            runs.alias("runs"),
            count.alias("balls"),
            how_many(faced, lambda ball: (ball["runs_batter"] == 4) & ~ball["non_boundary"]).alias("fours"),
            how_many(faced, lambda ball: (ball["runs_batter"] == 6) & ~ball["non_boundary"]).alias("sixes"),
            rate(runs, 100, count).alias("strike_rate"),
            out["kind"].alias("dismissal"),
            F.when(out["kind"].isin(*CREDITED), out["bowler"]).alias("bowler"),
            F.coalesce(out["fielders"], F.array().cast("array<string>")).alias("fielders"),
            (~F.array_contains(still, found["name"])).alias("withdrawn"),
        )

    return F.transform(_of_each(names, balls, "batter"), card)


def bowler_cards(names: str, still: str, balls: str, overs: str, wickets: str, per_over: Column) -> Column:
    """A card for each of `names`; an over shared by two bowlers is no maiden of either."""

    def card(found: Column) -> Column:
        name, bowled = found["name"], found["faced"]
        his = F.filter(overs, lambda over: F.array_contains(over["bowlers"], name))
        whole = F.filter(his, lambda over: over["is_complete"] & (F.size(over["bowlers"]) == 1))
        parts = F.filter(his, lambda over: ~over["is_complete"] | (F.size(over["bowlers"]) > 1))
        in_parts = total(
            parts,
            lambda over: how_many(over["deliveries"], lambda ball: is_legal(ball) & (ball["bowler"] == name)),
        )
        units = F.size(whole) * per_over + in_parts
        runs = total(bowled, conceded)
        return F.struct(
            name.alias("bowler"),
            how_many(bowled, is_legal).alias("balls"),
            overs_text(units, per_over).alias("overs"),
            how_many(whole, lambda over: over["conceded"] == 0).alias("maidens"),
            runs.alias("runs"),
            how_many(
                wickets, lambda wicket: (wicket["bowler"] == name) & wicket["kind"].isin(*CREDITED)
            ).alias("wickets"),
            total(bowled, lambda ball: ball["wides"]).alias("wides"),
            total(bowled, lambda ball: ball["noballs"]).alias("noballs"),
            rate(runs, per_over, units).alias("economy"),
            (~F.array_contains(still, name)).alias("withdrawn"),
        )

    return F.transform(_of_each(names, balls, "bowler"), card)


def _of_each(names: str, balls: str, role: str) -> Column:
    """Each name with its deliveries, in one pass per name."""
    return F.transform(
        names,
        lambda name: F.struct(
            name.alias("name"), F.filter(balls, lambda ball: ball[role] == name).alias("faced")
        ),
    )


def scored(collected: DataFrame) -> DataFrame:
    """Scorecards, from the set of all `events` of each innings and its `notes`.

    In steps: a column that later ones use several times is computed once, in its own projection.
    """
    per_over, noted = F.col("balls_per_over"), F.col("notes")
    return (
        collected.where(noted.isNotNull())
        .withColumns(
            {
                "events": F.sort_array("events"),
                "balls_per_over": noted["balls_per_over"],
                "team": noted["team"],
            }
        )
        .withColumn("latest", only_latest("events"))
        .withColumns(
            {
                "wickets_fallen": dismissals("latest"),
                "ends": over_ends("latest"),
                "batted": batters_of("latest"),
                "bowled": bowlers_of("latest"),
                "ever_batted": batters_of("events"),
                "ever_bowled": bowlers_of("events"),
            }
        )
        .withColumn("over_list", bowled_overs("latest", "ends", per_over, noted["miscounted_overs"]))
        .withColumns(
            {
                "runs": total("latest", lambda ball: ball["runs_total"]) + noted["penalty_runs"],
                "extras": total("latest", lambda ball: ball["runs_extras"]) + noted["penalty_runs"],
                "balls_bowled": total("over_list", lambda over: over["balls"]),
            }
        )
        .select(
            "match",
            "innings",
            "team",
            "runs",
            F.size("wickets_fallen").cast("bigint").alias("wickets"),
            how_many("latest", is_legal).alias("balls"),
            overs_text(F.col("balls_bowled"), per_over).alias("overs"),
            rate(F.col("runs"), per_over, F.col("balls_bowled")).alias("run_rate"),
            "extras",
            "balls_bowled",
            "balls_per_over",
            noted["target_runs"].alias("target_runs"),
            noted["target_balls"].alias("target_balls"),
            *(noted[name].alias(name) for name in ("absent", "declared", "forfeited", "super_over")),
            batter_cards("ever_batted", "batted", "latest", "wickets_fallen").alias("batters"),
            bowler_cards("ever_bowled", "bowled", "latest", "over_list", "wickets_fallen", per_over).alias(
                "bowlers"
            ),
            (F.size("events") + noted["revision"] + 1).cast("bigint").alias("version"),
            "as_of",
        )
    )
