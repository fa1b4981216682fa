"""Rules for boards."""

from __future__ import annotations

from dataclasses import fields
from difflib import get_close_matches
from typing import Any, get_args

from gearshift.boards import Board, Feed, How, Level, Number, Panel, Series, TableView, parts_of
from gearshift.definitions import Graph, Location, Table, Topic
from gearshift.rules.declared import duration, invalid, require_name, require_new

_MOST_PANELS = 24
_MOST_ROWS = 500
_NO_VALUE = ("count",)


def check_board(board: Board, graph: Graph) -> None:
    """Require panels on the app's own topics and tables that name fields which exist."""
    name, where = board.name, board.defined_at
    require_name(name, "board", where)
    require_new(name, "board", graph.boards, where)
    if not 0 < len(board.panels) <= _MOST_PANELS:
        raise invalid(
            f"board {name} has {len(board.panels)} panels",
            f"give it 1 to {_MOST_PANELS}, such as gs.Number(alerts)",
            where,
        )
    for panel in board.panels:
        _check_panel(board, panel, graph)


def _check_panel(board: Board, panel: Any, graph: Graph) -> None:
    where = board.defined_at
    if not isinstance(panel, Panel) or not hasattr(panel, "kind"):
        raise invalid(
            f"board {board.name} has the panel {panel!r}", "use one such as gs.Number(alerts)", where
        )
    owner = f"board {board.name}: {type(panel).__name__}"
    _check_source(owner, panel, graph, where)
    _check_options(owner, panel, where)
    for option, name in panel.named.items():
        if isinstance(panel.source, Topic):
            _require_field(owner, option, name, panel.source, where)
        elif not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise invalid(f"{owner} has {option}={name!r}", "name a column", where)


def _check_source(owner: str, panel: Panel, graph: Graph, where: Location) -> None:
    source: object = panel.source
    captured = [topic for capture in graph.captures.values() for topic in capture.topics.values()]
    if isinstance(source, Topic) and source.envelope is not None:
        raise invalid(
            f"{owner} shows the changes of topic {source.name}",
            "show a table that a pipeline keeps with as_of='latest'",
            where,
        )
    if not any(source is known for known in (*graph.topics.values(), *graph.tables.values(), *captured)):
        raise invalid(
            f"{owner} shows {getattr(source, 'name', source)!r}, which this app does not declare",
            "pass what app.topic(…) or app.table(…) returned",
            where,
        )
    if isinstance(source, Table) and isinstance(panel, Feed | Series) and panel.at is None:
        raise invalid(
            f"{owner} of table {source.name} has no time", "name its column with the time: at=", where
        )
    if (
        isinstance(source, Table)
        and isinstance(panel, Number)
        and (panel.today or panel.computes == "latest")
    ):
        raise invalid(
            f"{owner} of table {source.name} has {'today' if panel.today else 'how=latest'}",
            "a table's rows have no order: use how='sum', 'mean', 'min', 'max' or 'count'",
            where,
        )


def _check_options(owner: str, panel: Panel, where: Location) -> None:
    for name, value in panel.where.items():
        if not isinstance(value, str | int | float | bool | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise invalid(
                f"{owner} has where={{{name!r}: {value!r}}}", "use text, a number, a bool or None", where
            )
    if isinstance(panel, Number | Series):
        if panel.how not in (None, *get_args(How)):
            raise invalid(
                f"{owner} has how={panel.how!r}", f"use {', '.join(map(repr, get_args(How)))}", where
            )
        if panel.value is None and panel.computes not in _NO_VALUE:
            raise invalid(f"{owner} has how={panel.how!r} and no value", "name a field: value=", where)
    if isinstance(panel, Series):
        duration(panel.step, f"{owner}: step", where)
    if isinstance(panel, TableView) and (not panel.columns or isinstance(panel.columns, str)):
        raise invalid(f"{owner} has columns={panel.columns!r}", "name them in a tuple: ('a', 'b')", where)
    top = getattr(panel, "top", 1)
    if not isinstance(top, int) or not 1 <= top <= _MOST_ROWS:
        raise invalid(f"{owner} has top={top!r}", f"use a number from 1 to {_MOST_ROWS}", where)
    if isinstance(panel, Feed):
        if panel.level not in get_args(Level):
            raise invalid(
                f"{owner} has level={panel.level!r}", f"use {', '.join(map(repr, get_args(Level)))}", where
            )
        try:
            parts_of(panel.text)
        except ValueError as error:
            raise invalid(
                f"{owner} has text={panel.text!r}: {error}",
                "use fields in braces, such as {meter_id}, and {{ for a brace",
                where,
            ) from None


def _require_field(owner: str, option: str, name: str, topic: Topic, where: Location) -> None:
    known = [field.name for field in fields(topic.value)]
    if name in known:
        return
    close = get_close_matches(str(name), known, 1)
    raise invalid(
        f"{owner} has {option}, but {topic.value.__name__} of topic {topic.name} has no field {name!r}",
        f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(known)}",
        where,
    )
