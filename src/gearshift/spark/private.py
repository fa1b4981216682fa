"""Every use of the private parts of Spark, py4j and Kafka's Java client.

A new version of one of them may break any of these functions; `self_test` tries them all on a session.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaObject  # pyright: ignore[reportMissingTypeStubs]
from py4j.protocol import Py4JError, Py4JJavaError  # pyright: ignore[reportMissingTypeStubs]
from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway  # pyright: ignore[reportUnknownVariableType]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from gearshift.stack.artifacts.java import properties_text

__all__ = ["Py4JError"]  # raised by the functions below

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_ADMIN = "org.apache.kafka.clients.admin.AdminClientConfig"
_CONSUMER = "org.apache.kafka.clients.consumer.KafkaConsumer"
_CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_PROBE = "package gearshift; public class Probe {}"


# The Java process


def launch(configuration: Mapping[str, str], popen: dict[str, Any]) -> None:
    """Start Spark's Java process, with its configuration in a file: `ps` shows a command line to everyone."""
    before = os.environ.get(_ARGUMENTS)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".conf") as file:  # of mode 0600
        file.write(properties_text(configuration))
        file.flush()
        ours = f"--properties-file {shlex.quote(file.name)} --load-spark-defaults"
        os.environ[_ARGUMENTS] = f"{ours} {before or 'pyspark-shell'}"
        try:
            gateway: Any = launch_gateway(None, popen)
        finally:
            if before is None:
                del os.environ[_ARGUMENTS]
            else:
                os.environ[_ARGUMENTS] = before
    _authenticate_callbacks(gateway)
    SparkContext._ensure_initialized(gateway=gateway)  # pyright: ignore[reportPrivateUsage]


def _authenticate_callbacks(gateway: Any) -> None:
    """Start the server through which Java calls Python functions, open to that Java process only.

    PySpark starts it without a token, and py4j drops its own when the server's port is set.
    """
    token = gateway.java_parameters.auth_token
    gateway.python_parameters.auth_token = token
    ensure_callback_server_started(gateway)
    _callback_token(gateway).set(_callback_client(gateway), token)


def _callback_client(gateway: Any) -> Any:
    server: Any = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    return server.getCallbackClient()


def _callback_token(gateway: Any) -> Any:
    field = _callback_client(gateway).getClass().getSuperclass().getDeclaredField("authToken")
    field.setAccessible(True)
    return field


def is_launched() -> bool:
    """Whether this Python process has a Java process."""
    return _gateway() is not None


def has_session() -> bool:
    """Whether a session is open in this Python process, which has one at most."""
    return SparkContext._active_spark_context is not None  # pyright: ignore[reportPrivateUsage]


def launched_jvm() -> Any:
    """The Java process, with or without a session in it."""
    return SparkContext._jvm  # pyright: ignore[reportPrivateUsage]


def end(within: float) -> None:
    """End the Java process, in which no session runs, and wait for it."""
    gateway = _gateway()
    if gateway is None:
        return
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=within)
    SparkContext._gateway = SparkContext._jvm = None  # pyright: ignore[reportPrivateUsage]


def _gateway() -> Any:
    return SparkContext._gateway  # pyright: ignore[reportPrivateUsage]


def jvm(spark: SparkSession) -> Any:
    """The Java process of a session."""
    return spark._jvm  # pyright: ignore[reportPrivateUsage]


def java_pid(spark: SparkSession) -> int:
    """The process id of a session's Java process."""
    return jvm(spark).java.lang.ProcessHandle.current().pid()


def new_array(spark: SparkSession, kind: str, *values: Any) -> Any:
    """A Java array of a class of java.lang."""
    made = _gateway().new_array(getattr(jvm(spark).java.lang, kind), len(values))
    for index, value in enumerate(values):
        made[index] = value
    return made


# Threads: py4j binds a Python thread to a Java thread, with a connection that outlives both. A query's Java thread that
# once called a listener leaves a Python thread waiting, and a Python thread that called Spark leaves a Java thread.


def current_connection() -> Any:
    """py4j's connection of this thread; None if it has neither called Spark nor been called by it."""
    gateway = _gateway()
    return gateway._gateway_client.get_thread_connection() if gateway is not None else None


def close_connection(connection: Any) -> None:
    """End the Python thread that waits on the connection of a Java thread."""
    if connection is not None and connection.socket is not None:
        # Closing it would wait for the reader; the end of input ends the reader, which closes it.
        with contextlib.suppress(OSError):
            connection.socket.shutdown(socket.SHUT_RDWR)


def release_thread() -> None:
    """End the Java thread of this Python thread, which is about to end; a later call would start a new one."""
    connection = current_connection()
    if connection is not None:
        with contextlib.suppress(ValueError):
            _gateway()._gateway_client.deque.remove(connection)
        connection.close()


# Plans and jobs


