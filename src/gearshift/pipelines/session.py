"""The Spark session all pipelines of an app share."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark import SparkContext, cloudpickle
from pyspark.sql import SparkSession

from gearshift.definitions import Graph, Pipeline, Table
from gearshift.errors import SettingsError
from gearshift.location import local_path
from gearshift.pipelines import java, startup
from gearshift.pipelines.leaders import ask_briefly
from gearshift.settings import Settings
from gearshift.stack.files import private_home
from gearshift.stack.java import properties_text, utf8_locale

log = logging.getLogger(__name__)

SHUFFLE_PARTITIONS = 2
_JAVA_ENDS_WITHIN = 30.0
SPARE_SLOTS = 4  # for the batches that run beside real-time queries: dead letters, tables, calendars
_LARGEST_VALUE = (
    64 * 1024 * 1024
)  # no Kafka record is larger; a corrupt length must not make Avro allocate gigabytes

_AVRO_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{kind}.maxLength={_LARGEST_VALUE}"
    for kind in ("string", "bytes", "collectionItems")
)

# A checkpoint is born with these or it can never run in real time; Spark has no way to convert one.
EVERY_GEAR = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}

# For a log file Hadoop's newer interface starts seven processes (readlink, chmod) where the older one starts two, and a
# batch with state writes a dozen files. Nobody else renames there: a folder has one runner.
_LOCAL_CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}

_DEFAULTS = {
    **EVERY_GEAR,
    "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
    "spark.sql.session.timeZone": "UTC",
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "5",
    # A batch that is reported is committed: a shift can stop right then, and a crash replays one batch at the most.
    "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    "spark.ui.liveUpdate.period": "0",  # so that a started task is seen at once, not at the next event
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
}
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
# Spark makes the secret itself, and its executors get it without a command line.
_AUTHENTICATED = {"spark.authenticate": "true"}
_DRIVER_JAVA, _EXECUTOR_JAVA = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"


def slots_needed(partitions: Iterable[int], *, shuffles: bool) -> int:
    """How many tasks a real-time query holds for as long as it runs.

    >>> slots_needed([3], shuffles=True)
    5
    """
    return sum(partitions) + (SHUFFLE_PARTITIONS if shuffles else 0)


def default_master(graph: Graph) -> str:
    """`local[N]` with room for every pipeline that could run in real time, beside the spare slots.

    More slots than cores are right here: a real-time task mostly waits for records.
    """

    def most(pipeline: Pipeline) -> int:
        if pipeline.tables or isinstance(pipeline.target, Table):
            return 0
        return slots_needed((topic.partitions for topic in pipeline.topics.values()), shuffles=True)

    return f"local[{max(4, sum(most(pipeline) for pipeline in graph.pipelines.values())) + SPARE_SLOTS}]"


def open_session(
    graph: Graph,
    settings: Settings,
    jars: Iterable[Path],
    *,
    log_file: Path | None = None,
    brief: bool = False,
) -> SparkSession:
    """Start Spark, quietly and on loopback, with what every gear needs.

    A `brief` one only plans, and ends: its Java compiles in haste, which takes half the time.
    """
    master = settings.spark_master or default_master(graph)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Python UDFs run in this environment, with its packages, not in the first Python on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _send_user_code(graph)
    _refuse_breaking(settings)
    _refuse_private_disk(master, settings)
    # PySpark prints every failed analysis as a page of JSON; ours come out as one sentence.
    logging.getLogger("DataFrameQueryContextLogger").disabled = True
    # And py4j every exception of a table's batch, which the driver tells of in a sentence.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    paths = [str(jar) for jar in jars]
    configuration = _configuration(settings, {"spark.jars": ",".join(paths)}, log_file)
    if brief:
        configuration[_DRIVER_JAVA] += " -XX:TieredStopAtLevel=1"
    _launch(configuration, log_file)
    builder = SparkSession.builder.master(master).appName(f"gearshift {graph.app}")
    for name, value in configuration.items():
        builder = builder.config(name, value)
    _warn_of_open_cluster(master, settings)
    spark = builder.getOrCreate()
    if paths:  # without jars there is no Kafka to ask
        ask_briefly(spark)
    return spark


def start_java(settings: Settings, *, log_file: Path) -> Any:
    """Spark's Java process without a session in it: the jars, and a way to call them."""
    _launch(_configuration(settings, {}, log_file), log_file)
    return SparkContext._jvm  # pyright: ignore[reportPrivateUsage]


def end_java(*, within: float = _JAVA_ENDS_WITHIN) -> None:
    """End Spark's Java process, in which no session runs, and wait for it."""
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=within)
    SparkContext._gateway = SparkContext._jvm = None  # pyright: ignore[reportPrivateUsage]


