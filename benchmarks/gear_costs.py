"""What each gear costs: cores of Spark and the broker while nothing or little arrives, and how fast it drains a backlog.

Two pipelines, one without state and one that counts per key, on three partitions, on a real Kafka and Spark, one after
the other in near-real-time (a micro-batch every second) and real-time. The results are the constants of the gearbox
(`src/gearshift/gearbox/costs.py`) and of its simulator; they go to benchmarks/results/gear-costs.json and to a table.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import gearshift as gs
from gearshift import stack
from gearshift.freshness import Gear
from gearshift.pipelines.ledger.ledger import count_between
from gearshift.runner.runner import Runner
from gearshift.settings import load
from gearshift.spark.private import java_pid

RESULTS = Path(__file__).parent / "results" / "gear-costs.json"
NEAR, REAL, BATCH = Gear.NEAR_REAL_TIME, Gear.REAL_TIME, Gear.BATCH
_TICKS = os.sysconf("SC_CLK_TCK")
_TRICKLE, _FLOW = 20.0, 500.0
"""Records per second: each micro-batch has some, and many."""


@dataclass
class Event:
    key: str
    n: int


@dataclass
class Count:
    key: str
    count: int


app = gs.App("gear-costs")
events = app.topic("events", value=Event, key="key", partitions=3)
copies = app.topic("copies", value=Event, key="key", partitions=3)
counts = app.topic("counts", value=Count, key="key", partitions=3)


@app.pipeline(events, to=copies, gear="batch", freshness="2 seconds")
def stateless(events: DataFrame) -> DataFrame:
    return events


@app.pipeline(events, to=counts, gear="batch", freshness="2 seconds")
def grouped(events: DataFrame) -> DataFrame:
    return events.groupBy("key").agg(F.count("*").alias("count"))


def main() -> None:
    """Measure, write the results, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--backlog", type=int, default=1_000_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = load({"home": Path(folder) / "home", "checkpoint_interval": "4 minutes"}, environ={})
        with Runner(app, settings) as runner:
            measured = measure(runner, chosen.seconds, chosen.backlog)
    RESULTS.write_text(
        json.dumps({"chosen": vars(chosen), "cores": os.cpu_count(), "measured": measured}, indent=1)
    )
    show(measured)


def measure(runner: Runner, seconds: float, backlog: int) -> list[dict[str, Any]]:
    """Every pipeline in both gears, on a Java that has compiled what they use."""
    for name in ("stateless", "grouped"):
        for gear in (NEAR, REAL, BATCH):
            runner.shift(name, gear)
            fill(runner, 100_000)
            time.sleep(3)
    found: list[dict[str, Any]] = []
    for name in ("stateless", "grouped"):
        for gear in (NEAR, REAL):
            runner.shift(name, gear)
            time.sleep(5)  # what the start takes is not the gear's cost
            idle = cores(runner, seconds)
            with sending(runner, _TRICKLE):
                time.sleep(3)
                before = len(batches(name))
                slow = cores(runner, seconds)
                took = batches(name)[before:]
            with sending(runner, _FLOW):
                time.sleep(2)
                flow = cores(runner, seconds)
            runner.shift(name, BATCH)
            fill(runner, backlog)
            used, began = ticks(runner), time.monotonic()
            runner.shift(name, gear)
            while left(runner, name, gear):
                time.sleep(0.1)
            drained = time.monotonic() - began
            found.append(
                {
                    "pipeline": name,
                    "gear": str(gear),
                    "idle_cores": round(idle, 4),
                    "trickle_cores": round(slow, 4),
                    "flow_cores": round(flow, 4),
                    "batch_seconds": [round(each, 3) for each in took],
                    "backlog": backlog,
                    "drained_seconds": round(drained, 2),
                    "processor_seconds": round((ticks(runner) - used) / _TICKS, 2),
                }
            )
            runner.shift(name, BATCH)
    time.sleep(5)
    base = cores(runner, seconds)  # of a warm Spark without a query
    return [
        {
            **each,
            **{kind: round(each[kind] - base, 4) for kind in ("idle_cores", "trickle_cores", "flow_cores")},
        }
        for each in found
    ]


def cores(runner: Runner, seconds: float) -> float:
    """Cores that Spark and the broker use."""
    before, began = ticks(runner), time.monotonic()
    time.sleep(seconds)
    return (ticks(runner) - before) / _TICKS / (time.monotonic() - began)


def ticks(runner: Runner) -> int:
    """Processor time of Spark and the broker, in clock ticks."""
    services = stack.describe(runner.settings)["services"]
    brokers = [each["pid"] for each in services if each["name"].startswith("kafka")]
    assert brokers
    found = 0
    for pid in (java_pid(runner.spark), *brokers):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        found += int(fields[11]) + int(fields[12])
    return found


_TOOK: dict[str, dict[int, float]] = {}


def batches(name: str) -> list[float]:
    """How long the batches took that are known, by their reports."""
    return list(_TOOK.get(name, {}).values())


@contextmanager
def sending(runner: Runner, rate: float) -> Generator[None]:
    """So many records a second, while the reports of batches are collected."""
    closing = threading.Event()

    def send() -> None:
        number = 0
        with gs.Producer(runner.context.connection) as producer:
            began = time.monotonic()
            while not closing.wait(max(0.0, began + number / rate - time.monotonic())):
                producer.send(events, Event(key=f"k{number % 50}", n=number))
                number += 1
                if number % 10:
                    continue
                for name, supervisor in runner.supervisors.items():
                    latest = supervisor.condition.progress
                    if latest is not None and latest.records:
                        _TOOK.setdefault(name, {})[latest.batch_id] = latest.took.total_seconds()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        closing.set()
        thread.join()


def fill(runner: Runner, count: int) -> None:
    """Write a backlog."""
    with gs.Producer(runner.context.connection) as producer:
        for number in range(count):
            producer.send(events, Event(key=f"k{number % 1000}", n=number))


def left(runner: Runner, name: str, gear: Gear) -> int:
    """Records that are not processed: by the ledger, or in real-time by the consumers' own lag."""
    ends = runner.context.admin.stable_offsets([events.name])
    if gear is REAL:
        figures = runner.pipelines.rates.figures.get(name)
        return figures.lag if figures is not None else 1
    done = runner.supervisors[name].ledger.ends
    return sum(ends.values()) - count_between({}, done)


def show(measured: list[dict[str, Any]]) -> None:
    """Print the table."""
    table = Table(title="What a gear costs")
    for column in (
        "pipeline",
        "gear",
        "idle cores",
        "trickle cores",
        "flow cores",
        "batch, s",
        "drained/s",
        "s per million",
    ):
        table.add_column(column)
    for each in measured:
        took = sorted(each["batch_seconds"])
        table.add_row(
            each["pipeline"],
            each["gear"],
            f"{each['idle_cores']:.3f}",
            f"{each['trickle_cores']:.3f}",
            f"{each['flow_cores']:.3f}",
            f"{took[len(took) // 2]:.2f}" if took else "",
            f"{each['backlog'] / each['drained_seconds']:,.0f}",
            f"{each['processor_seconds'] / each['backlog'] * 1e6:.1f}",
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
