"""Makes the archive of `startup.py`, once: `python -m gearshift.pipelines.training`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gearshift.definitions import Graph
from gearshift.pipelines.session import end_java, open_session
from gearshift.pipelines.startup import QUIET, archive
from gearshift.settings import Settings, load
from gearshift.stack.artifacts import jars
from gearshift.stack.files import exclusive

_WRITTEN_WITHIN = 300.0


def prepare(settings: Settings) -> None:
    """Make the archive unless it is there, by a Java process that does a little of what pipelines do."""
    place = archive(settings)
    place.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(place.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=place.parent) as name:
        if place.exists():
            return
        folder = Path(name)
        made = folder / "made.jsa"
        # Compiling well would only take longer; the archive fits every compiler.
        options = f'"-XX:ArchiveClassesAtExit={made}" {QUIET} -XX:TieredStopAtLevel=1'
        training = settings.model_copy(
            update={"spark": {**settings.spark, "spark.driver.extraJavaOptions": options}}
        )
        spark = open_session(
            Graph(app="startup", timezone="UTC"),
            training,
            jars("spark", cache=settings.cache),
            log_file=folder / "spark.log",
        )
        _work(spark, folder)
        spark.stop()
        end_java(within=_WRITTEN_WITHIN)  # it writes the archive as it ends
        if made.exists():  # not every Java can make one
            made.replace(place)


def _work(spark: SparkSession, folder: Path) -> None:
    """A stateful query in micro-batches, and a table's files: the code paths that every app takes."""
    source = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    counted = source.groupBy((F.col("value") % 5).alias("key")).agg(F.count("*").alias("count"))
    query = (
        counted.writeStream.format("memory")
        .queryName("startup")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    while not spark.table("startup").head(1):
        query.awaitTermination(1)
    query.stop()
    spark.range(10).withColumn("day", F.current_date()).write.partitionBy("day").parquet(
        str(folder / "table")
    )


if __name__ == "__main__":
    prepare(load())
