"""The hand-written side: a PySpark script as a careful user would write it, with Gearshift's settings.

In batch, each line on its input starts a batch.

usage: side_plain.py stateless|stateful real-time|batch NAME FOLDER INTERVAL, with the connection as JSON in BENCH_CONNECTION
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from confluent_kafka.schema_registry import SchemaRegistryClient
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro

from gearshift import settings as configuration
from gearshift.connection import Connection
from gearshift.stack.artifacts.artifacts import jars
from gearshift.topics import for_java

query, gear, name, folder, interval = sys.argv[1:6]
connection = Connection(**json.loads(os.environ["BENCH_CONNECTION"]))
kafka = {f"kafka.{name}": value for name, value in for_java(connection.kafka).items()}
kafka["kafka.bootstrap.servers"] = connection.bootstrap_servers
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
settings = configuration.load(environ={}, folder=Path(folder))
client = SchemaRegistryClient({"url": connection.registry_url, **connection.registry})
written = client.get_latest_version(f"{name}-in-value")
target = client.get_latest_version(f"{name}-out-value")
limits = " ".join(
    f"-Dorg.apache.avro.limits.{kind}.maxLength={64 * 1024 * 1024}"
    for kind in ("string", "bytes", "collectionItems")
)
builder = SparkSession.builder.master("local[10]")
for setting, chosen in {
    "spark.jars": ",".join(str(jar) for jar in jars("spark", cache=settings.cache)),
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": limits,
    "spark.executor.extraJavaOptions": limits,
    "spark.authenticate": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.liveUpdate.period": "0",
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "5",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
}.items():
    builder = builder.config(setting, chosen)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
payload = F.expr("substring(value, 6)")
rows = (
    spark.readStream.format("kafka")
    .options(**kafka)
    .option("subscribe", f"{name}-in")
    .option("startingOffsets", "earliest")
    .option("kafka.fetch.max.wait.ms", "20")
    .load()
    .select(from_avro(payload, written.schema.schema_str, {"mode": "PERMISSIVE"}).alias("v"))
    .where("v.key is not null")
    .select("v.*")
)
if query == "stateful":
    rows = rows.groupBy("key").agg(F.max("sent").alias("sent"), F.count("*").alias("n"))
else:
    rows = rows.where("n % 10 != 9")
head = F.lit(b"\x00" + target.schema_id.to_bytes(4, "big"))
fields = [
    F.coalesce(F.col(f["name"]), F.raise_error(F.lit("null"))).alias(f["name"])
    for f in json.loads(target.schema.schema_str)["fields"]
]
output = rows.select(
    F.col("key"), F.concat(head, to_avro(F.struct(*fields), target.schema.schema_str)).alias("value")
)
writer = (
    output.writeStream.format("kafka")
    .options(**kafka)
    .option("topic", f"{name}-out")
    .option("kafka.compression.type", "lz4")
    .option("kafka.linger.ms", "0" if gear == "real-time" else "5")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .outputMode("update")
)
if gear == "batch":
    print("settings", json.dumps(dict(spark.sparkContext.getConf().getAll())), flush=True)
    print("ready", flush=True)
    for _ in sys.stdin:
        began = time.monotonic()
        writer.trigger(availableNow=True).start().awaitTermination()
        print("done", time.monotonic() - began, flush=True)
else:
    running = writer.trigger(realTime=f"{int(float(interval) * 1000)} milliseconds").start()
    tracker = spark.sparkContext.statusTracker()
    while not tracker.getActiveJobsIds():
        time.sleep(0.05)
    print("ready", flush=True)
    sys.stdin.read()
spark.stop()
