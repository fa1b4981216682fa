"""`gearshift demo mall_counter`: the people in a mall while they come and go, and its footfall by the hour."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from demos import Board, SqlBoard, story  # noqa: E402  (what the demos share)

FOOTFALL = """
    select hour, sum(entered)::bigint as entered, sum("left")::bigint as "left" from footfall
    group by hour order by max(hour_start) desc"""
DRIFT = 'select business_day, zone, entered, "left", drift from drift order by business_day desc, zone'


sys.exit(
    story(
        HERE / "mall_counter.py",
        title="A mall: people now, in real-time; footfall by the hour, in batch",
        boards=[
            Board(
                "People now",
                "people-now",
                columns=("zone", "people", "entered", "left", "counted_at"),
                key="zone",
                order=lambda now: now.zone,
            ),
            Board(
                "The guard is called",
                "guard-calls",
                columns=("text",),
                key=("zone", "text"),
                rows=5,
            ),
            SqlBoard("Footfall by hour of the mall's clock", FOOTFALL, rows=8),
            SqlBoard("In minus out by business day: its drift, once it is over", DRIFT, rows=8),
        ],
        shifts=[("count_people", "near-real-time"), ("count_people", "real-time")],
        seconds=50,
    )
)
