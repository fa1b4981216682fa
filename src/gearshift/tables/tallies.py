"""How many rows of a table lie in each stretch of time, and whether they are still the same rows; with DuckDB, no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from gearshift.calendars import EARLIEST, LATEST
from gearshift.location import StorageOptions
from gearshift.tables.query import fresh_connection, show_table

Bound = datetime | date
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Rows, counted and added up to a digest that any change of a row changes and their order does not."""

    rows: int = 0
    digest: str = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The minutes in which a table has rows, oldest first, and how many rows have no time that a calendar has."""

    minutes: tuple[datetime, ...]
    without: int


def times(
    uri: str, column: str, *, version: int | None = None, storage_options: StorageOptions = None
) -> Times:
    """When a table's rows are, to the minute, by a column of dates or instants."""
    with fresh_connection() as connection:
        show_table(connection, "rows", uri, storage_options, version)
        at = _microseconds(column)
        low, high = _as_microseconds(EARLIEST), _as_microseconds(LATEST)
        result = connection.execute(
            f"SELECT CASE WHEN {at} BETWEEN {low} AND {high} THEN {at} // 60000000 END, count(*) "
            "FROM rows GROUP BY 1 ORDER BY 1"
        ).fetchall()
    return Times(
        minutes=tuple(_EPOCH + minute * timedelta(minutes=1) for minute, _ in result if minute is not None),
        without=sum(rows for minute, rows in result if minute is None),
    )


def tallies(
    uri: str,
    column: str,
    bounds: Sequence[tuple[Bound, Bound]],
    *,
    version: int | None = None,
    storage_options: StorageOptions = None,
) -> list[Tally]:
    """The rows from each lower bound on, up to and without its upper one; the stretches must not overlap."""
    if not bounds:
        return []
    name = _quoted(column)
    query = f"""
        WITH stretches AS (
            SELECT unnest($lows::BIGINT[]) AS low, unnest($highs::BIGINT[]) AS high, unnest($numbers::BIGINT[]) AS number
        ), found AS (
            SELECT {_microseconds(column)} AS gearshift_at, hash(gearshift_row) AS gearshift_hash
            FROM rows AS gearshift_row WHERE {name} >= $low AND {name} < $high
        )
        SELECT number, count(*), sum(gearshift_hash)::VARCHAR
        FROM found ASOF JOIN stretches ON gearshift_at >= low WHERE gearshift_at < high GROUP BY number
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
            number: Tally(rows=rows, digest=digest)
            for number, rows, digest in connection.execute(query, values).fetchall()
        }
    return [found.get(number, Tally()) for number in range(len(bounds))]


def _microseconds(column: str) -> str:
    # A date is its midnight in UTC; an instant with a zone is itself, as the connection's zone is UTC.
    return f"epoch_us({_quoted(column)}::TIMESTAMPTZ)"


def _as_microseconds(bound: Bound) -> int:
    moment = bound if isinstance(bound, datetime) else datetime.combine(bound, time(), UTC)
    return (moment - _EPOCH) // _MICROSECOND


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
