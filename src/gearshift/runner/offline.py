"""What can be done while no Kafka is there: planning pipelines, and intervals from table to table."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gearshift.connection import Connection
from gearshift.definitions import Graph
from gearshift.pipelines.engine import Engine
from gearshift.settings import Settings
from gearshift.topics import Admin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def without_kafka(spark: SparkSession, settings: Settings, graph: Graph) -> Generator[Engine]:
    """An engine whose connection nobody uses, so that any address will do."""
    connection = Connection.of(settings, bootstrap_servers="127.0.0.1:9", registry_url="http://127.0.0.1:9")
    with Admin(connection) as admin:
        yield Engine(spark=spark, connection=connection, settings=settings, graph=graph, admin=admin)