def _send_user_code(graph: Graph) -> None:
    """Functions of the app's own file travel whole to Python workers, which could not import it."""
    names = {pipeline.transform.__module__ for pipeline in graph.pipelines.values()} - {"__main__"}
    for name in names & sys.modules.keys():
        cloudpickle.register_pickle_by_value(sys.modules[name])  # pyright: ignore[reportUnknownMemberType]


def _configuration(settings: Settings, ours: dict[str, str], log_file: Path | None) -> dict[str, str]:
    """What Spark is told: the user's settings go over ours, and Java's options add up."""
    found = {
        **_DEFAULTS,
        **({} if (settings.spark_master or "").startswith("spark:") else _AUTHENTICATED),
        **(_LOCAL_CHECKPOINTS if local_path(settings.checkpoints_uri) is not None else {}),
        **ours,
        **settings.spark,
    }
    for name in (_DRIVER_JAVA, _EXECUTOR_JAVA):
        found[name] = f"{_AVRO_LIMITS} {settings.spark.get(name, '')}"
    if log_file is not None:
        if log_file.is_relative_to(settings.home):
            private_home(settings.home)
        log_configuration = _log_configuration(log_file).as_uri()
        started_from = startup.quoted(startup.archive(settings).options)
        found[_DRIVER_JAVA] += f" -Dlog4j2.configurationFile={log_configuration} {started_from}"
    return found


def _launch(configuration: dict[str, str], log_file: Path | None) -> None:
    """Start Spark's Java process, once a Python process, with what it says beside its log in that file too."""
    if SparkContext._gateway is not None:  # pyright: ignore[reportPrivateUsage]
        return
    os.environ.update(utf8_locale(os.environ))
    with ExitStack() as opened:
        # In a session of its own: a signal to our process group is for us, and Java ends when its input closes.
        how: dict[str, Any] = {"start_new_session": True, "umask": 0o077}
        if log_file is not None:
            how["stdout"] = how["stderr"] = opened.enter_context(log_file.open("a"))
        gateway = opened.enter_context(java.told(configuration, how))
    java.lock_callbacks(gateway)
    SparkContext._ensure_initialized(gateway=gateway)  # pyright: ignore[reportPrivateUsage]


def _warn_of_open_cluster(master: str, settings: Settings) -> None:
    """Spark makes a secret of its own for local[N], YARN and Kubernetes; a standalone cluster has to be given one."""
    if master.startswith("spark:") and settings.spark.get("spark.authenticate") != "true":
        log.warning(
            "anybody who reaches the driver's port can run code in it: set spark.authenticate and "
            "spark.authenticate.secret on the cluster at %s and in [spark]",
            master,
        )


def _refuse_breaking(settings: Settings) -> None:
    for name, value in EVERY_GEAR.items():
        if settings.spark.get(name, value) != value:
            raise SettingsError(
                f"spark.{name.removeprefix('spark.')} cannot be {settings.spark[name]}",
                hint=f"take it out: every gear needs {value}",
            )


def _refuse_private_disk(master: str, settings: Settings) -> None:
    """Executors on other machines would write to disks of their own, and each batch would be committed empty."""
    hosts = re.findall(r"([^/,]+):\d+", master) if master.startswith("spark://") else []
    if master.startswith("local") or (hosts and all(host in _LOOPBACK for host in hosts)):
        return
    for setting, uri in (("checkpoints", settings.checkpoints_uri), ("warehouse", settings.warehouse_uri)):
        if local_path(uri) is not None:
            raise SettingsError(
                f"{setting} are at {uri}, a disk that the executors of {master} do not share",
                hint=f"set {setting} to a URI that all of them reach, such as hdfs://… or s3a://…",
            )


def _log_configuration(log_file: Path) -> Path:
    """Spark's log goes to a file: the terminal is for what the user asked."""
    log_file.parent.mkdir(parents=True, exist_ok=True)
    path = log_file.with_suffix(".log4j2.properties")
    path.write_text(
        properties_text(
            {
                "rootLogger.level": "warn",
                "rootLogger.appenderRef.file.ref": "file",
                "appender.file.type": "File",
                "appender.file.name": "file",
                "appender.file.fileName": log_file,
                "appender.file.layout.type": "PatternLayout",
                "appender.file.layout.pattern": "%d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex",
            }
        ),
        encoding="ascii",
    )
    return path


def total_slots(spark: SparkSession) -> int:
    """How many tasks can run at once: of `local[N]` the N, of a cluster the cores of its executors."""
    local = re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", spark.sparkContext.master or "")
    return int(local[1]) if local else spark.sparkContext.defaultParallelism
