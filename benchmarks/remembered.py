"""What remembering costs: memory, and the time until a process that takes over knows it all.

Each measurement fills a real Kafka with what is to be remembered, then starts a process that reads it as a consumer or
a source does, and compares its memory before and after. Results go to benchmarks/results/remembered.json, one entry a
measurement, and to a table; `--only` measures some of them and leaves the others as they are.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import resource
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import gearshift as gs
from gearshift import stack
from gearshift.connection import Connection
from gearshift.delivery.dedup import Dedup
from gearshift.settings import load
from gearshift.sources.files.taken import Position, TakenFiles
from gearshift.sources.http.writer import KnownKeys, Request
from gearshift.topics import MarkedTransactions
from gearshift.topics.marks.marked import Learned

RESULTS = Path(__file__).parent / "results" / "remembered.json"
_WRITTEN_AT_ONCE = 50_000
Measured = dict[str, float]


@dataclass
class Reading:
    meter_id: str
    n: int


app = gs.App("remembered")
readings = app.topic("readings", value=Reading, key="meter_id", partitions=1)


@app.delivery(readings, group_id="texts", once_by=("meter_id", "n"))
def text(reading: gs.Record[Reading]) -> None:
    """Nothing: only what is remembered of it counts."""


def once_by(connection: Connection, count: int) -> Measured:
    """So many identities that a delivery with once_by has delivered, all in one partition."""
    dedup = Dedup(app.graph.deliveries["text"], connection)
    began = time.perf_counter()
    for first in range(0, count, _WRITTEN_AT_ONCE):
        marks = [(0, b"%d" % n) for n in range(first, min(count, first + _WRITTEN_AT_ONCE))]
        dedup.mark(marks)
    written = time.perf_counter() - began
    dedup.close()
    return {"seconds_to_write": round(written, 1), **in_a_new_process(_take_over, connection, count)}


def _take_over(connection: Connection, count: int) -> Measured:
    dedup = Dedup(app.graph.deliveries["text"], connection)
    before, began, cpu = memory(), time.perf_counter(), time.process_time()
    dedup.load(0).result()
    took, worked = time.perf_counter() - began, time.process_time() - cpu
    grown = memory() - before
    step = max(1, count // 10_000)
    began = time.perf_counter()
    assert all(dedup.is_duplicate(0, b"%d" % n) for n in range(0, count, step))
    assert not any(dedup.is_duplicate(0, b"new %d" % n) for n in range(0, count, step))
    asked = time.perf_counter() - began
    dedup.close()
    return {
        "identities": count,
        "seconds_to_restore": round(took, 1),
        "cpu_seconds_to_restore": round(worked, 1),
        "megabytes": round(grown / 1e6, 1),
        "bytes_each": round(grown / count, 1),
        "most_megabytes_meanwhile": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1),
        "microseconds_a_lookup": round(asked / (2 * len(range(0, count, step))) * 1e6, 1),
    }


def idempotency_keys(connection: Connection, count: int) -> Measured:
    """So many Idempotency-Keys of HTTP requests within a day: 8,640,000 are 100 a second."""
    body = hashlib.blake2b(b"a body", digest_size=16).hexdigest().encode()
    written = mark(
        connection, "keys", ((f"readings/{uuid.UUID(int=n)}".encode(), body) for n in range(count))
    )
    return {"seconds_to_write": written, **in_a_new_process(_open_keys, connection, count)}


def taken_files(connection: Connection, count: int) -> Measured:
    """So many files that a folder's source has taken."""
    position = Position(rows=1_000, sent=1_000, done=True).write()
    written = mark(connection, "taken", ((_file(n), position) for n in range(count)))
    return {"seconds_to_write": written, **in_a_new_process(_open_files, connection, count)}


class _Forgotten:
    """Marks of which the process that writes them keeps nothing."""

    read_to = 0

    def learn(self, name: bytes, value: bytes, at: float) -> None:
        """Keep nothing."""


def mark(connection: Connection, name: str, marks: Iterable[tuple[bytes, bytes]]) -> float:
    """Write marks as a source does, many in a transaction; the seconds it took."""
    transactions = MarkedTransactions(connection, name, _Forgotten())
    began, coming = time.perf_counter(), iter(marks)
    while some := list(islice(coming, _WRITTEN_AT_ONCE)):
        transactions.begin()
        for key, value in some:
            transactions.note(key, value)
        transactions.commit()
    transactions.close()
    return round(time.perf_counter() - began, 1)


def _open_keys(connection: Connection, count: int) -> Measured:
    keys = KnownKeys()
    measured = _opened(connection, "keys", keys, count)
    again = Request.of("readings", [], str(uuid.UUID(int=count - 1)), b"a body")
    assert keys.came_before(again)
    assert not keys.came_before(Request.of("readings", [], "new", b"a body"))
    return measured


def _open_files(connection: Connection, count: int) -> Measured:
    files = TakenFiles()
    measured = _opened(connection, "taken", files, count)
    assert files.is_taken(_file(count - 1))
    assert not files.is_taken(_file(count))
    return measured


def _opened(connection: Connection, name: str, marks: Learned, count: int) -> Measured:
    """Open the transactions of a source that starts, and then once more, as after a failure."""
    before, began, cpu = memory(), time.perf_counter(), time.process_time()
    MarkedTransactions(connection, name, marks).close()
    took, worked, grown = time.perf_counter() - began, time.process_time() - cpu, memory() - before
    began = time.perf_counter()
    MarkedTransactions(connection, name, marks).close()
    return {
        "marks": count,
        "seconds_to_open": round(took, 1),
        "cpu_seconds_to_open": round(worked, 1),
        "seconds_to_open_again": round(time.perf_counter() - began, 1),
        "megabytes": round(grown / 1e6, 1),
        "bytes_each": round(grown / count, 1),
    }


def _file(number: int) -> bytes:
    return hashlib.blake2b(b"%d" % number, digest_size=16).hexdigest().encode() + b"/orders-%d.csv" % number


MEASUREMENTS: dict[str, tuple[Callable[[Connection, int], Measured], int]] = {
    "once_by": (once_by, 10_000_000),
    "idempotency_keys": (idempotency_keys, 8_640_000),
    "taken_files": (taken_files, 100_000),
}
"""By name: what is measured, and with how many."""


def in_a_new_process(
    measure: Callable[[Connection, int], Measured], connection: Connection, count: int
) -> Measured:
    """Measure where nothing else has been in memory."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (connection, count))


def memory() -> int:
    """The bytes that this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Measure, show, keep."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", nargs="*", choices=sorted(MEASUREMENTS), default=sorted(MEASUREMENTS))
    options.add_argument("--count", type=int, help="instead of each measurement's own")
    chosen = options.parse_args()
    kept: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    shown = Table("measurement", "what", "figure", box=None, pad_edge=False)
    with (
        tempfile.TemporaryDirectory() as folder,
        stack.up(load({"home": Path(folder) / "stack"}, environ={})) as running,
    ):
        for name in chosen.only:
            measure, count = MEASUREMENTS[name]
            kept[name] = measure(running.connection, chosen.count or count)
            for what, figure in kept[name].items():
                shown.add_row(name, what, f"{figure:,g}")
    Console().print(shown)
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(f"raw results: {RESULTS}")


if __name__ == "__main__":
    main()
