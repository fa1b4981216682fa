"""`kill -9` of writers and compactions: no row lost or doubled, and no reader sees half a batch."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from gearshift import tables
from tests.support import eventually
from tests.tables.warehouse_process import APPENDED, ROWS, UPSERTED, appended, next_batch, upserted

_ROOT = Path(__file__).parents[2]
_WITHIN = timedelta(seconds=240)


def start(uri: str, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.tables.warehouse_process", uri, *words], cwd=_ROOT)


@contextmanager
def reading(uri: str, *, whole: bool) -> Iterator[list[int]]:
    """A reader that looks again and again; what it saw, for who wants to know how far the writer is."""
    counts: list[int] = []
    over = threading.Event()

    def read() -> None:
        while not over.wait(0.02):
            rows = tables.rows(uri)
            ids = [row["id"] for row in rows]
            assert len(ids) == len(set(ids)), "a row was there twice"
            if whole:
                assert len(ids) % ROWS == 0, "half a batch was there"
                assert sorted(ids) == list(range(len(ids))), "a row was missing"
                assert not counts or len(ids) >= counts[-1], "rows went away"
            else:
                stamps = {row["at"] for row in rows if row["id"] < ROWS}
                assert len(stamps) == 1, "half a batch was there"
            counts.append(len(ids))

    with ThreadPoolExecutor(1) as threads:
        watching = threads.submit(read)
        try:
            yield counts
        finally:
            over.set()
        watching.result()


@pytest.mark.parametrize(
    ("work", "point"),
    [
        ("append", "files"),
        ("append", "rows"),
        ("upsert", "files"),
        ("upsert", "deletions"),
        ("upsert", "rows"),
        ("compact", "files"),
    ],
)
def test_a_writer_killed_at_a_point_goes_on_exactly(tmp_path: Path, work: str, point: str) -> None:
    uri = (tmp_path / "table").as_uri()
    for batch_id in range(3):
        if work == "upsert":
            tables.upsert(UPSERTED, uri, upserted(batch_id), writer="w", batch_id=batch_id)
        else:
            tables.append(APPENDED, uri, appended(batch_id), writer="w", batch_id=batch_id)
    (tmp_path / "table.checkpoint").write_text("2", encoding="utf-8")
    with reading(uri, whole=work != "upsert"):
        assert start(uri, work, point).wait(_WITHIN.total_seconds()) == -signal.SIGKILL
    assert next_batch(uri) == 3  # it died before its checkpoint
    if work == "compact":
        assert tables.compact(uri).made == 2
        assert sorted(row["id"] for row in tables.rows(uri)) == list(range(3 * ROWS))
        return
    write = tables.upsert if work == "upsert" else tables.append
    table, frame = (UPSERTED, upserted(3)) if work == "upsert" else (APPENDED, appended(3))
    assert write(table, uri, frame, writer="w", batch_id=3).written == (point != "rows")
    if work == "upsert":
        found = {row["id"]: row["at"] for row in tables.rows(uri)}
        assert found == {**dict.fromkeys(range(ROWS), 3), 103: 3}
    else:
        assert sorted(row["id"] for row in tables.rows(uri)) == list(range(4 * ROWS))


@pytest.mark.parametrize("work", ["append", "upsert"])
def test_writers_and_compactions_killed_anywhere_leave_a_whole_table(tmp_path: Path, work: str) -> None:
    uri = (tmp_path / "table").as_uri()
    if work == "upsert":
        tables.upsert(UPSERTED, uri, upserted(0), writer="w", batch_id=0)
    else:
        tables.append(APPENDED, uri, appended(0), writer="w", batch_id=0)
    with reading(uri, whole=work == "append"):
        for _ in range(3):
            before = tables.read_paths(uri).version
            processes = [start(uri, work), start(uri, "compact")]
            try:
                eventually(lambda b=before: tables.read_paths(uri).version > b + 8)
            finally:
                for process in processes:
                    assert process.poll() is None, "it ended by itself"
                    process.kill()
                    process.wait()
    last = next_batch(uri)  # what was killed with its batch committed or not, is written again
    if work == "upsert":
        tables.upsert(UPSERTED, uri, upserted(last), writer="w", batch_id=last)
        found = {row["id"]: row["at"] for row in tables.rows(uri)}
        assert found == {**dict.fromkeys(range(ROWS), last), 100 + last: last}
    else:
        tables.append(APPENDED, uri, appended(last), writer="w", batch_id=last)
        assert sorted(row["id"] for row in tables.rows(uri)) == list(range((last + 1) * ROWS))
        tables.compact(uri)
        assert sorted(row["id"] for row in tables.rows(uri)) == list(range((last + 1) * ROWS))
        assert len(tables.read_paths(uri).files) <= 4
