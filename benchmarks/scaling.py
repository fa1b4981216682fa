"""What it takes to scale a pipeline with state from 2 to 8 shuffle partitions: time and memory, by the number of keys.

Each pipeline counts the keys that its records explode into, in near-real-time, on a real Kafka and Spark. The smaller
states are moved first, since a Java process seldom gives memory back. After the move every record is sent again, and
each key must have the count 2. Results go to benchmarks/results/scaling.json and to a table.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import gearshift as gs
from gearshift.runner.runner import Runner
from gearshift.settings import load
from gearshift.spark.private import java_pid
from gearshift.topics import Producer

RESULTS = Path(__file__).parent / "results" / "scaling.json"
KEYS_EACH = 1000
"""The keys of one record."""
BEFORE, AFTER = 2, 8
_WITHIN = 300.0


@dataclass
class Seed:
    n: int


@dataclass
class Count:
    key: int
    count: int


def declare(sizes: list[int]) -> tuple[gs.App, dict[int, gs.Topic]]:
    """A pipeline for each number of keys."""
    app = gs.App("scaling")
    topics: dict[int, gs.Topic] = {}

    def add(keys: int) -> None:
        seeds = topics[keys] = app.topic(f"seeds-{keys}", value=Seed, partitions=2)

        def count(seeds: DataFrame) -> DataFrame:
            first = F.col("n") * KEYS_EACH
            key = F.explode(F.sequence(first, first + KEYS_EACH - 1)).alias("key")
            return seeds.select(key).groupBy("key").agg(F.count("*").alias("count"))

        count.__name__ = f"count_{keys}"
        app.pipeline(seeds, to=app.topic(f"counts-{keys}", value=Count, key="key"), freshness="10 seconds")(
            count
        )

    for keys in sizes:
        add(keys)
    return app, topics


def measure(runner: Runner, topic: gs.Topic, keys: int) -> dict[str, Any]:
    """Fill the state, scale, and count on."""
    name = f"count_{keys}"
    supervisor = runner.supervisors[name]

    def send() -> None:
        with Producer(runner.context.connection) as producer:
            for n in range(keys // KEYS_EACH):
                producer.send(topic, Seed(n))

    def written() -> int:
        return sum(run.written for run in supervisor.ledger.runs)

    def state_rows() -> int:
        progress = supervisor.condition.progress
        return progress.state_rows if progress is not None else 0

    send()
    _wait(lambda: written() >= keys)
    assert state_rows() == keys
    pid = java_pid(runner.spark)
    before = _resident(pid)
    steps: dict[str, float] = {}

    def on_step(step: str, _: str) -> None:
        steps[step] = time.monotonic()

    with _Peak(pid) as peak:
        done = runner.scale(name, AFTER, on_step=on_step)
    counted = written()
    send()
    _wait(lambda: written() >= counted + keys)
    assert state_rows() == keys, "keys were lost or doubled"
    return {
        "keys": keys,
        "pause_s": round(done.pause, 1),
        "move_s": round(steps["start"] - steps["repartition"], 1),
        "java_mb_before": before,
        "java_mb_at_most": peak.most,
        "state_mb": round(_size(f"{runner.settings.checkpoints_uri}/scaling/{name}/spark/state") / 1e6, 1),
    }


class _Peak:
    """The most memory that a process has while this is open."""

    def __init__(self, pid: int) -> None:
        self.most = 0
        self._pid = pid
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> _Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._done.wait(0.1):
            self.most = max(self.most, _resident(self._pid))


def _resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)


def _size(uri: str) -> int:
    folder = Path(uri.removeprefix("file://"))
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _wait(check: Callable[[], bool]) -> None:
    until = time.monotonic() + _WITHIN
    while not check():
        assert time.monotonic() < until, "not within five minutes"
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    chosen = parser.parse_args()
    app, topics = declare(chosen.keys)
    with tempfile.TemporaryDirectory(prefix="gearshift-bench-") as folder:
        settings = load({"home": folder}, folder=Path(folder), environ={})
        with Runner(app, settings) as runner:
            found = [measure(runner, topics[keys], keys) for keys in chosen.keys]
    shown = Table("keys", "pause", "move", "Java before", "Java at most", "state on disk", box=None)
    for each in found:
        shown.add_row(
            f"{each['keys']:,}",
            f"{each['pause_s']} s",
            f"{each['move_s']} s",
            f"{each['java_mb_before']} MB",
            f"{each['java_mb_at_most']} MB",
            f"{each['state_mb']} MB",
        )
    Console().print(shown)
    RESULTS.write_text(
        json.dumps({"from": BEFORE, "to": AFTER, "cores": os.cpu_count(), "measured": found}, indent=1)
        + "\n",
        encoding="utf-8",
    )
    print(f"raw results: {RESULTS}")


if __name__ == "__main__":
    main()
