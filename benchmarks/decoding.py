"""Our decoder inside Spark beside Spark's own `from_avro` and `from_json`, over the same records, turn by turn.

The records lie in memory, so that decoding is all that is measured; the ratio is time of Spark's ÷ time of ours, above
1 where ours is faster. Spark's own functions are given what they are fastest with: one writer's schema, no check of the
result. Results go to benchmarks/results/decoding.json and to a table.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Annotated

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from rich.console import Console
from rich.table import Table

import gearshift as gs
from gearshift.app import App
from gearshift.pipelines.records import reading
from gearshift.schemas import codec, encode, pack
from gearshift.settings import load
from gearshift.spark.session import open_session
from gearshift.stack.artifacts.artifacts import jars

HERE = Path(__file__).parent


@dataclass
class Small:
    key: str
    sent: float
    n: int


@dataclass
class Place:
    street: str
    city: str
    zip: str | None = None


@dataclass
class Large:
    order_id: str
    customer: str
    placed_at: datetime
    total: Annotated[Decimal, gs.DecimalOf(12, 2)]
    items: list[str]
    labels: dict[str, str]
    place: Place
    note: str | None = None
    paid: bool = False


SAMPLES = {
    "small": Small("meter-17", 1774746123.25, 42),
    "large": Large(
        "o-4711", "Zoë Müller", datetime(2026, 3, 29, 1, 2, 3, 4, tzinfo=UTC), Decimal("1234.50"),
        ["soup", "bread", "tea"], {"channel": "app", "coupon": "spring"}, Place("Hauptstraße 5", "Köln", "50667"), "ring twice", True,
    ),
}  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=5)
    chosen = arguments.parse_args()
    app = App("decoding")
    with tempfile.TemporaryDirectory() as folder:
        settings = load({"home": folder, "spark_master": "local[2]"}, environ={})
        spark = open_session(
            app.graph, settings, jars("spark", cache=settings.cache), log_file=Path(folder) / "log"
        )
        rows = [measure(spark, app, size, format, chosen) for size in SAMPLES for format in ("avro", "json")]  # noqa: A001
        spark.stop()
    (HERE / "results" / "decoding.json").write_text(json.dumps(rows, indent=2) + "\n")
    table = Table("record", "format", "Spark's records/s", "ours", "ratio (rounds)")
    for row in rows:
        ratios = " ".join(f"{each:.2f}" for each in row["ratios"])
        speeds = (f"{row[side]:,.0f}" for side in ("spark", "gearshift"))
        table.add_row(row["record"], row["format"], *speeds, f"{row['ratio']:.2f} ({ratios})")
    Console().print(table)


def measure(
    spark: SparkSession,
    app: App,
    size: str,
    format: str,  # noqa: A002 - the word users know
    chosen: argparse.Namespace,
) -> dict[str, object]:
    value = SAMPLES[size]
    topic = app.topic(f"{size}-{format}", value=type(value), format=format)  # pyright: ignore[reportArgumentType]
    schema = codec(type(value), topic.format).schema_text
    payload = pack(1, encode(value, topic.format))
    raw = (
        spark.range(chosen.records)
        .select(
            F.lit(bytearray(payload)).alias("value"), F.lit(0).alias("partition"), F.col("id").alias("offset")
        )
        .repartition(2)
        .cache()
    )
    raw.count()
    decoded = reading.decode(raw, topic, reading.Versions(writers={1: schema})).select("_value.*")
    bytes_ = F.expr("substring(value, 6)")
    theirs = (
        from_avro(bytes_, schema, {"mode": "PERMISSIVE"})
        if format == "avro"
        else F.from_json(bytes_.cast("string"), reading.row_type(topic))
    )
    sides = {"spark": raw.select(theirs.alias("v")).select("v.*"), "gearshift": decoded}
    times: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(chosen.rounds + 1):
        for side, frame in sides.items():
            seconds = timed(frame)
            if number:  # the first warms up
                times[side].append(seconds)
    raw.unpersist()
    ratios = [one / other for one, other in zip(times["spark"], times["gearshift"], strict=True)]
    speeds = {side: chosen.records / median(found) for side, found in times.items()}
    return {"record": size, "format": format, **speeds, "ratio": median(ratios), "ratios": ratios}


def timed(frame: DataFrame) -> float:
    begun = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
