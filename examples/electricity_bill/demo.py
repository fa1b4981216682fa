"""`gearshift demo electricity_bill`: months that grow with every reading, and bills that are exact to the cent."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from demos import Board, SqlBoard, story  # noqa: E402  (what the demos share)

BILLS = """
    select meter_id, month, days, half_hours, missing, day_kwh + night_kwh as kwh,
        day_estimate + night_estimate as estimate, total
    from bills order by month desc, meter_id"""

sys.exit(
    story(
        HERE / "electricity_bill.py",
        title="The electricity bill: real meters, six time zones, exact to the cent",
        boards=[
            Board(
                "The month so far, in real-time",
                "months-so-far",
                columns=("meter_id", "month", "tariff", "half_hours", "day_kwh", "night_kwh", "amount"),
                key="meter_id",
                order=lambda month: month.meter_id,
            ),
            SqlBoard("Monthly bills, in batch; again as late readings arrive", BILLS, rows=12),
        ],
        shifts=[("month_so_far", "near-real-time"), ("month_so_far", "real-time")],
        seconds=40,
    )
)
