"""The rows of tables for the panels of a board: queried again when a table has a new version."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta, tzinfo
from math import isfinite
from typing import Any

from gearshift import tables
from gearshift.boards import (
    Candles,
    Feed,
    Keyed,
    Leaderboard,
    Number,
    Panel,
    Scalar,
    Series,
    TableView,
    Zones,
)
from gearshift.console.boards.states import state_of
from gearshift.console.boards.values import number
from gearshift.tables import Limits

_WITHIN = timedelta(seconds=10)
_MOST_ROWS = 10_000


class TableRows:
    """What panels on tables show, at the tables' newest versions."""

    def __init__(self, warehouse_uri: str, panels: Mapping[str, Panel], zone: tzinfo) -> None:
        self._warehouse = warehouse_uri
        self._panels = panels
        self._zone = zone
        self._seen: dict[str, int] = {}

    def refresh(self, name: str) -> dict[str, Any] | None:
        """What a panel shows; None if its table has not changed. TableError if it cannot be read."""
        panel = self._panels[name]
        version = tables.newest_version(tables.table_uri(self._warehouse, panel.source.name))
        if self._seen.get(name) == version:
            return None
        found = self._ask(panel)
        self._seen[name] = version
        return found

    def _ask(self, panel: Panel) -> dict[str, Any]:
        query = query_of(panel)
        answer = tables.sql(self._warehouse, query, limits=Limits(rows=_MOST_ROWS, time=_WITHIN))
        if isinstance(panel, Number):
            return {"value": number(answer.rows[0][0]), "unit": panel.unit}
        state = state_of(panel, self._zone)
        for row in reversed(answer.dicts()):
            state.take(row, None)
        return state.data()


def query_of(panel: Panel) -> str:
    """The query for a panel, with the rows that it shows first.

    >>> from gearshift import App
    >>> query_of(Leaderboard(App("shop").table("t"), by="points", label="who", top=3, where={"cup": 2026}))
    'SELECT "points", "who" FROM "t" WHERE "cup" = 2026 ORDER BY "points" DESC NULLS LAST LIMIT 3'
    """
    table = _quoted(panel.source.name)
    conditions = [_equals(name, value) for name, value in panel.where.items()]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    if isinstance(panel, Number):
        what = (
            "count(*)"
            if panel.computes == "count"
            else f"{_FUNCTIONS[panel.computes]}({_quoted(panel.value or '')})"
        )
        return f"SELECT {what} FROM {table}{where}"
    if isinstance(panel, Keyed) and panel.newest is not None:
        newest = _quoted(panel.newest)
        conditions.append(f"{newest} = (SELECT max({newest}) FROM {table}{where})")
        where = f" WHERE {' AND '.join(conditions)}"
    named = {name: None for option, name in panel.named.items() if not option.startswith("where=")}
    order, most = _order(panel)
    ordered = f" ORDER BY {_quoted(order)} DESC NULLS LAST" if order is not None else ""
    return f"SELECT {', '.join(map(_quoted, named))} FROM {table}{where}{ordered} LIMIT {most}"


_FUNCTIONS = {"sum": "sum", "mean": "avg", "min": "min", "max": "max"}


def _order(panel: Panel) -> tuple[str | None, int]:
    """The column whose highest values come first, and the number of rows."""
    match panel:
        case Leaderboard():
            return panel.by, panel.top
        case TableView():
            return panel.order_by, panel.top
        case Candles():
            return panel.at, panel.top
        case Feed():
            return panel.at, panel.top
        case Series():
            return panel.at, _MOST_ROWS
        case Zones():
            return None, 500
        case _:
            return None, _MOST_ROWS


def _equals(name: str, value: Scalar) -> str:
    if value is None:
        return f"{_quoted(name)} IS NULL"
    if isinstance(value, bool) or (isinstance(value, int | float) and isfinite(value)):
        return f"{_quoted(name)} = {str(value).lower()}"
    return f"{_quoted(name)} = '{str(value).replace(chr(39), chr(39) * 2)}'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
