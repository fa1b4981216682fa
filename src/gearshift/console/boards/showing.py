"""Panels of rows: leaderboards, tables, candles and zones."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from gearshift.boards import Candles, Leaderboard, Panel, TableView, Zones
from gearshift.console.boards.values import Row, cell, highest_first, moment, number, only_newest

Data = dict[str, Any]


def show_rows(panel: Panel, rows: list[Row], zone: tzinfo) -> Data:
    """What a panel shows of rows, the ones that changed last at the end."""
    match panel:
        case Leaderboard():
            return _leaderboard(panel, only_newest(rows, panel.newest))
        case TableView():
            return _table(panel, only_newest(rows, panel.newest))
        case Candles():
            return _candles(panel, only_newest(rows, panel.newest), zone)
        case Zones():
            return _zones(panel, only_newest(rows, panel.newest))
        case _:
            raise AssertionError(panel)


def _leaderboard(panel: Leaderboard, rows: list[Row]) -> Data:
    """Equal values share a place, and the next one is left out."""
    best = highest_first(rows, panel.by)[: panel.top]
    shown: list[list[Any]] = []
    for place, row in enumerate(best, 1):
        value = cell(row[panel.by])
        shared = shown[-1][0] if shown and shown[-1][2] == value else place
        shown.append([shared, cell(row.get(panel.label)), value])
    return {"columns": ["place", panel.label, panel.by], "rows": shown}


def _table(panel: TableView, rows: list[Row]) -> Data:
    ordered = highest_first(rows, panel.order_by) if panel.order_by is not None else list(reversed(rows))
    shown = [[cell(row.get(name)) for name in panel.columns] for row in ordered[: panel.top]]
    return {"columns": list(panel.columns), "rows": shown}


def _candles(panel: Candles, rows: list[Row], zone: tzinfo) -> Data:
    dated = [(at, row) for row in rows if (at := moment(row.get(panel.at), zone)) is not None]
    latest = sorted(dated, key=lambda bar: bar[0])[-panel.top :]
    prices = ("open", "high", "low", "close")
    return {
        "bars": [
            {
                "at": at.isoformat(),
                **{name: number(row.get(getattr(panel, name))) for name in prices},
                "volume": number(row.get(panel.volume)) if panel.volume is not None else None,
            }
            for at, row in latest
        ]
    }


def _zones(panel: Zones, rows: list[Row]) -> Data:
    found = {str(row.get(panel.name)): row for row in rows}
    return {
        "zones": [
            {"name": name, "value": number(row.get(panel.value)), "capacity": _capacity(panel, name, row)}
            for name, row in sorted(found.items())
        ]
    }


def _capacity(panel: Zones, name: str, row: Row) -> float | int | None:
    given = panel.capacity
    if isinstance(given, str):
        return number(row.get(given))
    if isinstance(given, Mapping):
        return number(given.get(name))
    return number(given)
