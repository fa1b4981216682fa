"""Opens the Spark session that all pipelines of an app share."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from gearshift.definitions import Graph, Pipeline, Table
from gearshift.errors import SettingsError
from gearshift.settings import Settings
from gearshift.spark import class_archive as startup
from gearshift.spark import functions, masters, private, user_code
from gearshift.spark.leader_lookup import shorten_admin_timeout
from gearshift.spark.private import Py4JError
from gearshift.spark.slots import await_executors
from gearshift.stack.artifacts import artifacts
from gearshift.stack.artifacts.java import properties_text, utf8_locale
from gearshift.storage.access import is_s3, spark_options
from gearshift.storage.location import local_path
from gearshift.storage.shared_files import private_home

log = logging.getLogger(__name__)

PARTITIONS = "spark.sql.shuffle.partitions"
SHUFFLE_PARTITIONS = 2
_JAVA_ENDS_WITHIN = 30.0
SPARE_SLOTS = 4  # for batches next to real-time queries: dead letters, tables, calendars
_SHUFFLES = 2  # of a pipeline that is not planned yet: dropDuplicates and then an aggregation
_LARGEST_VALUE = (
    64 * 1024 * 1024
)  # no Kafka record is larger; a corrupt length must not make Avro allocate gigabytes

_AVRO_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{kind}.maxLength={_LARGEST_VALUE}"
    for kind in ("string", "bytes", "collectionItems")
)

# Every checkpoint is created with these, or it can never run in real-time: Spark cannot convert one.
EVERY_GEAR = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}

# For each file Hadoop's newer interface starts seven processes (readlink, chmod) where the older one starts two, and a
# batch with state writes a dozen files. Concurrent renames cannot happen: a folder has one runner.
_LOCAL_CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}

_DEFAULTS = {
    **EVERY_GEAR,
    PARTITIONS: str(SHUFFLE_PARTITIONS),
    "spark.sql.session.timeZone": "UTC",
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "5",
    # A reported batch is committed: a shift can stop right then, and a crash replays at most one batch.
    "spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    "spark.ui.liveUpdate.period": "0",  # so that a started task is visible at once, not at the next event
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
}
# Spark creates the secret, and its executors do not get it on a command line.
_AUTHENTICATED = {"spark.authenticate": "true"}
_starting = threading.Lock()
_JARS = "spark.jars"
_DRIVER_JAVA, _EXECUTOR_JAVA = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"


def default_parallelism(settings: Settings) -> int:
    """The shuffle partitions of a pipeline that declares none."""
    given = settings.spark.get(PARTITIONS, str(SHUFFLE_PARTITIONS))
    if not given.isdecimal() or not int(given):
        raise SettingsError(f"{PARTITIONS} cannot be {given}", hint="use a whole number above 0")
    return int(given)


@contextmanager
def beginning_with(spark: SparkSession, partitions: int) -> Generator[None]:
    """Let queries on new checkpoints that start in this block begin with a number of shuffle partitions.

    A query copies the session's settings when it starts, and Spark then keeps the number in the checkpoint. Pipelines
    start in parallel on one session, so one at a time.
    """
    with _starting:
        before = str(spark.conf.get(PARTITIONS))
        spark.conf.set(PARTITIONS, partitions)
        try:
            yield
        finally:
            spark.conf.set(PARTITIONS, before)


def slots_needed(partitions: Iterable[int], *, shuffles: int, parallelism: int) -> int:
    """The number of task slots that a real-time query holds while it runs.

    >>> slots_needed([3], shuffles=1, parallelism=2)
    5
    """
    return sum(partitions) + shuffles * parallelism


def default_master(graph: Graph, parallelism: Mapping[str, int]) -> str:
    """`local[N]` with slots for every pipeline that could run in real-time, plus the spare slots.

    Each has slots for its shuffle partitions, and for as many as there are cores, so that it can be scaled to them
    while it runs. More slots than cores are fine: a real-time task mostly waits for records.
    """

    def most(pipeline: Pipeline) -> int:
        if not pipeline.topics or isinstance(pipeline.target, Table):
            return 0
        partitions = (topic.partitions for topic in pipeline.topics.values())
        number = parallelism.get(pipeline.name) or pipeline.parallelism or SHUFFLE_PARTITIONS
        return slots_needed(partitions, shuffles=_SHUFFLES, parallelism=max(number, os.cpu_count() or 1))

    return f"local[{max(4, sum(most(pipeline) for pipeline in graph.pipelines.values())) + SPARE_SLOTS}]"


def open_session(
    graph: Graph,
    settings: Settings,
    jars: Iterable[Path],
    *,
    log_file: Path | None = None,
    brief: bool = False,
    parallelism: Mapping[str, int] | None = None,
) -> SparkSession:
    """Start Spark on loopback with the settings that every gear needs.

    A `brief` session only plans: its Java process uses the fast compiler, which halves the time. `parallelism` has the
    shuffle partitions by pipeline where they are known to differ from the declared ones.
    """
    master = settings.spark_master or default_master(graph, parallelism or {})
    _refuse_breaking(settings)
    masters.require_shared_storage(master, settings)
    if brief and not masters.is_local(master):
        master = "local[2]"  # planning needs no cluster
    masters.require_answer(master)
    if masters.on_one_machine(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    user_code.choose_python(master, settings.spark)
    user_code.pickle_app(graph)
    # PySpark prints every failed analysis as a page of JSON; Gearshift reports it in one sentence.
    logging.getLogger("DataFrameQueryContextLogger").disabled = True
    # py4j logs every exception of a table's batch, which Gearshift reports too.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    paths = [str(jar) for jar in jars]
    configuration = {"spark.master": masters.resolved(master), **_configuration(settings, paths, log_file)}
    if brief:
        configuration[_DRIVER_JAVA] += " -XX:TieredStopAtLevel=1"
    if not private.is_launched():
        _launch(configuration, log_file)
        # The launcher has set them, with those that it resolved of spark.jars.packages.
        del configuration[_JARS]
    builder = SparkSession.builder.appName(f"gearshift {graph.app}")
    for name, value in configuration.items():
        builder = builder.config(name, value)
    masters.warn_of_open_cluster(master, settings)
    try:
        spark = builder.getOrCreate()
    except (Py4JError, PySparkException) as error:
        raise masters.not_started(master, error, log_file) from error
    try:
        await_executors(spark)
        user_code.send_siblings(spark, graph)
    except BaseException:
        spark.stop()
        raise
    if any("kafka-clients" in path for path in paths):
        shorten_admin_timeout(spark)
    return spark


def start_java(settings: Settings, *, log_file: Path) -> Any:
    """Start Spark's Java process without a session; returns its JVM."""
    _launch(_configuration(settings, [], log_file), log_file)
    return private.launched_jvm()


