"""The Gearshift side: the same queries, declared. In batch, each line on its input starts a batch.

usage: side_gearshift.py stateless|stateful real-time|batch NAME FOLDER INTERVAL, with the connection as JSON in BENCH_CONNECTION
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import gearshift as gs
from gearshift import settings as configuration
from gearshift.freshness import Gear
from gearshift.pipelines.verification import await_working
from gearshift.runner.runner import Runner

query, gear, name, folder, interval = sys.argv[1:6]
connection = json.loads(os.environ["BENCH_CONNECTION"])  # its fields are settings of the same names


@dataclass
class Event:
    key: str
    sent: float
    n: int


app = gs.App("benchmark")
source = app.topic(f"{name}-in", value=Event, key="key", partitions=4)
target = app.topic(f"{name}-out", value=Event, key="key", partitions=4)


@app.pipeline(source=source, to=target, gear=gear)
def measured(events: DataFrame) -> DataFrame:
    if query == "stateful":
        return events.groupBy("key").agg(F.max("sent").alias("sent"), F.count("*").alias("n"))
    return events.where("n % 10 != 9")


settings = configuration.load(
    {
        "home": Path(folder) / "home",
        **connection,
        "checkpoint_interval": f"{int(float(interval))} seconds",
        "spark_master": "local[10]",
    },
    environ={},
)
with Runner(app, settings) as runner:
    supervisor = runner.supervisors["measured"]
    if gear == Gear.BATCH:
        while not any(run.verified and run.ended for run in supervisor.ledger.runs):
            time.sleep(0.02)  # the calendar's first batch, over an empty topic
        print("settings", json.dumps(dict(runner.spark.sparkContext.getConf().getAll())), flush=True)
        with supervisor.lock:  # so that no calendar comes between
            print("ready", flush=True)
            for _ in sys.stdin:
                began = time.monotonic()
                supervisor.start(Gear.BATCH, "benchmark")
                print("done", time.monotonic() - began, flush=True)
    else:
        await_working(supervisor)
        print("ready", flush=True)
        sys.stdin.read()
