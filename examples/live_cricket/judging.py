"""The laws of winning as Spark columns: from the innings of a match to its target, required rate and result."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from scoring import rate

ALL_OUT = 10
INNINGS = (1, 2, 3, 4)  # of a match; later super overs than the first show in the announcement only
REVISES_THE_TARGET = (
    "D/L",
    "DLS",
    "VJD",
)  # every other method decides a match by something else than its deliveries
CARD = (
    "innings",
    "team",
    "runs",
    "wickets",
    "overs",
    "run_rate",
    "balls_bowled",
    "balls_per_over",
    "target_runs",
    "target_balls",
    "absent",
    "declared",
    "forfeited",
    "super_over",
    "version",
    "as_of",
)
OUTCOME = {
    "winner": "string",
    "result": "string",
    "innings": "bigint",
    "runs": "bigint",
    "wickets": "bigint",
    "method": "string",
    "eliminator": "string",
    "bowl_out": "string",
}


def latest_card(number: int) -> Column:
    """The newest card of an innings, as an aggregate."""
    its = F.col("innings") == number
    return F.max_by(F.when(its, F.struct(*CARD)), F.when(its, F.col("version"))).alias(f"card_{number}")


def judged(gathered: DataFrame) -> DataFrame:
    """Standings, from the latest card of each innings (`card_1`, …) and the latest `sheet`.

    In steps, so that a column which later ones use several times is computed once.
    """
    sheet, teams = F.col("sheet"), F.col("sheet")["teams"]
    cards = [F.col(f"card_{number}") for number in INNINGS]
    card, other, is_last = F.col("card"), F.col("other"), F.col("is_last")
    # The innings of a super over are no innings of the match.
    counted = [F.when(~each["super_over"], each) for each in cards]
    mine_before = F.col("mine") - card["runs"]
    return (
        gathered.where(sheet.isNotNull())
        .withColumn("card", F.coalesce(*reversed(counted)))
        .withColumns(
            {
                "is_limited": sheet["overs"].isNotNull(),
                "other": F.when(F.get(teams, F.lit(0)) == card["team"], F.get(teams, F.lit(1))).otherwise(
                    F.get(teams, F.lit(0))
                ),
            }
        )
        .withColumns(
            {
                "is_last": F.when(F.col("is_limited"), card["innings"] == 2).otherwise(card["innings"] == 4),
                "mine": _runs_of(card["team"], counted),
                "theirs": _runs_of(other, counted),
                "my_innings": _innings_of(card["team"], counted),
                "their_innings": _innings_of(other, counted),
                "limit": F.coalesce(card["target_balls"], sheet["overs"] * card["balls_per_over"]),
            }
        )
        .withColumn(
            "target", F.when(is_last, F.coalesce(card["target_runs"], F.col("theirs") - mine_before + 1))
        )
        .withColumns(
            {"is_reached": _or_false(card["runs"] >= F.col("target")), "is_closed": _is_closed(card)}
        )
        .withColumn("is_over", sheet["ended"] | F.col("is_reached") | F.col("is_closed"))
        .withColumn("computed", _computed(card, cards, sheet))
        .withColumns({"needed": _while_chasing(F.col("target") - card["runs"])})
        .withColumn("balls_left", _while_chasing(F.col("limit") - card["balls_bowled"]))
        .select(
            "match",
            sheet["title"].alias("title"),
            F.array_join(F.array_compact(F.array(*map(_total_text, cards))), ", ").alias("totals"),
            card["innings"].alias("innings"),
            card["team"].alias("batting"),
            _score_text(card).alias("score"),
            card["overs"].alias("overs"),
            card["run_rate"].alias("run_rate"),
            "target",
            "needed",
            "balls_left",
            rate(F.col("needed"), card["balls_per_over"], F.col("balls_left")).alias("required_rate"),
            F.coalesce(outcome_text(sheet["outcome"]), outcome_text(F.col("computed"))).alias("result"),
            outcome_text(F.col("computed")).alias("computed"),
            _agrees(F.col("computed"), sheet["outcome"]).alias("confirmed"),
            (_sum([each["version"] for each in cards]) + sheet["revision"] + 1).alias("version"),
            "as_of",
        )
    )


def outcome_text(outcome: Column) -> Column:
    """An outcome in words, such as "India won by 5 wickets (D/L)"."""
    method = F.coalesce(F.concat(F.lit(" ("), outcome["method"], F.lit(")")), F.lit(""))
    runs, wickets = _counted(outcome["runs"], "run"), _counted(outcome["wickets"], "wicket")
    margin = (
        F.when(
            outcome["innings"].isNotNull(),
            F.concat(F.lit(" by an innings"), F.coalesce(F.concat(F.lit(" and "), runs), F.lit(""))),
        )
        .when(outcome["runs"].isNotNull(), F.concat(F.lit(" by "), runs))
        .when(outcome["wickets"].isNotNull(), F.concat(F.lit(" by "), wickets))
        .otherwise("")
    )
    after = F.coalesce(
        F.concat(F.lit("; "), outcome["eliminator"], F.lit(" won the super over")),
        F.concat(F.lit("; "), outcome["bowl_out"], F.lit(" won the bowl-out")),
        F.lit(""),
    )
    return F.when(
        outcome["winner"].isNotNull(), F.concat(outcome["winner"], F.lit(" won"), margin, method)
    ).otherwise(F.concat(outcome["result"], method, after))


def _computed(card: Column, cards: list[Column], sheet: Column) -> Column:
    """The outcome that the deliveries alone decide; null as long as they do not."""
    mine, theirs, target = F.col("mine"), F.col("theirs"), F.col("target")
    limited, last = F.col("is_limited"), F.col("is_last")
    chased = _outcome(winner=card["team"], wickets=ALL_OUT - card["wickets"])
    defended = _outcome(winner=F.col("other"), runs=target - 1 - card["runs"])
    tied = _outcome(result=F.lit("tie"), eliminator=_eliminator(cards, sheet["ended"]))
    by_innings = _outcome(winner=F.col("other"), innings=F.lit(1), runs=theirs - mine)
    is_beaten = (F.col("my_innings") == 2) & (F.col("their_innings") == 1) & (mine < theirs)
    method = sheet["outcome"]["method"]
    # Sides may concede, or bat on without the injured: then the officials know more than the deliveries.
    is_drawn = sheet["ended"] & sheet["outcome"]["winner"].isNull() & F.col("card").isNotNull()
    return (
        F.when(method.isNotNull() & ~method.isin(*REVISES_THE_TARGET), None)
        .when(F.col("is_reached"), chased)
        .when(last & F.col("is_closed"), F.when(card["runs"] == target - 1, tied).otherwise(defended))
        .when(~limited & F.col("is_closed") & is_beaten, by_innings)
        .when(
            ~limited & is_drawn & ~_or_false(sheet["outcome"]["result"] == "no result"),
            _outcome(result=F.lit("draw")),
        )
    )


def _is_closed(card: Column) -> Column:
    """Whether an innings has ended by itself."""
    is_out = card["wickets"] + card["absent"] >= ALL_OUT
    is_used_up = F.col("is_limited") & (card["balls_bowled"] >= F.col("limit"))
    return _or_false(is_out | is_used_up | card["declared"] | card["forfeited"])


def _eliminator(cards: list[Column], ended: Column) -> Column:
    """Who won the super over, once it is decided."""
    first, second = (F.when(each["super_over"], each) for each in cards[2:])
    is_bowled = ended | (second["wickets"] >= 2) | (second["balls_bowled"] >= second["balls_per_over"])
    return F.when(second["runs"] > first["runs"], second["team"]).when(
        is_bowled & (first["runs"] > second["runs"]), first["team"]
    )


def _agrees(computed: Column, announced: Column) -> Column:
    """Whether two outcomes are the same, as far as both say something."""
    has_margin = F.coalesce(announced["innings"], announced["runs"], announced["wickets"]).isNotNull()
    margins = [computed[name].eqNullSafe(announced[name]) for name in ("innings", "runs", "wickets")]
    same = (
        computed["winner"].eqNullSafe(announced["winner"])
        & computed["result"].eqNullSafe(announced["result"])
        & (~has_margin | reduce(Column.__and__, margins))
        & F.coalesce(computed["eliminator"] == announced["eliminator"], F.lit(True))
    )
    return F.when(computed.isNotNull() & announced.isNotNull(), same)


def _outcome(**parts: Column) -> Column:
    return F.struct(*(parts.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in OUTCOME.items()))


def _while_chasing(value: Column) -> Column:
    return F.when(F.col("is_last") & ~F.col("is_over"), value)


def _total_text(card: Column) -> Column:
    """An innings in a list of them; null if there is none."""
    kind = F.when(card["super_over"], F.lit(" (super over)")).otherwise("")
    return F.concat(card["team"], F.lit(" "), _score_text(card), kind)


def _score_text(card: Column) -> Column:
    """Runs and wickets, such as 180/6, 251/4 dec or, all out, 164."""
    wickets = F.when(card["wickets"] < ALL_OUT, F.format_string("/%d", card["wickets"])).otherwise("")
    ending = F.when(card["declared"], " dec").when(card["forfeited"], " forfeited").otherwise("")
    return F.concat(card["runs"].cast("string"), wickets, ending)


def _counted(number: Column, noun: str) -> Column:
    """1 run, 2 runs; null for null."""
    return F.concat(number.cast("string"), F.when(number == 1, f" {noun}").otherwise(f" {noun}s"))


def _runs_of(team: Column, cards: list[Column]) -> Column:
    """A side's runs in all its innings."""
    return _sum(F.when(card["team"] == team, card["runs"]) for card in cards)


def _innings_of(team: Column, cards: list[Column]) -> Column:
    """How often a side has batted."""
    return _sum(F.when(card["team"] == team, F.lit(1)) for card in cards)


def _sum(numbers: Iterable[Column]) -> Column:
    """The sum of the numbers that are not null."""
    return reduce(
        Column.__add__, [F.coalesce(number.cast("bigint"), F.lit(0).cast("bigint")) for number in numbers]
    )


def _or_false(condition: Column) -> Column:
    return F.coalesce(condition, F.lit(False))
