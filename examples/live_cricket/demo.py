"""`gearshift demo live_cricket`: two matches at a time, their chases and results, and the cards behind them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from demos import Board, SqlBoard, story

BATTERS = """
    SELECT batter, team, sum(runs) AS runs, sum(balls) AS balls, sum(fours) AS fours, sum(sixes) AS sixes
    FROM batting GROUP BY batter, team ORDER BY runs DESC, batter LIMIT 5"""
BOWLERS = """
    SELECT bowler, sum(wickets) AS wickets, sum(runs) AS runs, sum(maidens) AS maidens
    FROM bowling GROUP BY bowler ORDER BY wickets DESC, runs, bowler LIMIT 5"""
CONFIRMED = """
    SELECT count(*) FILTER (confirmed) AS equal, count(*) FILTER (NOT confirmed) AS different,
        count(*) FILTER (confirmed IS NULL) AS undecided
    FROM matches"""

if __name__ == "__main__":
    sys.exit(
        story(
            Path(__file__).with_name("live_cricket.py"),
            title="Live cricket: every ball on the scorecard, and every correction",
            boards=[
                Board(
                    "Matches, in real-time",
                    "standings",
                    ("title", "batting", "score", "overs", "target", "needed", "required_rate", "result"),
                    key="match",
                    rows=6,
                ),
                SqlBoard("Most runs", BATTERS),
                SqlBoard("Most wickets", BOWLERS),
                SqlBoard("Results: computed from the deliveries, and announced", CONFIRMED),
            ],
            shifts=[("score_innings", "near-real-time"), ("score_innings", "real-time")],
            seconds=40,
        )
    )
