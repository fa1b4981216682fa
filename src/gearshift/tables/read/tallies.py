"""Counts the rows of a table per interval of time, with a digest that detects changes, in DuckDB."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from typing import Any

from deltalake.exceptions import DeltaError

from gearshift.calendars import EARLIEST, LATEST
from gearshift.errors import TableError
from gearshift.storage.location import StorageOptions
from gearshift.storage.object_store import Store
from gearshift.tables.columns import Field
from gearshift.tables.read.snapshot import fields_in, open_table, read_paths
from gearshift.tables.read.sql import fresh_connection, show_table

Bound = datetime | date
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


BY_NAME = "names:"
"""Prefix of digests that a new column, null in existing rows, does not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The number of rows and a digest of them that does not depend on their order."""

    rows: int = 0
    digest: str = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The minutes in which a table has rows, oldest first, and the number of rows without a valid time."""

    minutes: tuple[datetime, ...]
    without: int


def times(
    uri: str, column: str, *, version: int | None = None, storage_options: StorageOptions = None
) -> Times:
    """The minutes of a table's rows, by a column of dates or times."""
    with fresh_connection() as connection:
        show_table(connection, "rows", uri, storage_options, version)
        result = connection.execute(
            f"SELECT {_minute(column)}, count(*) FROM rows GROUP BY 1 ORDER BY 1"
        ).fetchall()
    return Times(
        minutes=tuple(_EPOCH + minute * timedelta(minutes=1) for minute, _ in result if minute is not None),
        without=sum(rows for minute, rows in result if minute is None),
    )


def times_of_files(
    uri: str, column: str, paths: Sequence[str], *, storage_options: StorageOptions = None
) -> list[Times]:
    """The times of the rows in each of these files of a table, also in some that it no longer has."""
    if not paths:
        return []
    schema = open_table(uri, storage_options).schema()
    files = Store(uri, storage_options).dataset(
        schema, [(path, {}) for path in paths], numbered="gearshift_file"
    )
    minutes: dict[int, list[datetime]] = defaultdict(list)
    without = Counter[int]()
    with fresh_connection() as connection:
        connection.register("rows", files)
        query = f"SELECT gearshift_file, {_minute(column)}, count(*) FROM rows GROUP BY 1, 2 ORDER BY 1, 2"
        for number, minute, rows in connection.execute(query).fetchall():
            if minute is None:
                without[number] += rows
            else:
                minutes[number].append(_EPOCH + minute * timedelta(minutes=1))
    return [Times(minutes=tuple(minutes[number]), without=without[number]) for number in range(len(paths))]


def tallies(
    uri: str,
    column: str,
    bounds: Sequence[tuple[Bound, Bound]],
    *,
    version: int | None = None,
    columns: Sequence[str] | None = None,
    storage_options: StorageOptions = None,
) -> list[Tally]:
    """Tally the rows within each pair of bounds, the upper one exclusive; the intervals must not overlap.

    With `columns`, the digest is the older kind, which depends on these columns and their order.
    """
    if not bounds:
        return []
    name = _quoted(column)
    if columns is None:
        fields = read_paths(uri, version=version, storage_options=storage_options).fields
        row, prefix = f"hash({_by_name(fields)})", BY_NAME
    else:
        row, prefix = f"hash(row({', '.join(_quoted(each) for each in columns)}))", ""
    query = f"""
        WITH intervals AS (
            SELECT unnest($lows::BIGINT[]) AS low, unnest($highs::BIGINT[]) AS high, unnest($numbers::BIGINT[]) AS number
        ), found AS (
            SELECT {_microseconds(column)} AS gearshift_at, {row} AS gearshift_hash
            FROM rows WHERE {name} >= $low AND {name} < $high
        )
        SELECT number, count(*), sum(gearshift_hash)::VARCHAR
        FROM found ASOF JOIN intervals ON gearshift_at >= low WHERE gearshift_at < high GROUP BY number
    """
    values: dict[str, Any] = {
        "lows": [_as_microseconds(low) for low, _ in bounds],
        "highs": [_as_microseconds(high) for _, high in bounds],
        "numbers": list(range(len(bounds))),
        "low": min(low for low, _ in bounds),
        "high": max(high for _, high in bounds),
    }
    with fresh_connection() as connection:
        show_table(connection, "rows", uri, storage_options, version)
        found = {
            number: Tally(rows=rows, digest=f"{prefix}{digest}")
            for number, rows, digest in connection.execute(query, values).fetchall()
        }
    return [found.get(number, Tally()) for number in range(len(bounds))]


def column_names(
    uri: str, version: int | None = None, *, storage_options: StorageOptions = None
) -> tuple[str, ...] | None:
    """The columns of a table, or of one of its versions; None if its log no longer has that version."""
    try:
        return tuple(field["name"] for field in fields_in(open_table(uri, storage_options, at=version)))
    except (TableError, DeltaError):
        return None


def _by_name(fields: Sequence[Field], path: str = "", label: str = "") -> str:
    """A hash of the values that are not null, each with its column's name, so that a column of nulls has no effect.

    It depends on values, not on types, so that a column with a wider type keeps its hashes.
    """
    parts: list[str] = []
    for field in fields:
        column, name = f"{path}{_quoted(field['name'])}", f"{label}{field['name']}"
        kind: Any = field["type"]
        if not isinstance(kind, str) and kind["type"] == "struct":
            parts.append(_by_name(kind["fields"], f"{column}.", f"{name}."))
            continue
        value = column
        if kind == "float":
            value = f"{column}::DOUBLE"
        elif isinstance(kind, str) and kind.startswith("decimal("):
            whole = kind.replace(" ", "").endswith(",0)")
            value = f"{column}::VARCHAR" if whole else f"rtrim(rtrim({column}::VARCHAR, '0'), '.')"
        parts.append(f"CASE WHEN {column} IS NULL THEN 0::UBIGINT ELSE hash({_text(name)}, {value}) END")
    return reduce(lambda one, other: f"xor({one}, {other})", parts, "0::UBIGINT")


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _minute(column: str) -> str:
    """The number of a time's minute; null for one without a calendar."""
    at, low, high = _microseconds(column), _as_microseconds(EARLIEST), _as_microseconds(LATEST)
    return f"CASE WHEN {at} BETWEEN {low} AND {high} THEN {at} // 60000000 END"


def _microseconds(column: str) -> str:
    # A date is its midnight in UTC; a time with a zone is unchanged, since the connection's zone is UTC.
    return f"epoch_us({_quoted(column)}::TIMESTAMPTZ)"


def _as_microseconds(bound: Bound) -> int:
    moment = bound if isinstance(bound, datetime) else datetime.combine(bound, time(), UTC)
    return (moment - _EPOCH) // _MICROSECOND


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
