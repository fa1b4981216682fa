"""What the routes of the console work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from fastapi import Depends, Request

from gearshift.connection import Connection
from gearshift.errors import DefinitionError, RunnerError
from gearshift.settings import Settings

if TYPE_CHECKING:
    from gearshift.app import App
    from gearshift.console.live import Live

Emit = Callable[[dict[str, Any]], None]


class Running(Protocol):
    """The running app of a console."""

    @property
    def app(self) -> App:
        """What it declares."""
        ...

    def status(self) -> dict[str, Any]:
        """The status of everything, as plain data."""
        ...

    def waiting_for(self) -> list[str]:
        """What is not ready yet."""
        ...

    def details(self, pipeline: str) -> dict[str, Any]:
        """A pipeline's gears, plan, state and latest batch, as plain data."""
        ...

    def shift_for(self, pipeline: str, gear: str, now: bool, emit: Emit, hold: str | None = None) -> None:
        """Shift a pipeline, and emit each step and the result; "auto" lets its gearbox decide again."""
        ...

    def scale_for(self, pipeline: str, partitions: int, emit: Emit) -> None:
        """Scale a pipeline, and emit each step and the result."""
        ...

    def why(self, pipeline: str) -> dict[str, Any]:
        """Why a pipeline is in its gear, what would change it, and the numbers behind it."""
        ...

    def run_interval(self, pipeline: str, start: datetime) -> Mapping[str, Any]:
        """Run one interval of a pipeline next; returns which."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """One console: on a running app, or on a cluster alone."""

    settings: Settings
    connection: Connection
    live: Live
    running: Running | None = None
    file: str | None = None
    read_only: bool = False

    def require_running(self) -> Running:
        """The running app; RunnerError if there is none."""
        if self.running is None:
            raise RunnerError("this console has no running app", hint='start one with "gearshift run FILE"')
        return self.running

    def require_pipeline(self, name: str) -> Running:
        """The running app, which has this pipeline."""
        running = self.require_running()
        known = running.app.graph.pipelines
        if name not in known:
            raise DefinitionError(
                f"unknown pipeline {name!r}", hint=f"use one of {', '.join(known)}", app=running.app.name
            )
        return running


def _console(request: Request) -> Console:
    return request.app.state.console


Here = Annotated[Console, Depends(_console)]
"""The parameter of a route that takes the console."""
