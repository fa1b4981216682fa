"""From an insert in PostgreSQL to the result in Cassandra, on one machine, everything real.

Two ways. Result: Debezium to a topic, a real-time pipeline to another topic, a delivery to Cassandra. Copy: Debezium
to a topic, a delivery to Cassandra. Rows are inserted at a steady rate, each in a transaction of its own, while a
client of Cassandra asks for new rows all the time; a row's latency is from just before its insert to the end of the
first answer that has it. Results go to benchmarks/results/ and to a table.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import psycopg
from cassandra import InvalidRequest
from cassandra.cluster import NoHostAvailable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import gearshift as gs
from gearshift import settings as configuration
from gearshift import stack as local
from gearshift.destinations.cassandra.driver import ContactPoints, connect
from gearshift.runner.loading import load_app
from gearshift.runner.runner import Runner

HERE = Path(__file__).parent
TARGET_MS = 400
PATIENCE = 90.0  # seconds after which a row will not come any more
WAYS = {"result": "bench.results", "copy": "bench.copies"}
SHOP = 1
"""All rows are in one partition of Cassandra's, so that one question finds the new ones."""


@dataclass
class Payment:
    shop: int
    id: int
    amount: Annotated[Decimal, gs.DecimalOf(10, 2)]


@dataclass
class Result:
    shop: int
    id: int
    cents: int
    at: datetime


app = gs.App("cdc-latency")
(payments,) = app.cdc("bench-db", tables={"public.payments": Payment}).topics.values()
results = app.topic("results", value=Result, key="shop")


@app.pipeline(source=payments, to=results, freshness="1 second")
def work_out(payments: DataFrame) -> DataFrame:
    cents = (F.col("after.amount") * 100).cast("long")
    return payments.where("after is not null").select(
        "after.shop", "after.id", cents.alias("cents"), F.col("source_time").alias("at")
    )


@app.delivery(
    results, to=gs.destinations.Cassandra(table=WAYS["result"], key=("shop", "id"), event_time="at")
)
def keep_result(record: gs.Record[Result]) -> Result:
    return record.value


@app.delivery(payments, to=gs.destinations.Cassandra(table=WAYS["copy"], key=("shop", "id")))
def keep_copy(record: gs.Record[gs.Change[Payment]]) -> gs.Change[Payment]:
    return record.value


class Seen(threading.Thread):
    """Asks a table of Cassandra for new rows, and notes when each was first there."""

    def __init__(self, contact_points: str, table: str) -> None:
        super().__init__(daemon=True)
        self.at: dict[int, float] = {}
        self._points = ContactPoints.read(contact_points)
        self._table = table
        self._closing = threading.Event()

    def close(self) -> None:
        self._closing.set()
        self.join(10)

    def run(self) -> None:
        cluster, session = connect(self._points, name="benchmark")
        try:
            ask = session.prepare(f"SELECT id FROM {self._table} WHERE shop = {SHOP} AND id > ?")
            last = 0
            while not self._closing.wait(0.002):
                found = [row.id for row in session.execute(ask, (last,))]
                now = time.monotonic()
                for id_ in found:
                    self.at.setdefault(id_, now)
                # Rows of one write are sent side by side, so that a later one may be there first.
                while last + 1 in self.at:
                    last += 1
        finally:
            cluster.shutdown()


def await_first(contact_points: str) -> None:
    """Until the first row has made the tables."""
    cluster, session = connect(ContactPoints.read(contact_points), name="benchmark")
    waiting, until = set(WAYS.values()), time.monotonic() + PATIENCE
    while waiting:
        if time.monotonic() > until:
            raise SystemExit(f"the first row did not come to {', '.join(sorted(waiting))}")
        for table in sorted(waiting):
            try:
                if session.execute(f"SELECT id FROM {table} WHERE shop = {SHOP}").one():
                    waiting.remove(table)
            except (InvalidRequest, NoHostAvailable):
                time.sleep(0.1)  # not there, or just being made
    cluster.shutdown()


def share_of(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[int(len(ordered) * share)]


def measure(stack: local.Stack, *, rate: float, seconds: float, warm_up: float) -> dict[str, list[float]]:
    """The latencies of each way in milliseconds."""
    inserted: dict[int, float] = {}
    with psycopg.connect(stack.address("postgres"), autocommit=True) as database:

        def insert(id_: int) -> None:
            inserted[id_] = time.monotonic()
            database.execute("INSERT INTO payments VALUES (%s, %s, %s)", (SHOP, id_, f"{id_ % 1000}.25"))

        insert(1)
        await_first(stack.address("cassandra"))
        watching = {way: Seen(stack.address("cassandra"), table) for way, table in WAYS.items()}
        for seen in watching.values():
            seen.start()
        count = round((warm_up + seconds) * rate)
        began = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
            insert(number + 2)
        until = time.monotonic() + PATIENCE
        while any(len(seen.at) < count + 1 for seen in watching.values()):
            if time.monotonic() > until:
                raise SystemExit(
                    f"rows are missing: {[len(seen.at) for seen in watching.values()]} of {count + 1}"
                )
            time.sleep(0.05)
    for seen in watching.values():
        seen.close()
    first = round(warm_up * rate) + 2
    return {
        way: [(seen.at[id_] - inserted[id_]) * 1000 for id_ in range(first, count + 2)]
        for way, seen in watching.items()
    }


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rate", type=float, default=20, help="inserts a second")
    options.add_argument("--seconds", type=float, default=40)
    options.add_argument("--warm-up", type=float, default=10, help="seconds that do not count")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        flags = {"home": Path(home), "services": "postgres,connect,cassandra"}
        settings = configuration.load(flags, environ={})
        file = Path(__file__)
        with local.up(settings, progress=print) as stack:
            with psycopg.connect(stack.address("postgres")) as database:
                database.execute(
                    "CREATE TABLE payments (shop bigint, id bigint, amount numeric(10, 2) NOT NULL,"
                    " PRIMARY KEY (shop, id))"
                )
            with Runner(load_app(file), settings, file=file, progress=print):
                found = measure(stack, rate=chosen.rate, seconds=chosen.seconds, warm_up=chosen.warm_up)
    report(found, vars(chosen))


def report(found: dict[str, list[float]], chosen: dict[str, Any]) -> None:
    """The percentiles, as a table and as JSON."""
    table = Table("way", "rows", "p50 (ms)", "p99 (ms)", "target", title="From PostgreSQL to Cassandra")
    summary: list[dict[str, Any]] = []
    for way, latencies in found.items():
        p50, p90, p99 = (round(share_of(latencies, share), 1) for share in (0.5, 0.9, 0.99))
        met = p50 < TARGET_MS
        summary.append(
            {"way": way, "rows": len(latencies), "p50_ms": p50, "p90_ms": p90, "p99_ms": p99, "met": met}
        )
        table.add_row(
            way, str(len(latencies)), str(p50), str(p99), f"p50 under {TARGET_MS} {'yes' if met else 'NO'}"
        )
    Console().print(table)
    path = HERE / "results" / "cdc-latency.json"
    raw = {way: [round(one, 1) for one in latencies] for way, latencies in found.items()}
    path.write_text(json.dumps({"chosen": chosen, "summary": summary, "raw": raw}, indent=1) + "\n")
    print(f"raw results: {path}")


if __name__ == "__main__":
    main()
