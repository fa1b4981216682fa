"""The connectors of the app's change captures in Kafka Connect; without an app, all of Connect."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from typing import Any

from fastapi import APIRouter

from gearshift.console.console import Console, Here
from gearshift.console.problems import Refusal
from gearshift.errors import ConnectError, StackError
from gearshift.sources.cdc.connect_api import Connect
from gearshift.stack import find_service

router = APIRouter(tags=["connectors"])

_TIMEOUT = timedelta(seconds=10)


class Action(StrEnum):
    """What can be done to a connector."""

    PAUSE = "pause"
    RESUME = "resume"
    RESTART = "restart"


@router.get("/api/connectors")
def connectors(console: Here) -> list[dict[str, Any]]:
    """The connectors and their tasks; empty if no Connect is set up."""
    with _opened(console) as connect:
        if connect is None:
            return []
        return [_described(connect, name, capture) for name, capture in _known(console, connect).items()]


@router.post("/api/connectors/{connector}/{action}")
def act(connector: str, action: Action, console: Here) -> dict[str, Any]:
    """Pause, resume or restart a connector; one that is paused stays so, also when the app restarts."""
    with _opened(console) as connect:
        known = _known(console, connect) if connect is not None else {}
        if connect is None or connector not in known or connect.status(connector) is None:
            hint = f"use one of {', '.join(known)}" if known else "the app captures no database"
            raise Refusal(404, ConnectError(f"unknown connector {connector!r}", hint=hint))
        match action:
            case Action.PAUSE:
                connect.pause(connector)
            case Action.RESUME:
                connect.resume(connector)
            case Action.RESTART:
                connect.restart(connector)
        return {"state": _described(connect, connector, None)["state"]}


@contextmanager
def _opened(console: Console) -> Generator[Connect | None]:
    """A client of the stack's or the user's own Connect; None without one."""
    if console.running is not None and not console.running.app.graph.captures:
        yield None
        return
    try:
        address = find_service("connect", console.settings)
    except StackError:
        yield None
        return
    connect = Connect(address.get_secret_value(), timeout=_TIMEOUT)
    try:
        yield connect
    finally:
        connect.close()


def _known(console: Console, connect: Connect) -> dict[str, str | None]:
    """The connectors to show, with the capture that each belongs to."""
    if console.running is None:
        return dict.fromkeys(connect.names())
    return {each["connector"]: each["name"] for each in console.running.status().get("captures", ())}


def _described(connect: Connect, name: str, capture: str | None) -> dict[str, Any]:
    status = connect.status(name)
    cause = status.failure if status is not None else None
    return {
        "name": name,
        **(status.as_json() if status is not None else {"state": "missing", "tasks": []}),
        "cause": str(cause) if cause is not None else None,
        "capture": capture,
    }
