"""Which intervals have rows in files that were added or removed since they were read, from a table's log.

Only those can have changed, so that a new row costs what it touches, however many intervals there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import duckdb

from gearshift import tables
from gearshift.calendars import Interval

_MOST_COMMITS = 1000
"""Reading more than these costs more than reading the rows."""

Holding = Callable[[Iterable[datetime]], Iterable[Interval]]
"""From minutes that have rows to the intervals of these."""


@dataclass(frozen=True, slots=True)
class Read:
    """The version of a table that was read, and the time at which it was there."""

    version: int
    at: datetime


def touched(uri: str, column: str, read: Mapping[Interval, Read], holding: Holding) -> set[Interval]:
    """The intervals that may have changed since they were read: all where the log does not tell."""
    if not read:
        return set()
    if column in tables.read_paths(uri).partition_by:
        return set(read)  # the files do not have it
    commits = tables.commits_back_to(uri, min(each.version for each in read.values()), most=_MOST_COMMITS)
    made = {commit.version: commit.at for commit in commits}
    # A table that was dropped or restored has other rows under the same number, committed later.
    found = {
        interval for interval, each in read.items() if (at := made.get(each.version)) is None or at > each.at
    }
    rest = {interval: each for interval, each in read.items() if interval not in found}
    if not rest:
        return found
    oldest = min(each.version for each in rest.values())
    files = [
        (commit.version, path)
        for commit in commits
        if commit.version > oldest
        for path in (*commit.added, *commit.removed)
    ]
    try:
        times = tables.times_of_files(uri, column, [path for _, path in files])
    except (duckdb.Error, OSError):
        return set(read)  # a removed file is gone; if the table is damaged, reading its rows says so
    for (version, _), each in zip(files, times, strict=True):
        found.update(
            interval
            for interval in holding(each.minutes)
            if interval in rest and rest[interval].version < version
        )
    return found