def end_java(*, within: float = _JAVA_ENDS_WITHIN) -> None:
    """End Spark's Java process, which must have no session, and wait for it."""
    private.end(within)


def _configuration(settings: Settings, jars: list[str], log_file: Path | None) -> dict[str, str]:
    """Spark's configuration: the user's settings override the defaults; jars and Java options are added."""
    found = {
        **_DEFAULTS,
        **({} if (settings.spark_master or "").startswith("spark:") else _AUTHENTICATED),
        **(_LOCAL_CHECKPOINTS if local_path(settings.checkpoints_uri) is not None else {}),
        **spark_options(_locations(settings)),
        **functions.CATALOG,
        **settings.spark,
    }
    given = settings.spark.get(_JARS, "").split(",")
    found[_JARS] = ",".join(jar for jar in (*jars, str(functions.jar(settings.cache)), *given) if jar)
    for name in (_DRIVER_JAVA, _EXECUTOR_JAVA):
        found[name] = f"{_AVRO_LIMITS} {settings.spark.get(name, '')}"
    if log_file is not None:
        if log_file.is_relative_to(settings.home):
            private_home(settings.home)
        log_configuration = _log_configuration(log_file).as_uri()
        started_from = startup.quoted(startup.archive(settings).options)
        found[_DRIVER_JAVA] += f" -Dlog4j2.configurationFile={log_configuration} {started_from}"
    return found


def jars_for(settings: Settings) -> list[Path]:
    """The jars of a session with pipelines: Kafka's connector, and the clients of the stores in its settings."""
    return [*artifacts.jars("spark", cache=settings.cache), *store_jars(settings)]


def store_jars(settings: Settings) -> list[Path]:
    """The client of an object store, if a URI is in one; HDFS's comes with PySpark."""
    if not any(is_s3(uri) for uri in _locations(settings)):
        return []
    return artifacts.jars("s3a", cache=settings.cache)


def _locations(settings: Settings) -> tuple[str, str]:
    return settings.checkpoints_uri, settings.warehouse_uri


def _launch(configuration: dict[str, str], log_file: Path | None) -> None:
    """Start Spark's Java process, once per Python process, with its output in the log file."""
    if private.is_launched():
        return
    os.environ.update(utf8_locale(os.environ))
    with ExitStack() as opened:
        # In a separate session, so that signals to our process group do not reach it; Java ends when its input closes.
        how: dict[str, Any] = {"start_new_session": True, "umask": 0o077}
        if log_file is not None:
            how["stdout"] = how["stderr"] = opened.enter_context(log_file.open("a"))
        private.launch(configuration, how)


def _refuse_breaking(settings: Settings) -> None:
    for name, value in EVERY_GEAR.items():
        if settings.spark.get(name, value) != value:
            raise SettingsError(
                f"spark.{name.removeprefix('spark.')} cannot be {settings.spark[name]}",
                hint=f"remove it: every gear requires {value}",
            )


def _log_configuration(log_file: Path) -> Path:
    """Write a log4j2 configuration that sends Spark's log to a file instead of the terminal."""
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
