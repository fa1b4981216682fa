"""The same boards in plain Python: counting up, without Spark, a watermark or a rank function."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from values import Score

OVERALL = "overall"

Totals = dict[tuple[str, str], int]


def distinct(scores: Iterable[Score]) -> list[Score]:
    """The scores, each once."""
    return list({score.event_id: score for score in scores}.values())


def points(scores: Iterable[Score]) -> dict[tuple[str, str], dict[str, Any]]:
    """Each player's points by board and player."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for score in distinct(scores):
        for board in (score.tournament, OVERALL):
            entry = found.setdefault(
                (board, score.player),
                {
                    "board": board,
                    "player": score.player,
                    "points": 0,
                    "scores": 0,
                    "last_scored_at": score.scored_at,
                },
            )
            entry["points"] += score.points
            entry["scores"] += 1
            entry["last_scored_at"] = max(entry["last_scored_at"], score.scored_at)
    return found


def board(totals: dict[str, int], places: int = 5) -> list[tuple[int, str, int]]:
    """Place, player and points of the first places; who has equal points shares a place.

    >>> board({"a": 10, "b": 30, "c": 10, "d": 5, "e": 10}, places=4)
    [(1, 'b', 30), (2, 'a', 10), (2, 'c', 10), (2, 'e', 10)]
    """
    made: list[tuple[int, str, int]] = []
    ahead = 0
    for amount in sorted(set(totals.values()), reverse=True):
        if ahead >= places:
            break
        those = sorted(player for player, theirs in totals.items() if theirs == amount)
        made += [(ahead + 1, player, amount) for player in those]
        ahead += len(those)
    return made


def boards(scores: Iterable[Score], places: int = 5) -> dict[str, list[tuple[int, str, int]]]:
    """The first places of every tournament, and overall."""
    totals: dict[str, dict[str, int]] = defaultdict(dict)
    for (name, player), entry in points(scores).items():
        totals[name][player] = entry["points"]
    return {name: board(players, places) for name, players in totals.items()}


def last_scored_at(scores: Iterable[Score]) -> dict[str, datetime]:
    """The time of the last score of each tournament."""
    found: dict[str, datetime] = {}
    for score in scores:
        found[score.tournament] = max(score.scored_at, found.get(score.tournament, score.scored_at))
    return found
