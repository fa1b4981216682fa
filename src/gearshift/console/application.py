"""The console's web application: pages, the JSON API, metrics and health."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel
from starlette.exceptions import HTTPException

import gearshift
from gearshift.console.access import Access, Guard
from gearshift.console.console import Console
from gearshift.console.problems import Refusal, described, status_of
from gearshift.console.routes import ROUTERS
from gearshift.errors import GearshiftError, RunnerError, SettingsError

_PAGES = Path(__file__).parent / "pages"
_READING = ("/api/sql", "/check")


class Problem(BaseModel):
    """What went wrong, as the command line prints it."""

    kind: str
    """The class of the error in `gearshift.errors`."""
    what: str
    hint: str | None
    app: str | None
    pipeline: str | None
    delivery: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    file: str | None
    line: int | None


class ErrorAnswer(BaseModel):
    """The answer to every request that fails."""

    error: Problem


def application(console: Console, access: Access) -> Guard:
    """The ASGI application of a console."""
    app = FastAPI(
        title="Gearshift",
        version=gearshift.__version__,
        description="The API of a running app. Send the token as `Authorization: Bearer TOKEN`.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # its page loads scripts from other hosts
        redoc_url=None,
        responses={
            "4XX": {"model": ErrorAnswer, "description": "The request cannot be answered."},
            503: {"model": ErrorAnswer, "description": "Something does not answer now; try again."},
        },
    )
    app.state.console = console
    app.add_exception_handler(GearshiftError, _on_error)
    app.add_exception_handler(Refusal, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_internal_error)
    for router in ROUTERS:
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=_PAGES))
    app.add_api_route("/{path:path}", _page, include_in_schema=False)
    return Guard(app, access, _READING)


def _page(path: str) -> FileResponse:
    """Every page is the same file; its script shows what the path names."""
    if path.startswith(("api/", "static/")):
        raise Refusal(404, RunnerError(f"unknown path /{path}"))
    return FileResponse(_PAGES / "index.html")


def _on_error(_: Request, raised: Exception) -> JSONResponse:
    status, error = 500, raised
    if isinstance(raised, Refusal):
        status, error = raised.status, raised.error
    elif isinstance(raised, GearshiftError):
        status = status_of(raised)
    return _answer(status, error)


def _on_invalid(_: Request, raised: Exception) -> JSONResponse:
    assert isinstance(raised, RequestValidationError)
    first: Any = raised.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return _answer(400, SettingsError(f"{where}: {first['msg']}"))


def _on_http_error(_: Request, raised: Exception) -> JSONResponse:
    assert isinstance(raised, HTTPException)
    kind = SettingsError if raised.status_code == 400 else RunnerError
    response = _answer(raised.status_code, kind(str(raised.detail)))
    response.headers.update(raised.headers or {})
    return response


def _on_internal_error(_: Request, raised: Exception) -> JSONResponse:
    return _answer(500, raised)


def _answer(status: int, error: Exception) -> JSONResponse:
    return JSONResponse({"error": described(error)}, status)
