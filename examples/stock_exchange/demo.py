"""`gearshift demo stock_exchange`: bars that change with every tick, a halt, and the same bars settled in batch."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from demos import Board, SqlBoard, story

COMPARED = """
    SELECT count(*) AS minute_bars,
        count(*) FILTER (live IS NOT DISTINCT FROM settled) AS equal,
        count(*) FILTER (live IS DISTINCT FROM settled) AS different
    FROM (SELECT symbol, start, (open, high, low, close, volume, turnover, vwap, ticks) AS live
          FROM live_minute_bars)
    JOIN (SELECT symbol, start, (open, high, low, close, volume, turnover, vwap, ticks) AS settled
          FROM settled_minute_bars) USING (symbol, start)
    WHERE start < (SELECT max(start) FROM settled_minute_bars) - INTERVAL 5 MINUTE"""

if __name__ == "__main__":
    sys.exit(
        story(
            Path(__file__).with_name("stock_exchange.py"),
            title="Stock exchange: ticks become bars, in real-time and again in batch",
            boards=[
                Board(
                    "Bars of a minute, in real-time",
                    "minute-bars",
                    ("symbol", "start", "open", "high", "low", "close", "volume", "vwap", "ticks"),
                    key=("symbol", "start"),
                    rows=6,
                ),
                Board(
                    "Trading halts",
                    "trading-halts",
                    ("symbol", "at", "price", "reference", "change"),
                    key=("symbol", "day"),
                    rows=4,
                ),
                SqlBoard("The same bars in real-time and in batch, column by column", COMPARED),
            ],
            shifts=[
                ("minute_bars_live", "near-real-time"),
                ("minute_bars_live", "real-time"),
                ("settle_minute_bars", "batch"),
            ],
            seconds=40,
        )
    )
