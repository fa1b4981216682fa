"""Runs a batch over whole tables, which Spark does not log: the ledger records it before it writes and when it is done."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gearshift import tables
from gearshift.definitions import Pipeline, Table, Topic
from gearshift.pipelines.context import Context
from gearshift.pipelines.ledger.recorder import Recorder
from gearshift.pipelines.ledger.runs import Batch, Run
from gearshift.pipelines.query import as_records
from gearshift.pipelines.records.replays import count_in_range
from gearshift.pipelines.records.writing import TOPIC, count_invalid
from gearshift.pipelines.sinks.table_rows import BatchOfRows, write_valid
from gearshift.spark.jobs import Tasks
from gearshift.spark.private import write_observed

if TYPE_CHECKING:
    from gearshift.pipelines.ledger.checkpoint import Offsets

log = logging.getLogger(__name__)

_WRITTEN = "gearshift_written"


def run_over_tables(
    context: Context,
    pipeline: Pipeline,
    run: Run,
    recorder: Recorder,
    tasks: Tasks,
    *,
    frame: DataFrame,
    schema_id: int | None,
    sets_aside: bool,
) -> None:
    """Read the pipeline's tables in full and write its target once."""
    read = {
        t.name: tables.read_paths(context.table_uri(t), version=run.tables[t.name])
        for t in pipeline.tables.values()
    }
    target, retried, invalid = pipeline.target, 0, 0
    if isinstance(target, Table):
        # A table with a key is merged, another one is replaced.
        how, uri = tables.upsert if target.key else tables.overwrite, context.table_uri(target)
        if sets_aside:
            batch = BatchOfRows(name=f"{pipeline.name}/{run.number}", since_ms=_now_ms())
            done, invalid = write_valid(
                context, pipeline, target, frame, lambda rows: how(target, uri, rows), batch
            )
        else:
            done = how(target, uri, frame)
        written = done.rows
        context.publisher.publish(target)
    else:
        assert schema_id is not None
        stamp = run.number if run.stamped else None
        output, options = as_records(context, pipeline, target, frame, schema_id=schema_id, stamp=stamp)
        written, retried, invalid = _write_topic(
            context, pipeline, target, run, recorder, tasks, output, options
        )
    record_batch(
        recorder,
        ends={name: {0: snapshot.version} for name, snapshot in read.items()},
        records=sum(snapshot.rows for snapshot in read.values()),
        written=written,
        retried=retried,
        invalid=invalid,
    )


def record_batch(
    recorder: Recorder, *, ends: Offsets, records: int, written: int, retried: int = 0, invalid: int = 0
) -> None:
    """Record a batch over tables."""
    recorder.add(
        Batch(
            id=recorder.ledger.last_batch + 1,
            timestamp_ms=_now_ms(),
            starts={},
            ends=ends,
            records=records,
            written=written,
            retried=retried,
            invalid=invalid,
        )
    )


def _write_topic(
    context: Context,
    pipeline: Pipeline,
    target: Topic,
    run: Run,
    recorder: Recorder,
    tasks: Tasks,
    output: DataFrame,
    options: dict[str, str],
) -> tuple[int, int, int]:
    """Write to a topic; returns the number of records, of records written twice by retried tasks, and of dead letters.

    Meanwhile the ledger has the batch's start time, so that the records of an interrupted batch can be counted.
    """
    before = context.admin.end_offsets([target.name])
    recorder.await_batch(run, _now_ms())
    written, invalid = _save(context, target, output, options)
    failed = tasks.count_failed()
    if not failed:
        return written, 0, invalid
    after = context.admin.end_offsets([target.name])
    found = count_in_range(context.connection, pipeline.name, target, run, before, after)
    words = "%s: Spark retried %d tasks, which wrote %d records twice"
    log.warning(words, pipeline.name, failed, found - written)
    return written, max(0, found - written), invalid


def _save(context: Context, target: Topic, output: DataFrame, options: dict[str, str]) -> tuple[int, int]:
    """Write the records to Kafka; returns how many, and how many dead letters, without computing them twice."""
    counts = [F.count(F.lit(1)).alias(_WRITTEN)]
    if TOPIC in output.columns:
        counts.append(count_invalid(target))
    found = write_observed(context.spark, output.observe(_WRITTEN, *counts), options, _WRITTEN)
    invalid = int(found.getLong(1)) if len(counts) > 1 else 0
    return int(found.getLong(0)) - invalid, invalid


def _now_ms() -> int:
    return int(time.time() * 1000)
