"""Writes rows to a table and sets aside those that it cannot hold as dead letters.

A batch is normally written as it is. The first row that the table rejects stops the query, which restarts at once: from
then on each batch is kept on disk while its rows are separated, since Spark must not compute it twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gearshift import tables
from gearshift.definitions import Pipeline, Table
from gearshift.pipelines.context import Context
from gearshift.pipelines.records.reading import kafka_options
from gearshift.pipelines.records.replays import STAMP
from gearshift.pipelines.records.writing import as_letter, letter_headers
from gearshift.topics import read, result_headers

log = logging.getLogger(__name__)

_WHY = "_gearshift_why"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOfRows:
    """Identifies a batch's dead letters: its name, and the time since when they may have been written."""

    name: str
    since_ms: int


def write_valid(
    context: Context,
    pipeline: Pipeline,
    target: Table,
    frame: DataFrame,
    write: Callable[[DataFrame], tables.Commit],
    batch: BatchOfRows,
) -> tuple[tables.Commit, int]:
    """Write the rows that the table can hold, and a dead letter for each other row; returns the number of those.

    The dead letters come first: a batch that runs again finds them, and the table takes each batch once.
    """
    context.admin.ensure_letters(target.dead_letters)
    kept = frame.select("*", F.expr(tables.why_refused(target, frame.schema.json())).alias(_WHY))
    kept = kept.persist(StorageLevel.DISK_ONLY)
    try:
        invalid = kept.where(F.col(_WHY).isNotNull()).count()
        if invalid and _count_letters(context, target, batch) < invalid:
            _write_letters(context, pipeline, target, kept.where(F.col(_WHY).isNotNull()), batch)
        return write(kept.where(F.col(_WHY).isNull()).drop(_WHY)), invalid
    finally:
        kept.unpersist()


def _write_letters(
    context: Context, pipeline: Pipeline, target: Table, invalid: DataFrame, batch: BatchOfRows
) -> None:
    known = {**result_headers(context.graph.app, pipeline.name, target.name, table=True), STAMP: batch.name}
    row = as_letter(name for name in invalid.columns if name != _WHY)
    letters = invalid.select(row.alias("value"), letter_headers(known, F.col(_WHY)).alias("headers"))
    options = {**kafka_options(context.connection), "topic": target.dead_letters}
    letters.write.format("kafka").options(**options).save()


def _count_letters(context: Context, target: Table, batch: BatchOfRows) -> int:
    """The number of dead letters that an earlier attempt of the batch has written."""
    since = datetime.fromtimestamp(batch.since_ms / 1000, UTC)
    offsets = context.admin.offsets_at([target.dead_letters], since)
    starts = {partition: offset for (_, partition), offset in offsets.items()}
    found = read(context.connection, target.dead_letters, start=starts)
    return sum(1 for letter in found if letter.header(STAMP) == batch.name.encode())
