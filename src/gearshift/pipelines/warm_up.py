"""What a standby does in advance: first queries load thousands of classes, which takes seconds."""

from __future__ import annotations

import logging
import time
import uuid
from typing import Any

from pyspark.sql import DataFrame

from gearshift import tables
from gearshift.definitions import Table, Topic
from gearshift.pipelines.context import Context
from gearshift.pipelines.records import reading
from gearshift.spark.private import delete_folder
from gearshift.storage.location import spark_path

log = logging.getLogger(__name__)

_NAME = "standby"
_TRIGGERS = ({"processingTime": "0 seconds"}, {"realTime": "5 seconds"})
_BATCH_WITHIN = 8.0  # seconds; a topic without records has none


def warm_up(context: Context) -> None:
    """Count a topic's new records in each kind of query, for one batch, in a folder beside the checkpoints."""
    pipelines = context.graph.pipelines.values()
    for pipeline in pipelines:
        if isinstance(pipeline.target, Table):
            tables.exists(context.table_uri(pipeline.target))
    topic = next((topic for pipeline in pipelines for topic in pipeline.topics.values()), None)
    if topic is None:
        return
    folder = spark_path(f"{context.settings.checkpoints_uri}/{context.graph.app}/.{_NAME}-{uuid.uuid4().hex}")
    try:
        for number, trigger in enumerate(_TRIGGERS):
            _run(_counted(context, topic), trigger, f"{folder}/{number}")
    except Exception as error:  # the pipelines themselves report what does not work
        log.info("not warmed up: %s", error)
    finally:
        delete_folder(context.spark, folder)


def _counted(context: Context, topic: Topic) -> DataFrame:
    options = reading.kafka_options(context.connection)
    records = (
        context.spark.readStream.format("kafka")
        .options(**options)
        .option("subscribe", topic.name)
        .option("startingOffsets", "latest")
        .option("groupIdPrefix", f"{context.graph.app}.{_NAME}")
        .load()
    )
    return records.groupBy("partition").count()


def _run(frame: DataFrame, trigger: dict[str, str], checkpoint: str) -> None:
    writer: Any = frame.writeStream.format("memory").queryName(_NAME).outputMode("update")
    query = writer.option("checkpointLocation", checkpoint).trigger(**trigger).start()
    until = time.monotonic() + _BATCH_WITHIN
    try:
        while query.isActive and time.monotonic() < until:
            if (latest := query.lastProgress) is not None and latest.numInputRows > 0:
                return
            time.sleep(0.1)
    finally:
        query.stop()
        frame.sparkSession.catalog.dropTempView(_NAME)
