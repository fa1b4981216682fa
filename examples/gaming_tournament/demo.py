"""`gearshift demo gaming_tournament`: places that change with every score, in real-time, in micro-batches and in SQL."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from demos import Board, SqlBoard, story

OVERALL = """
    select place, player, points from (
        select rank() over (order by points desc) as place, player, points from points where board = 'overall'
    ) where place <= 5 order by place, player
"""

if __name__ == "__main__":
    sys.exit(
        story(
            Path(__file__).with_name("gaming_tournament.py"),
            title="A gaming tournament: places in real-time, shared by players with equal points",
            boards=[
                Board(
                    "tournaments: the first five places, in real-time",
                    "leaderboards",
                    ("tournament", "scores", "best"),
                    key="tournament",
                    rows=4,
                ),
                Board(
                    "the most points, in real-time",
                    "player-points",
                    ("board", "player", "points"),
                    key=("board", "player"),
                    order=lambda player: (-player.points, player.board),
                    rows=8,
                ),
                SqlBoard("overall, ranked in SQL over the table", OVERALL),
            ],
            shifts=[("lead_tournaments", "near-real-time"), ("lead_tournaments", "real-time")],
        )
    )
