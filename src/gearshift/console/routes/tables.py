"""The warehouse: its tables, their columns and commits, and queries in SQL."""

from __future__ import annotations

from threading import BoundedSemaphore
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from gearshift import tables
from gearshift.console.console import Here
from gearshift.console.problems import Refusal, describe
from gearshift.console.query_process import answer
from gearshift.errors import RunnerError, TableError

router = APIRouter(tags=["tables"])

_COMMITS = 50
_AT_ONCE = BoundedSemaphore(2)
"""Queries that run at the same time; each has its own memory limit."""
_WAITS = 5.0
_UNKNOWN: dict[str, Any] = dict.fromkeys(("version", "rows", "files", "bytes", "changed_at"))


class Query(BaseModel):
    """A query over the warehouse's tables."""

    query: Annotated[str, Field(min_length=1, max_length=100_000)]
    limit: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 1000
    """The most rows to return."""


@router.get("/api/tables")
def list_tables(console: Here) -> list[dict[str, Any]]:
    """The tables of the warehouse; one that cannot be read has an `error`."""
    warehouse = console.settings.warehouse_uri
    return [_described(tables.table_uri(warehouse, name), name) for name in tables.names(warehouse)]


@router.get("/api/tables/{table}")
def one_table(table: str, console: Here) -> dict[str, Any]:
    """A table with its columns and its latest commits, newest first."""
    uri = tables.find(console.settings.warehouse_uri, table)
    commits = [tables.describe_change(change) for change in tables.history(uri, limit=_COMMITS)]
    return {**tables.describe_columns(uri, table), "history": commits}


@router.post("/api/sql")
def sql(wanted: Query, console: Here) -> dict[str, Any]:
    """Run one query in DuckDB, with limits on rows, time and memory; `orders@v3` is table orders at version 3."""
    if not _AT_ONCE.acquire(timeout=_WAITS):
        raise Refusal(503, RunnerError("other queries are running", hint="try again when they have ended"))
    try:
        return answer(console.settings.warehouse_uri, wanted.query, wanted.limit)
    finally:
        _AT_ONCE.release()


def _described(uri: str, name: str) -> dict[str, Any]:
    try:
        return tables.describe_table(uri, name)
    except TableError as error:
        return {"table": name, "uri": uri, "partition_by": [], **_UNKNOWN, "error": describe(error)}
