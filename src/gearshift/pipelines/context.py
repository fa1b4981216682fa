"""What pipelines need in order to run: Spark, the settings, the app's declarations and, where topics are read, Kafka."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from gearshift.connection import Connection
from gearshift.definitions import Graph, Pipeline, Table
from gearshift.errors import RunnerError
from gearshift.freshness import Gear
from gearshift.pipelines.live_progress import group_prefix
from gearshift.pipelines.stopping import Endings
from gearshift.settings import Settings
from gearshift.spark import private
from gearshift.spark.hive.publishing import Publisher
from gearshift.storage.lease import Lease
from gearshift.topics import Admin


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """A cluster and its registry, with a client that is open."""

    connection: Connection
    admin: Admin


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Shared by all pipelines of an app; a check and intervals over tables do without Kafka."""

    spark: SparkSession
    settings: Settings
    graph: Graph
    kafka: Kafka | None = None
    endings: Endings | None = field(default=None, repr=False, compare=False)
    lease: Lease | None = field(default=None, repr=False, compare=False)
    """The right to write the app's checkpoints, which a runner has."""
    publisher: Publisher = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        spark = self.spark
        object.__setattr__(self, "publisher", Publisher(self.settings, lambda: private.jvm(spark)))

    @property
    def connection(self) -> Connection:
        """Where Kafka and the registry are."""
        return self._kafka.connection

    @property
    def admin(self) -> Admin:
        """The cluster's admin client."""
        return self._kafka.admin

    @property
    def _kafka(self) -> Kafka:
        if self.kafka is None:
            raise RunnerError("this command runs without Kafka", app=self.graph.app)
        return self.kafka

    def folder_of(self, pipeline: Pipeline) -> str:
        """The URI of a pipeline's ledger and checkpoint."""
        return f"{self.settings.checkpoints_uri}/{self.graph.app}/{pipeline.name}"

    def table_uri(self, table: Table) -> str:
        """The URI of a table."""
        return f"{self.settings.warehouse_uri}/{table.name}"

    def query_name(self, pipeline: Pipeline) -> str:
        """The name of a pipeline in Spark and in Kafka's tools."""
        return f"{self.graph.app}.{pipeline.name}"

    def groups_of(self, pipeline: Pipeline) -> list[str]:
        """The prefixes of the consumer groups that read a pipeline's topics."""
        return [group_prefix(self.query_name(pipeline), source) for source in pipeline.topics]

    def stamps(self, pipeline: Pipeline, gear: Gear) -> bool:
        """Whether a pipeline's records carry a stamp in a gear, which costs a fifth of a batch's throughput.

        In real-time only the stamp shows which records count. A micro-batch's offsets are logged before it runs,
        so its records are known by their time, unless several pipelines write the same topic.
        """
        writers = [each for each in self.graph.pipelines.values() if each.target == pipeline.target]
        return gear is Gear.REAL_TIME or len(writers) > 1
