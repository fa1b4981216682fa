"""`gearshift demo trending_hashtags`: the tags that rise, in every script, and the accounts that push one."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from demos import Board, SqlBoard, story

BUSIEST = """
    SELECT place, string_agg(tag, ', ' ORDER BY tag) AS tags, accounts, window_start
    FROM ranked_tags WHERE window_start = (SELECT arg_max(window_start, accounts) FROM ranked_tags)
    GROUP BY ALL ORDER BY place"""

if __name__ == "__main__":
    sys.exit(
        story(
            Path(__file__).with_name("trending_hashtags.py"),
            title="Trending hashtags: who rises in the last ten minutes",
            boards=[
                Board(
                    "The best tags of the newest windows, in real-time",
                    "top-tags",
                    ("window_end", "best"),
                    key="window_end",
                    order=lambda top: -top.window_end.timestamp(),
                    rows=8,
                ),
                Board(
                    "Bursts of spam",
                    "bursts",
                    ("account", "tag", "minute", "posts"),
                    key=("account", "tag", "minute"),
                    rows=4,
                ),
                SqlBoard("The busiest window, ranked in batch", BUSIEST),
            ],
            shifts=[
                ("count_tags", "near-real-time"),
                ("count_tags", "real-time"),
                ("rank_tags", "batch"),
            ],
            seconds=40,
        )
    )
