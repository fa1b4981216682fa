"""The app's boards, and what their panels show as it changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse

from gearshift.console.boards.describing import describe_board, require_board
from gearshift.console.boards.open_board import OpenBoards
from gearshift.console.console import Here
from gearshift.console.events import EVENTS, event, stream

router = APIRouter(tags=["boards"])

_EVERY = 1.0
_ALIVE_EVERY = 15
"""Events after which a comment shows that the stream is alive, if nothing changes."""


def _open_boards(request: Request, console: Here) -> OpenBoards:
    state = request.app.state
    if not hasattr(state, "boards"):
        graph = console.require_running().app.graph
        live = console.live
        state.boards = OpenBoards(graph.timezone, console.settings, console.connection, lambda: live.closing)
    return state.boards


@router.get("/api/boards")
def boards(console: Here) -> list[dict[str, Any]]:
    """The boards that the app declares, with their panels."""
    return [describe_board(board) for board in console.require_running().app.graph.boards.values()]


@router.get("/api/boards/{board}/events", response_class=StreamingResponse, responses=EVENTS)
def board_events(
    board: str, console: Here, opened: Annotated[OpenBoards, Depends(_open_boards)]
) -> StreamingResponse:
    """Server-sent events `panels`, at most one a second: all panels first, then those that change."""
    declared = require_board(console.require_running().app.graph, board)

    async def changes() -> AsyncIterator[str]:
        shown, seen, quiet = opened.join(declared), 0, 0
        try:
            while not console.live.closing:
                seen, panels = shown.changed_since(seen)
                quiet = 0 if panels else quiet + 1
                if panels:
                    yield event("panels", _data(panels))
                elif quiet % _ALIVE_EVERY == 0:
                    yield ": alive\n\n"
                await asyncio.sleep(_EVERY)
        finally:
            opened.leave(declared)

    return stream(changes())


def _data(panels: dict[str, str]) -> str:
    """The event's JSON, from that of each panel."""
    joined = ", ".join(f"{json.dumps(name)}: {text}" for name, text in panels.items())
    return f'{{"at": "{datetime.now(UTC).isoformat(timespec="milliseconds")}", "panels": {{{joined}}}}}'
