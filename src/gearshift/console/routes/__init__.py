"""The JSON API, one module per subject."""

from __future__ import annotations

from gearshift.console.routes import (
    boards,
    connectors,
    dead_letters,
    groups,
    intervals,
    records,
    running,
    schemas,
    tables,
    topics,
)

ROUTERS = (
    running.router,
    tables.router,
    intervals.router,
    connectors.router,
    boards.router,
    topics.router,
    records.router,
    groups.router,
    dead_letters.router,
    schemas.router,
)