def analyzed_plan(frame: DataFrame) -> Any:
    """The analyzed logical plan of a frame, a Java object."""
    return _query_execution(frame).analyzed()


def explained_plan(spark: SparkSession, frame: DataFrame) -> str:
    """The text that `frame.explain()` prints."""
    return jvm(spark).PythonSQLUtils.explainString(_query_execution(frame), "simple")


def _query_execution(frame: DataFrame) -> Any:
    java: Any = frame._jdf  # pyright: ignore[reportPrivateUsage]
    return java.queryExecution()


def real_time_operators(spark: SparkSession) -> list[str]:
    """The class names of the operators that Spark allows in Real-Time Mode."""
    package: Any = jvm(spark).org.apache.spark.sql.execution.streaming.runtime
    module = _scala_object(package, "RealTimeModeAllowlist$")
    field = module.getClass().getDeclaredField("allowedOperators")
    field.setAccessible(True)
    return field.get(module).mkString(",").split(",")


def streaming_refusal(
    spark: SparkSession, frame: DataFrame, mode: str, *, real_time: bool = False
) -> Exception | None:
    """Spark's error if it would not start this frame as a stream in an output mode."""
    package: Any = jvm(spark).org.apache.spark.sql.catalyst.analysis
    checker = _scala_object(package, "UnsupportedOperationChecker$")
    modes: Any = jvm(spark).org.apache.spark.sql.streaming.OutputMode
    plan, chosen = analyzed_plan(frame), modes.Update() if mode == "update" else modes.Append()
    try:
        if real_time:
            checker.checkAdditionalRealTimeModeConstraints(plan, chosen)
        else:
            checker.checkForStreaming(plan, chosen)
    except (AnalysisException, Py4JJavaError) as error:
        return error
    return None


def repartition_state(spark: SparkSession, checkpoint: str, partitions: int) -> None:
    """Move the state in the checkpoint of a stopped query to another number of shuffle partitions.

    Spark logs a batch without records: planned before the state is written, committed after.
    """
    _checkpoint_manager(spark).repartition(checkpoint, partitions, True)


