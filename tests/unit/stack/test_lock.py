"""The lock file of jars."""

from __future__ import annotations

import re

import pytest

from gearshift.errors import ArtifactError
from gearshift.stack.artifacts import artifacts


def test_every_file_has_a_unique_name_a_size_and_a_hash() -> None:
    locked = artifacts.locked()
    assert len({artifact.file for artifact in locked}) == len(locked)
    assert all(artifact.size > 0 and re.fullmatch("[0-9a-f]{64}", artifact.sha256) for artifact in locked)


def test_kafka_has_its_broker_and_a_log_and_spark_only_what_pyspark_lacks() -> None:
    kafka = {artifact.file for artifact in artifacts.members("kafka")}
    assert {"kafka_2.13-4.3.1.jar", "kafka-clients-4.3.1.jar", "log4j-slf4j-impl-2.25.4.jar"} <= kafka
    assert {artifact.file for artifact in artifacts.members("spark")} == {
        "spark-sql-kafka-0-10_2.13-4.2.0.jar",
        "spark-avro_2.13-4.1.1.jar",
        "spark-token-provider-kafka-0-10_2.13-4.1.0-preview1.jar",
        "kafka-clients-3.9.2.jar",
        "commons-pool2-2.13.1.jar",
        "scala-parallel-collections_2.13-1.2.0.jar",
    }


def test_an_unknown_group_is_named_with_the_known_ones() -> None:
    with pytest.raises(
        ArtifactError,
        match=r"'flink'(?s:.*)use one of cassandra, connect, debezium, debezium-mariadb, hdfs, kafka, mariadb, s3a, spark",
    ):
        artifacts.members("flink")
