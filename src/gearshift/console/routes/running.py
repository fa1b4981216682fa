"""The running app: its declarations, status, events, pipelines and shifts; and what probes and Prometheus ask for."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from queue import SimpleQueue
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

import gearshift
from gearshift.console.boards.describing import boards_of
from gearshift.console.console import Console, Emit, Here
from gearshift.console.describing import describe_graph
from gearshift.console.events import EVENTS, event, stream
from gearshift.console.metrics import render
from gearshift.console.problems import described
from gearshift.errors import GearshiftError, ScaleError, ShiftError
from gearshift.freshness import Freshness, Gear

router = APIRouter()

_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}}}}
_LINES: dict[int | str, dict[str, Any]] = {200: {"content": {"application/x-ndjson": {}}}}


class ShiftRequest(BaseModel):
    """The gear to shift to; "auto" lets the gearbox decide again."""

    gear: str
    now: bool = False
    """Do not wait for the batch to end; replayed records are counted."""
    hold: str | None = None
    """How long the gearbox leaves it there, such as "2 hours"; without one, until the gear "auto"."""


class ScaleRequest(BaseModel):
    """The number of shuffle partitions to scale to."""

    parallelism: int


@router.get("/health", tags=["probes"])
def health() -> dict[str, str]:
    """Whether the server answers."""
    return {"status": "ok"}


@router.get("/ready", tags=["probes"], responses={503: {"description": "What is missing."}})
def ready(console: Here) -> JSONResponse:
    """Whether everything that the app declares is running."""
    waiting = console.running.waiting_for() if console.running is not None else []
    return JSONResponse({"ready": not waiting, "waiting_for": waiting}, 503 if waiting else 200)


@router.get("/metrics", tags=["probes"], response_class=Response, responses=_TEXT)
def metrics(console: Here) -> Response:
    """The numbers of the app, for Prometheus."""
    return Response(render(status_of(console)), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/api/app", tags=["app"])
def app(console: Here) -> dict[str, Any]:
    """What the app declares."""
    running = console.running
    graph = running.app.graph if running is not None else None
    return {
        "app": graph.app if graph is not None else None,
        "file": console.file,
        "version": gearshift.__version__,
        "read_only": console.read_only,
        "bootstrap_servers": console.connection.bootstrap_servers,
        "registry_url": console.connection.registry_url,
        "graph": describe_graph(graph) if graph is not None else None,
        "boards": boards_of(graph) if graph is not None else [],
    }


@router.get("/api/status", tags=["app"])
def status(console: Here) -> dict[str, Any]:
    """The status of everything."""
    return status_of(console)


@router.get("/api/events", tags=["app"], response_class=StreamingResponse, responses=EVENTS)
def events(console: Here) -> StreamingResponse:
    """Server-sent events: `history` once, then `status` every second."""

    async def all_events() -> AsyncIterator[str]:
        yield event("history", console.live.history())
        async for snapshot in console.live.snapshots():
            yield event("status", snapshot)

    return stream(all_events())


@router.get("/api/pipelines/{pipeline}", tags=["pipelines"])
def pipeline(pipeline: str, console: Here) -> dict[str, Any]:
    """A pipeline: its gears, ledger, plan, state and latest batch."""
    return console.require_pipeline(pipeline).details(pipeline)


@router.get("/api/pipelines/{pipeline}/why", tags=["pipelines"])
def why(pipeline: str, console: Here) -> dict[str, Any]:
    """Why a pipeline is in its gear, what would change it, and the numbers behind it."""
    return console.require_pipeline(pipeline).why(pipeline)


@router.post(
    "/api/pipelines/{pipeline}/shift", tags=["pipelines"], response_class=StreamingResponse, responses=_LINES
)
def shift(pipeline: str, wanted: ShiftRequest, console: Here) -> StreamingResponse:
    """Shift a pipeline: one line of JSON per step as it happens, the last with the result or the error."""
    running = console.require_pipeline(pipeline)
    if wanted.gear != "auto":
        Gear.named(wanted.gear)
    if wanted.hold is not None:
        Freshness.parse(wanted.hold)

    def work(emit: Emit) -> None:
        running.shift_for(pipeline, wanted.gear, wanted.now, emit, hold=wanted.hold)

    return StreamingResponse(_steps(f"shift {pipeline}", work, ShiftError), media_type="application/x-ndjson")


@router.post(
    "/api/pipelines/{pipeline}/scale", tags=["pipelines"], response_class=StreamingResponse, responses=_LINES
)
def scale(pipeline: str, wanted: ScaleRequest, console: Here) -> StreamingResponse:
    """Move a pipeline's state to another number of shuffle partitions: a line of JSON per step, as in a shift."""
    running = console.require_pipeline(pipeline)

    def work(emit: Emit) -> None:
        running.scale_for(pipeline, wanted.parallelism, emit)

    return StreamingResponse(_steps(f"scale {pipeline}", work, ScaleError), media_type="application/x-ndjson")


def status_of(console: Console) -> dict[str, Any]:
    """The status of the running app, or of none."""
    return console.running.status() if console.running is not None else {"app": None}


def _steps(name: str, work: Callable[[Emit], None], kind: type[GearshiftError]) -> Iterator[str]:
    """The steps of some work in a thread of its own: it goes on if the client disconnects."""
    lines: SimpleQueue[dict[str, Any] | None] = SimpleQueue()

    def run() -> None:
        try:
            work(lines.put)
        except Exception as error:
            lines.put({"error": described(error, kind)})
        lines.put(None)

    threading.Thread(target=run, name=name, daemon=True).start()
    while (line := lines.get()) is not None:
        yield json.dumps(line) + "\n"
