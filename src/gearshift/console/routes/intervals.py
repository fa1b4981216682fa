"""The intervals of batch pipelines: their states, and running one on request."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from time import monotonic
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, BeforeValidator

from gearshift.app import App
from gearshift.console.console import Console, Here
from gearshift.definitions import Pipeline
from gearshift.pipelines.intervals.selection import (
    describe_interval,
    pipeline_of_intervals,
    survey_intervals,
)
from gearshift.settings import Settings
from gearshift.storage.location import table_uri
from gearshift.tables import exists, newest_version

router = APIRouter(tags=["intervals"])

_FRESH = 2.0
_UNCHANGED = 10.0
"""Seconds after which a pipeline is surveyed again though its tables are as they were: the clock goes on."""
_SHARE = 5
"""A survey reads all rows of a changed table: at most one fifth of the time."""


def _text(given: object) -> object:
    """ISO 8601 only; pydantic alone would take numbers as seconds since 1970."""
    if not isinstance(given, str):
        raise ValueError("write the time in ISO 8601, such as 2026-01-31T00:00:00+01:00")
    return given


class Wanted(BaseModel):
    """The interval to run."""

    start: Annotated[datetime, BeforeValidator(_text)]
    """Without an offset, in the app's time zone."""


class Surveys:
    """The latest survey of each pipeline, shared by all who ask."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, float, list[int], list[dict[str, Any]]]] = {}

    def of(self, app: App, pipeline: Pipeline) -> list[dict[str, Any]]:
        """The intervals of a pipeline, oldest first."""
        with self._lock:
            began = monotonic()
            at, took, versions, found = self._kept.get(pipeline.name, (-1e9, 0.0, [], []))
            if began - at < max(_FRESH, _SHARE * took):
                return found
            present = self._versions(pipeline)
            if present == versions and began - at < _UNCHANGED:
                return found
            seen = survey_intervals(app, self._settings, pipeline, datetime.now(UTC))
            found = [describe_interval(pipeline.name, each) for each in seen.statuses] if seen else []
            self._kept[pipeline.name] = (monotonic(), monotonic() - began, present, found)
            return found

    def _versions(self, pipeline: Pipeline) -> list[int]:
        uris = [
            table_uri(self._settings.warehouse_uri, store.name)
            for store in (*pipeline.tables.values(), pipeline.target)
        ]
        return [newest_version(uri) if exists(uri) else -1 for uri in uris]


def _surveys(request: Request, console: Here) -> Surveys:
    state = request.app.state
    if not hasattr(state, "surveys"):
        state.surveys = Surveys(console.settings)
    return state.surveys


@router.get("/api/intervals")
def intervals(console: Here, surveys: Annotated[Surveys, Depends(_surveys)]) -> list[dict[str, Any]]:
    """The intervals of all pipelines that have some; one that runs, or waits to, has the state `running`."""
    app = console.require_running().app
    running = _in_progress(console)
    return [
        {**each, "state": "running"} if (each["pipeline"], each["start"]) in running else each
        for pipeline in app.graph.pipelines.values()
        if pipeline.intervals is not None
        for each in surveys.of(app, pipeline)
    ]


@router.post("/api/pipelines/{pipeline}/intervals", status_code=202)
def run_interval(pipeline: str, wanted: Wanted, console: Here) -> dict[str, Any]:
    """Run an interval next, again if it has run; its result replaces that of the earlier run."""
    running = console.require_pipeline(pipeline)
    pipeline_of_intervals(running.app.graph, pipeline)
    return dict(running.run_interval(pipeline, wanted.start))


def _in_progress(console: Console) -> set[tuple[str, str]]:
    """The intervals that run or wait for a run, by pipeline and start."""
    status = console.require_running().status()
    return {
        (each["name"], start)
        for each in status.get("pipelines", ())
        for start in each.get("intervals_in_progress", ())
    }
