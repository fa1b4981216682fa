"""Tables beside Spark's own Parquet writer: the same rows, the same session, in one run.

Both sides write a million rows that Spark holds in memory, by turns, several rounds after some that do not count;
they are compared by the medians, and round by round. Gearshift's side is a whole batch: the files, the commit, and
what makes it happen once. Beside it, without a rival: an upsert of a tenth as many rows, half of them new, into the
million; and publishing a batch to Hive. Results go to benchmarks/results/ and to a table.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from gearshift import settings as configuration
from gearshift import tables
from gearshift.definitions import Graph, Location
from gearshift.definitions import Table as Declared
from gearshift.settings import Settings
from gearshift.spark.hive.publishing import metastore
from gearshift.spark.private import jvm
from gearshift.spark.session import open_session

HERE = Path(__file__).parent
DECLARED_AT = Location(__file__, 1)
DAYS = 4
LIMIT = 1.3  # how much longer than Spark's own write a batch may take


class Bench:
    """A session, a warehouse and the rows to write."""

    def __init__(self, spark: SparkSession, settings: Settings, rows: int) -> None:
        self.spark = spark
        self.rows = rows
        self.frame = self.sales(0, rows).cache()
        self.frame.count()
        self._settings = settings
        self._folder = settings.home / "plain"
        self._writes = 0

    def sales(self, start: int, count: int) -> DataFrame:
        """Rows of the kinds that tables have."""
        return self.spark.range(start, start + count, numPartitions=2).selectExpr(
            "id",
            "concat('customer-', id % 5000) AS customer",
            "cast(id % 100000 / 100 AS decimal(12,2)) AS price",
            "timestamp_micros(1767225600000000 + id * 1000) AS sold_at",
            f"date_add(date'2026-01-01', cast(id % {DAYS} AS int)) AS day",
        )

    def plain(self, *partition_by: str) -> float:
        """Spark's own write of all rows."""
        self._writes += 1
        path = self._folder / str(self._writes)
        took = _timed(lambda: self.frame.write.partitionBy(*partition_by).parquet(str(path)))
        shutil.rmtree(path)
        return took

    def append(self, *partition_by: str) -> float:
        """One batch of all rows for a table."""
        table, uri = self._table("appended", *partition_by)
        self._writes += 1
        writer = f"benchmark-{self._writes}"
        return _timed(lambda: tables.append(table, uri, self.frame, writer=writer, batch_id=0))

    def upsert(self, round_: int) -> float:
        """A tenth as many rows, half of them new, into a table of all rows."""
        table, uri = self._table("upserted", key=("id",))
        if not tables.exists(uri):
            tables.upsert(table, uri, self.frame)
        count = self.rows // 10
        batch = self.sales(self.rows + round_ * count // 2 - count // 2, count)
        return _timed(lambda: tables.upsert(table, uri, batch))

    def publish(self) -> float:
        """Show the next batch of a published table to Hive, in the metastore that Spark embeds."""
        table, uri = self._table("published", "day")
        self._writes += 1
        rows = self.sales(0, 1000)
        tables.append(table, uri, rows, writer=f"benchmark-{self._writes}", batch_id=0)
        return _timed(lambda: tables.publish(self._metastore(), uri))

    def _metastore(self) -> tables.Metastore:
        if not hasattr(self, "_opened"):
            self._opened = metastore(self._settings, jvm(self.spark))
        return self._opened

    def _table(self, name: str, *partition_by: str, key: tuple[str, ...] = ()) -> tuple[Declared, str]:
        name = "_".join([name, *partition_by])
        table = Declared(name=name, partition_by=partition_by, key=key, defined_at=DECLARED_AT)
        return table, tables.table_uri(self._settings.warehouse_uri, name)


def compare(bench: Bench, rounds: int, warm_up: int, *partition_by: str) -> dict[str, Any]:
    """The two sides by turns, each round in another order."""
    sides: dict[str, Callable[..., float]] = {"spark": bench.plain, "gearshift": bench.append}
    took: dict[str, list[float]] = {name: [] for name in sides}
    for round_ in range(-warm_up, rounds):
        order = list(sides) if round_ % 2 else list(reversed(sides))
        for side in order:
            seconds = sides[side](*partition_by)
            if round_ >= 0:
                took[side].append(round(seconds, 3))
    by_round = [ours / theirs for ours, theirs in zip(took["gearshift"], took["spark"], strict=True)]
    return {
        "seconds": took,
        "ratio_of_medians": round(median(took["gearshift"]) / median(took["spark"]), 3),
        "ratio": round(median(by_round), 3),
    }


def _timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _read() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--warm-up", type=int, default=2, help="rounds that do not count")
    parser.add_argument("--rows", type=int, default=1_000_000)
    return parser.parse_args()


def main() -> None:
    chosen = _read()
    with tempfile.TemporaryDirectory(prefix="gearshift-bench-") as folder:
        settings = configuration.load({"home": folder}, folder=Path(folder), environ={})
        spark = open_session(
            Graph(app="benchmark", timezone="UTC"), settings, (), log_file=Path(folder) / "logs" / "spark.log"
        )
        try:
            bench = Bench(spark, settings, chosen.rows)
            found = {
                "append": compare(bench, chosen.rounds, chosen.warm_up),
                f"append to {DAYS} partitions": compare(bench, chosen.rounds, chosen.warm_up, "day"),
            }
            alone = {
                f"upsert of {chosen.rows // 10:,}": [bench.upsert(n) for n in range(-1, chosen.rounds)][1:],
                f"publish {DAYS} partitions to Hive": [bench.publish() for _ in range(-2, chosen.rounds)][2:],
            }
        finally:
            spark.stop()
    shown = Table("what", "Spark's Parquet", "Gearshift", "ratio", box=None, pad_edge=False)
    for name, result in found.items():
        theirs, ours = (median(result["seconds"][side]) for side in ("spark", "gearshift"))
        shown.add_row(name, f"{theirs:.2f} s", f"{ours:.2f} s", f"{result['ratio_of_medians']:.2f}")
    for name, seconds in alone.items():
        shown.add_row(name, "", f"{median(seconds):.2f} s", "")
    Console().print(shown)
    verdict = found["append"]["ratio_of_medians"] <= LIMIT
    print(
        f"appending {chosen.rows:,} rows costs {'at most' if verdict else 'MORE THAN'} {LIMIT} times Spark's write"
    )
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    path = results / "tables.json"
    rounded = {name: [round(each, 3) for each in seconds] for name, seconds in alone.items()}
    path.write_text(
        json.dumps({"chosen": vars(chosen), "limit": LIMIT, "compared": found, "alone": rounded}, indent=1)
        + "\n",
        encoding="utf-8",
    )
    print(f"raw results: {path}")


if __name__ == "__main__":
    main()
