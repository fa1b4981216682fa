"""The gaming tournament: points and places in every gear and in plain Python, shared places, and the demo."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

from gearshift.freshness import Gear
from gearshift.testing import Run, Transform
from tests import stories
from tests.demos import tell

game = stories.load("gaming_tournament", "gaming_tournament")
simulator = stories.load("gaming_tournament", "simulator")
truth = stories.load("gaming_tournament", "truth")
values = stories.load("gaming_tournament", "values")
Place, Score = values.Place, values.Score

SCORES = list(simulator.simulate(random.Random(7), 4))
AWKWARD = {"late": 0.05, "repeated": 0.02, "disorder": timedelta(minutes=10), "event_time": "scored_at"}
EVERY_GEAR = (Gear.BATCH, Gear.NEAR_REAL_TIME, Gear.REAL_TIME)


def made(*points: tuple[str, int]) -> list[Any]:
    """A tournament with these scores."""
    return [
        Score(f"e{number}", "cup", simulator.BEGAN, player, amount, simulator.BEGAN)
        for number, (player, amount) in enumerate(points)
    ]


def leaderboards(scores: list[Any]) -> list[dict[str, Any]]:
    """What every leaderboard must be in the end."""
    totals, last = truth.points(scores), truth.last_scored_at(scores)
    return [
        {
            "tournament": name,
            "best": [Place(*place) for place in places],
            "players": sum(board == name for board, _ in totals),
            "scores": sum(entry["scores"] for (board, _), entry in totals.items() if board == name),
            "last_scored_at": last[name],
        }
        for name, places in truth.boards(scores).items()
        if name != truth.OVERALL
    ]


def test_equal_points_share_a_place_and_the_next_place_is_left_out(gearshift_transform: Transform) -> None:
    scores = made(
        ("Ada", 50), ("Ben", 30), ("Cleo", 20), ("Cleo", 10), ("Dee", 10), ("Eve", 40), ("Eve", -10)
    )
    scores += made(("Ada", 50), ("Ben", 30))  # again
    [board] = gearshift_transform(game.app, game.lead_tournaments, {"scores": scores})
    assert [(place.place, place.player, place.points) for place in board.best] == [
        (1, "Ada", 50),
        (2, "Ben", 30),
        (2, "Cleo", 30),
        (2, "Eve", 30),
        (5, "Dee", 10),
    ]
    assert (board.players, board.scores) == (5, 7)


def test_everyone_who_shares_the_last_place_is_on_the_board(gearshift_transform: Transform) -> None:
    scores = made(*((f"p{number}", 10) for number in range(8)))
    [board] = gearshift_transform(game.app, game.lead_tournaments, {"scores": scores})
    assert [place.place for place in board.best] == [1] * 8


def test_the_tournaments_are_the_same_for_a_seed_and_as_awkward_as_real_ones() -> None:
    assert list(simulator.simulate(random.Random(7), 4)) == SCORES
    assert list(simulator.simulate(random.Random(8), 4)) != SCORES
    assert len({score.event_id for score in SCORES}) == len(SCORES)
    assert len({score.scored_at for score in SCORES}) < len(SCORES)
    assert any(score.points < 0 for score in SCORES)
    boards = truth.boards(SCORES)
    assert len(boards) == 5
    shared = [place for board in boards.values() for place, *_ in board]
    assert len(shared) > len({(name, place) for name, board in boards.items() for place, *_ in board})


def test_leaderboards_are_the_same_in_every_gear_and_in_plain_python(gearshift_run: Run) -> None:
    results = gearshift_run(game.app, game.lead_tournaments, {"scores": SCORES}, **AWKWARD)
    results.assert_each(leaderboards(SCORES), key="tournament")
    assert results.gears == EVERY_GEAR


def test_points_and_final_boards_are_exact_in_every_gear_that_can_make_them(gearshift_run: Run) -> None:
    counted = gearshift_run(game.app, game.count_points, {"scores": SCORES}, **AWKWARD)
    counted.assert_each(truth.points(SCORES).values(), key=("board", "player"))
    assert counted.gears == EVERY_GEAR
    updates = random.Random(7).sample(counted[Gear.REAL_TIME], len(counted[Gear.REAL_TIME]))
    kept = gearshift_run(game.app, game.keep_points, {"player-points": updates}, gears=[Gear.NEAR_REAL_TIME])
    kept.assert_each(truth.points(SCORES).values())
    ranked = gearshift_run(game.app, game.rank_players, {"points": kept[Gear.NEAR_REAL_TIME]})
    assert ranked.gears == (Gear.BATCH,)
    ranked.assert_each(
        [
            {"board": name, "place": place, "player": player, "points": points}
            for name, board in truth.boards(SCORES).items()
            for place, player, points in board
        ],
        key=("board", "player"),
    )


def test_the_demo_fills_its_boards_and_loses_nothing(tmp_path: Path) -> None:
    told = tell("gaming_tournament", tmp_path)
    assert "lead_tournaments: real-time → near-real-time" in told.output
    assert "lead_tournaments: near-real-time → real-time" in told.output
    [(overall, tournaments)] = told.ask(
        """SELECT sum(points) FILTER (board = 'overall'), sum(points) FILTER (board <> 'overall') FROM points"""
    )
    assert overall is not None and tournaments is not None
