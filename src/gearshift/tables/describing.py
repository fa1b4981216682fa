"""Tables, their commits and their values as plain data that JSON can hold."""

from __future__ import annotations

from math import isfinite
from typing import Any

from gearshift.tables.columns import type_name
from gearshift.tables.read.snapshot import Change, Snapshot, history, read_paths


def describe_table(uri: str, name: str) -> dict[str, Any]:
    """A table's size and when it last changed."""
    return _summary(read_paths(uri), uri, name)


def describe_columns(uri: str, name: str) -> dict[str, Any]:
    """The same with the table's columns."""
    snapshot = read_paths(uri)
    columns = [{"name": field["name"], "type": type_name(field["type"])} for field in snapshot.fields]
    return {**_summary(snapshot, uri, name), "columns": columns}


def describe_change(change: Change) -> dict[str, Any]:
    """A commit of a table."""
    return {
        "version": change.version,
        "at": change.at.isoformat(),
        "operation": change.operation,
        "writer": change.writer,
        "batch": change.batch_id,
        "rows": change.rows,
    }


def as_json(value: Any) -> Any:
    """A value as JSON, with times and decimals as text so that nothing is rounded.

    >>> from datetime import UTC, datetime
    >>> from decimal import Decimal
    >>> as_json({"at": datetime(2026, 1, 1, tzinfo=UTC), "price": [Decimal("1.50")]})
    {'at': '2026-01-01T00:00:00+00:00', 'price': ['1.50']}
    """
    if isinstance(value, dict):
        entries: dict[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return {str(name): as_json(entry) for name, entry in entries.items()}
    if isinstance(value, list | tuple):
        listed: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return [as_json(entry) for entry in listed]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not isfinite(value):
        return str(value)  # JSON cannot express it
    if value is None or isinstance(value, str | int | float):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _summary(snapshot: Snapshot, uri: str, name: str) -> dict[str, Any]:
    last = history(uri, limit=1)
    return {
        "table": name,
        "uri": uri,
        "version": snapshot.version,
        "rows": snapshot.rows,
        "files": len(snapshot.files),
        "bytes": sum(file.size for file in snapshot.files),
        "partition_by": list(snapshot.partition_by),
        "changed_at": last[0].at.isoformat(timespec="seconds") if last else None,
    }