def _checkpoint_manager(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession  # pyright: ignore[reportPrivateUsage]
    return session.streamingCheckpointManager()


def _scala_object(package: Any, name: str) -> Any:
    return getattr(getattr(package, name), "MODULE$")


def latest_jobs(context: SparkContext, most: int) -> list[Any]:
    """The latest jobs in Spark's status store, newest first, as Java objects."""
    java: Any = context._jsc  # pyright: ignore[reportPrivateUsage]
    jobs = java.sc().statusStore().jobsList(None)
    return [jobs.apply(number) for number in range(min(jobs.size(), most))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """A process of a cluster that runs, or ran, tasks of this session."""

    cores: int
    is_active: bool
    changed_at: float
    """When it registered, or was lost; in epoch seconds."""


def executors(context: SparkContext) -> list[Executor]:
    """The executors in Spark's status store, also those that were lost."""
    java: Any = context._jsc  # pyright: ignore[reportPrivateUsage]
    listed = java.sc().statusStore().executorList(False)
    found = [listed.apply(number) for number in range(listed.size())]
    return [
        Executor(
            cores=each.totalCores(),
            is_active=each.isActive(),
            changed_at=(each.addTime() if each.isActive() else each.removeTime().get()).getTime() / 1000,
        )
        for each in found
        if each.id() != "driver"
    ]


def add_query_listener(spark: SparkSession, listener: Any) -> Any:
    """Add a Java listener of queries that is implemented in Python; returns what `remove_query_listener` takes."""
    ensure_callback_server_started(_gateway())
    wrapped = jvm(spark).org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(listener)
    _query_manager(spark).addListener(wrapped)
    return wrapped


def remove_query_listener(spark: SparkSession, wrapped: Any) -> None:
    """Remove a listener."""
    _query_manager(spark).removeListener(wrapped)


def _query_manager(spark: SparkSession) -> Any:
    return spark.streams._jsqm  # pyright: ignore[reportPrivateUsage]


# Kafka's client inside Spark


def write_observed(
    spark: SparkSession, frame: DataFrame, options: Mapping[str, str], observation: str
) -> Any:
    """Write a frame to Kafka and return its observed metrics, a Java row.

    A DataFrameWriter would plan the frame again inside its command, where the observation is lost. The connector
    runs the plan of the frame that it is given.
    """
    java: Any = frame._jdf  # pyright: ignore[reportPrivateUsage]
    session: Any = spark._jsparkSession  # pyright: ignore[reportPrivateUsage]
    connector = _class(spark, _CONNECTOR).newInstance()
    append = jvm(spark).org.apache.spark.sql.SaveMode.Append
    given = jvm(spark).PythonUtils.toScalaMap(dict(options))
    connector.createRelation(session.sqlContext(), append, given, java)
    return _query_execution(frame).observedMetrics().apply(observation)


def set_admin_timeout(spark: SparkSession, milliseconds: int) -> None:
    """Change the default timeout of the admin clients in the Java process."""
    definition = _class(spark, _ADMIN).getDeclaredField("CONFIG")
    definition.setAccessible(True)
    keys = definition.get(None).configKeys()
    for name in ("default.api.timeout.ms", "request.timeout.ms"):
        key = keys.get(name)
        default = key.getClass().getField("defaultValue")
        default.setAccessible(True)
        default.set(key, milliseconds)


def consumer_creator(spark: SparkSession) -> Any:
    """The object with which KafkaConsumer makes its delegates."""
    field = _class(spark, _CONSUMER).getDeclaredField("CREATOR")
    field.setAccessible(True)
    return field.get(None)


def open_fence(spark: SparkSession, next_lease: str, python: int, limit_ms: int) -> None:
    """Start the thread that ends the Java process when the lease may be lost."""
    java: Any = spark.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
    jvm(spark).gearshift.Fence.open(next_lease, python, limit_ms, java.hadoopConfiguration())


def close_fence(spark: SparkSession) -> None:
    """End that thread."""
    jvm(spark).gearshift.Fence.close()


def delete_folder(spark: SparkSession, path: str) -> None:
    """Delete a folder on any store that Spark reaches, if it exists."""
    java: Any = spark.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
    place = jvm(spark).org.apache.hadoop.fs.Path(path)
    place.getFileSystem(java.hadoopConfiguration()).delete(place, True)


def compile_class(spark: SparkSession, name: str, source: str) -> Any:
    """Compile a Java class with the compiler in Spark's jars and load it."""
    compiler = jvm(spark).org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(_class_loader(spark))
    compiler.cook(source)
    return compiler.getClassLoader().loadClass(name)


def _class(spark: SparkSession, name: str) -> Any:
    return jvm(spark).java.lang.Class.forName(name, True, _class_loader(spark))


def _class_loader(spark: SparkSession) -> Any:
    return jvm(spark).java.lang.Thread.currentThread().getContextClassLoader()


# The self-test


class _Listener:
    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def self_test(spark: SparkSession, admin_timeout_ms: int) -> list[str]:
    """Try every function on a session that has Kafka's jars; one sentence for each that no longer works."""
    stream = spark.readStream.format("rate").load()
    frame = spark.range(3).observe("observed", F.count(F.lit(1)).alias("rows"))

    def listens() -> None:
        remove_query_listener(spark, add_query_listener(spark, _Listener()))

    def refuses_a_stream() -> bool:
        unsupported = stream.groupBy("value").count()
        return (
            streaming_refusal(spark, stream, "append") is None
            and streaming_refusal(spark, unsupported, "append") is not None
            and streaming_refusal(spark, stream, "update", real_time=True) is None
        )

    def observes() -> bool:
        frame.collect()
        return int(_query_execution(frame).observedMetrics().apply("observed").getLong(0)) == 3

    probes: dict[str, Callable[[], Any]] = {
        "launch (token of the callback server)": lambda: _callback_token(_gateway()).get(
            _callback_client(_gateway())
        ),
        "java_pid": lambda: java_pid(spark) > 0,
        "new_array": lambda: list(new_array(spark, "String", "a", "b")) == ["a", "b"],
        "current_connection": lambda: current_connection() is not None,
        "release_thread (queue of connections)": lambda: _gateway()._gateway_client.deque is not None,
        "analyzed_plan": lambda: "Range" in str(analyzed_plan(frame).toString()),
        "explained_plan": lambda: "Physical Plan" in explained_plan(spark, frame),
        "real_time_operators": lambda: len(real_time_operators(spark)) > 10,
        "streaming_refusal": refuses_a_stream,
        "repartition_state": lambda: _checkpoint_manager(spark) is not None,
        "add_query_listener": lambda: listens() is None,
        "write_observed (metrics)": observes,
        "latest_jobs": lambda: latest_jobs(spark.sparkContext, 1)[0].jobId() >= 0,
        "executors": lambda: all(each.cores > 0 for each in executors(spark.sparkContext)),
        "write_observed (connector)": lambda: _class(spark, _CONNECTOR).newInstance() is not None,
        "set_admin_timeout": lambda: set_admin_timeout(spark, admin_timeout_ms) is None,
        "consumer_creator": lambda: consumer_creator(spark) is not None,
        "compile_class": lambda: compile_class(spark, "gearshift.Probe", _PROBE) is not None,
        "delete_folder": lambda: delete_folder(spark, "file:/nowhere/at/all") is None,
    }
    broken: list[str] = []
    for name, works in probes.items():
        try:
            reason = None if works() else "unexpected result"
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
        if reason is not None:
            broken.append(f"{name} does not work with Spark {spark.version}: {reason}")
    return broken
