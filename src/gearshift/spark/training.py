"""Creates the archives of `stack/artifacts/class_archive.py`: `python -m gearshift.spark.training`.

Each program does a little typical work and writes the classes that it loaded when it ends.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gearshift.app import App
from gearshift.definitions import Graph
from gearshift.settings import Settings, load
from gearshift.spark.class_archive import archive, quoted
from gearshift.spark.session import end_java, open_session
from gearshift.stack.artifacts import artifacts
from gearshift.stack.artifacts.artifacts import file_sha256
from gearshift.stack.artifacts.class_archive import Archive
from gearshift.stack.lifecycle import up
from gearshift.stack.processes.service import stop
from gearshift.storage.shared_files import exclusive, write_whole
from gearshift.topics import Admin, Producer, read

_WRITTEN_WITHIN = timedelta(minutes=5)


@dataclass
class _Word:
    text: str


def prepare(settings: Settings) -> None:
    """Create the archives that do not exist yet."""
    shared = archive(settings).path.parent
    shared.mkdir(parents=True, exist_ok=True)
    artifacts.fetch("kafka", "spark", cache=settings.cache)
    with exclusive(shared / "training.lock"), tempfile.TemporaryDirectory(dir=shared) as name:
        folder = Path(name)
        with ThreadPoolExecutor(2) as pool:
            for done in (pool.submit(_services, settings, folder), pool.submit(_spark, settings, folder)):
                done.result()
        for made in folder.glob("*.jsa"):  # not every Java can create them
            write_whole(Archive(shared / made.name).digest, file_sha256(made) + "\n")
            made.replace(shared / made.name)


def _services(settings: Settings, folder: Path) -> None:
    """Run Kafka and send a record."""
    cache = settings.cache
    if Archive.of("kafka", artifacts.jars("kafka", cache=cache), cache=cache).made:
        return
    app = App("startup")
    words = app.topic("words", value=_Word)
    alone = Settings(home=folder / "home", cache=cache)
    with up(alone, record=folder) as stack, Admin(stack.connection) as admin:
        admin.ensure([words])
        with Producer(stack.connection) as producer:
            producer.send(words, _Word("quick"))
        assert len(list(read(stack.connection, words.name))) == 1
        stop([service.pid for service in stack.services], within=_WRITTEN_WITHIN)


def _spark(settings: Settings, folder: Path) -> None:
    path = archive(settings).path
    if archive(settings).made:
        return
    # The optimizing compiler would only take longer; the archive works with any.
    options = f"{quoted(Archive(folder / path.name).recording)} -XX:TieredStopAtLevel=1"
    training = settings.model_copy(
        update={"spark": {**settings.spark, "spark.driver.extraJavaOptions": options}}
    )
    jars = artifacts.jars("spark", cache=settings.cache)
    spark = open_session(Graph(app="startup", timezone="UTC"), training, jars, log_file=folder / "spark.log")
    _work(spark, folder)
    spark.stop()
    end_java(within=_WRITTEN_WITHIN.total_seconds())


def _work(spark: SparkSession, folder: Path) -> None:
    """Run a stateful query in micro-batches and write Parquet files: code paths that every app takes."""
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
