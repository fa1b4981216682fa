"""A writer that dies at a named point: `python -m tests.tables.warehouse_process URI WORK [POINT]`.

The work is `append` or `upsert`, batch after batch from where its checkpoint says, as Spark does; or `compact`,
again and again. The points are `files`, when files are written and not committed; `deletions`, when only the
deletions of a batch are; `rows`, when rows are committed and the checkpoint is not. Without a point somebody else kills it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gearshift import tables
from gearshift.storage.location import local_path
from gearshift.tables.upkeep import maintenance
from gearshift.tables.write import parquet_files as files
from gearshift.tables.write import upserts as upserting
from tests.arrow_frames import ArrowFrame, declared

APPENDED = declared("appended", "part")
UPSERTED = declared("upserted", key=("id",), sequence_by=("at",), deleted="gone")
ROWS = 6


def appended(batch_id: int) -> ArrowFrame:
    """Six rows in two partitions."""
    columns = {"id": "long", "batch": "long", "part": "string"}
    return ArrowFrame(columns, [(batch_id * ROWS + n, batch_id, "ab"[n % 2]) for n in range(ROWS)])


def upserted(batch_id: int) -> ArrowFrame:
    """Six keys get the batch's number; one that the batch before wrote goes away, and a late row of it comes."""
    gone = 100 + batch_id
    rows = [
        *[(n, batch_id, False) for n in range(ROWS)],
        (gone, batch_id, False),
        (gone - 1, batch_id, True),
    ]
    if batch_id > 1:
        rows.append((gone - 2, batch_id - 3, False))
    return ArrowFrame({"id": "long", "at": "long", "gone": "boolean"}, rows)


def next_batch(uri: str) -> int:
    """The batch after the last that the checkpoint knows."""
    checkpoint = _checkpoint(uri)
    return int(checkpoint.read_text(encoding="utf-8")) + 1 if checkpoint.exists() else 0


def _checkpoint(uri: str) -> Path:
    place = local_path(uri)
    assert place is not None
    return place.with_suffix(".checkpoint")


def _die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying_after(call: Callable[..., Any]) -> Callable[..., Any]:
    def called(*arguments: Any, **named: Any) -> Any:
        _die(call(*arguments, **named))

    return called


def _arm(work: str, point: str) -> None:
    match work, point:
        case "append", "files":
            files.write = _dying_after(files.write)
        case "upsert", "files":
            upserting.removes = _die
        case "upsert", "deletions":
            upserting.Deletions.apply = _dying_after(upserting.Deletions.apply)
        case "compact", "files":
            maintenance.rewrite = _dying_after(maintenance.rewrite)
        case _, "rows":
            Path.write_text = _die
        case _:
            raise ValueError(f"{work} has no point {point}")


def main(uri: str, work: str, point: str | None = None) -> None:
    """Work until killed."""
    if point is not None:
        _arm(work, point)
    while work == "compact":
        tables.compact(uri)
    while True:
        batch_id = next_batch(uri)
        if work == "append":
            tables.append(APPENDED, uri, appended(batch_id), writer="w", batch_id=batch_id)
        else:
            tables.upsert(UPSERTED, uri, upserted(batch_id), writer="w", batch_id=batch_id)
        fresh = _checkpoint(uri).with_suffix(".new")
        fresh.write_text(str(batch_id), encoding="utf-8")
        fresh.replace(_checkpoint(uri))


if __name__ == "__main__":
    main(*sys.argv[1:])
