"""A batch over whole tables, which is in no log of Spark's: the ledger has it before it writes, and when it is done."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from gearshift import tables
from gearshift.definitions import Pipeline, Table, Topic
from gearshift.freshness import Gear
from gearshift.pipelines import engine as engines
from gearshift.pipelines.books import Books
from gearshift.pipelines.engine import Engine
from gearshift.pipelines.reading import kafka_options
from gearshift.pipelines.replays import count_in_range
from gearshift.pipelines.stretches import Batch, Stretch
from gearshift.pipelines.tasks import Tasks
from gearshift.pipelines.writing import records

if TYPE_CHECKING:
    from gearshift.pipelines.checkpoint import Offsets

log = logging.getLogger(__name__)


def run_over_tables(
    engine: Engine, pipeline: Pipeline, stretch: Stretch, books: Books, tasks: Tasks, *, schema_id: int | None
) -> None:
    """Read the pipeline's tables in full and write its target once."""
    read = {t.name: tables.read_paths(engine.table_uri(t)) for t in pipeline.tables.values()}
    frame = engines.transformed(engine, pipeline, {}, Gear.BATCH)
    target, retried = pipeline.target, 0
    if isinstance(target, Table):
        # A table with a key takes rows by it, from a batch as well; another one is computed anew.
        write = tables.upsert if target.key else tables.overwrite
        written = write(target, engine.table_uri(target), frame).rows
        engine.publisher.publish(target)
    else:
        assert schema_id is not None
        stamp = stretch.number if stretch.stamped else None
        output = records(frame, pipeline, target, schema_id=schema_id, stamp=stamp)
        written, retried = _write_topic(engine, pipeline, target, stretch, books, tasks, output)
    enter(
        books,
        ends={name: {0: snapshot.version} for name, snapshot in read.items()},
        records=sum(snapshot.rows for snapshot in read.values()),
        written=written,
        retried=retried,
    )


def enter(books: Books, *, ends: Offsets, records: int, written: int, retried: int = 0) -> None:
    """Write down a batch over tables."""
    books.add(
        Batch(
            id=books.ledger.last_batch + 1,
            timestamp_ms=_now_ms(),
            starts={},
            ends=ends,
            records=records,
            written=written,
            retried=retried,
        )
    )


def _write_topic(
    engine: Engine,
    pipeline: Pipeline,
    target: Topic,
    stretch: Stretch,
    books: Books,
    tasks: Tasks,
    output: DataFrame,
) -> tuple[int, int]:
    """How many records the batch has, and how many more its tasks wrote because Spark ran some of them again.

    Until it is done the ledger holds when it began: what a batch that ends in the middle has written is counted then.
    """
    before = engine.admin.end_offsets([target.name])
    books.await_batch(stretch, _now_ms())
    (
        output.write.format("kafka")
        .options(**kafka_options(engine.connection))
        .option("topic", target.name)
        .save()
    )
    after = engine.admin.end_offsets([target.name])
    failed = tasks.count_failed()
    if not failed and not stretch.stamped:
        return sum(after.values()) - sum(before.values()), 0  # nobody else of this app writes there
    found = count_in_range(engine.connection, pipeline.name, target, stretch, before, after)
    if not failed:
        return found, 0
    written = output.count()
    words = "%s: Spark ran %d tasks again, which wrote %d records a second time"
    log.warning(words, pipeline.name, failed, found - written)
    return written, max(0, found - written)


def _now_ms() -> int:
    return int(time.time() * 1000)
