"""The boards of an app as plain data."""

from __future__ import annotations

from typing import Any

from gearshift.boards import Board
from gearshift.definitions import Graph
from gearshift.errors import RunnerError


def boards_of(graph: Graph) -> list[dict[str, Any]]:
    """The boards of an app, as `/api/app` lists them."""
    return [{"name": board.name, "title": board.title} for board in graph.boards.values()]


def describe_board(board: Board) -> dict[str, Any]:
    """A board and its panels."""
    panels = [
        {"name": name, "title": panel.title or panel.source.name, "kind": panel.kind}
        for name, panel in board.by_name.items()
    ]
    return {"name": board.name, "title": board.title, "panels": panels}


def require_board(graph: Graph, name: str) -> Board:
    """The board with this name; RunnerError if there is none."""
    if name not in graph.boards:
        known = ", ".join(graph.boards)
        raise RunnerError(
            f"unknown board {name!r}",
            hint=f"use one of {known}" if known else "declare one with app.board(…)",
            app=graph.app,
        )
    return graph.boards[name]
