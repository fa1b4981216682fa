"""The progress of a real-time query while its batch is open: Spark reports only at the checkpoint, minutes later.

With a local master the tasks run in the driver's JVM: the lag of each partition comes from Kafka's consumer metrics, and
the ages of sampled records and the latest corrupt record are left in system properties. On a cluster the tasks run
elsewhere, and the numbers are those of the last checkpoint.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from gearshift.spark import private
from gearshift.spark.private import Py4JError

log = logging.getLogger(__name__)

GROUP = "gearshift-"
AGE_PROPERTY = "gearshift.age."
CORRUPT_PROPERTY = "gearshift.corrupt."
AGE_SLOTS = 64
"""Number of ages kept per source; a new one replaces the oldest."""
_RECENT = 30.0  # seconds for which an age is current

_BEANS = "kafka.consumer:type=consumer-fetch-manager-metrics,partition=*,*"
_CLIENT = re.compile(r"client-id=consumer-(?P<group>.+)-[0-9a-f-]{36}-+\d+-executor-(?P<number>\d+)\b")
_TAG = re.compile(r"(partition|topic)=([^,]+)")
_AGE = re.compile(re.escape(AGE_PROPERTY) + r"(?P<group>[^=,]+)\.\d+=(?P<at>\d+):(?P<age>-?\d+)")
_CORRUPT = re.compile(re.escape(CORRUPT_PROPERTY) + r"(?P<group>[^=,]+)=(?P<at>\d+):(?P<record>\d+/\d+)")
_NAMES_STAY = 5.0  # seconds; consumers come and go with batches and restarts

Partition = tuple[str, int]


def group_prefix(query: str, source: str) -> str:
    """The prefix of the consumer groups of a query's source.

    >>> group_prefix("meter.load_alerts", "readings")
    'gearshift-meter.load_alerts-readings'
    """
    return f"{GROUP}{query}-{source}"


def quantiles(ages: list[int]) -> tuple[float, float] | None:
    """The median and the 99th percentile.

    >>> quantiles([30, 10, 20])
    (20.0, 30.0)
    """
    found = sorted(ages)
    return (float(found[len(found) // 2]), float(found[len(found) * 99 // 100])) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The current numbers of all real-time queries, by the prefix of their consumer group."""

    lag: Mapping[str, Mapping[Partition, int]] = field(default_factory=dict[str, dict[Partition, int]])
    ages: Mapping[str, list[int]] = field(default_factory=dict[str, list[int]])
    corrupt: Mapping[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    """The latest record that could not be decoded: its time in epoch milliseconds and `partition/offset`."""


class Gauges:
    """Reads live numbers out of the driver's JVM."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm = private.jvm(spark)
        self._local = (spark.sparkContext.master or "").startswith("local")
        self._beans: dict[str, Any] = {}
        self._found_at = 0.0
        self._server: Any = None

    def read(self) -> Live:
        """The current numbers; none if the tasks run in other processes."""
        if not self._local:
            return Live()
        try:
            properties = str(self._jvm.java.lang.System.getProperties().toString())
            corrupt = {
                each["group"]: (int(each["at"]), each["record"]) for each in _CORRUPT.finditer(properties)
            }
            return Live(lag=self._lag(), ages=_ages(properties), corrupt=corrupt)
        except Py4JError as error:  # another Java or Kafka client: as on a cluster
            self._local = False
            log.warning("real-time numbers are those of the last checkpoint: %s", str(error).splitlines()[0])
            return Live()

    def _lag(self) -> dict[str, dict[Partition, int]]:
        if time.monotonic() - self._found_at > _NAMES_STAY:
            self._find_beans()
        newest: dict[tuple[str, Partition], tuple[int, int]] = {}
        for name, arguments in self._beans.items():
            client, tags = _CLIENT.search(name), dict(_TAG.findall(name))
            value = self._value(arguments)
            if client is None or value is None:
                continue
            key = client["group"], (tags["topic"], int(tags["partition"]))
            # The consumer of an earlier start stays in Spark's pool with the last lag it saw.
            newest[key] = max(newest.get(key, (-1, 0)), (int(client["number"]), value))
        found: dict[str, dict[Partition, int]] = {}
        for (group, partition), (_, lag) in newest.items():
            found.setdefault(group, {})[partition] = lag
        return found

    def _find_beans(self) -> None:
        if self._server is None:
            self._connect()
        pattern = self._jvm.javax.management.ObjectName(_BEANS)
        found = str(
            self._query.invoke(
                self._server, private.new_array(self._spark, "Object", pattern, None)
            ).toString()
        )
        names = [f"kafka.consumer:{name}" for name in found.strip("[]").split("kafka.consumer:")[1:]]
        names = [name.rstrip(", ") for name in names if f"client-id=consumer-{GROUP}" in name]
        known, attribute = self._beans, "records-lag"
        self._beans = {
            name: known.get(name)
            or private.new_array(
                self._spark, "Object", self._jvm.javax.management.ObjectName(name), attribute
            )
            for name in names
        }
        self._found_at = time.monotonic()

    def _connect(self) -> None:
        # The server's class is not accessible: its methods can be called only through the interface.
        kind = self._jvm.java.lang.Class.forName
        name, interface = kind("javax.management.ObjectName"), kind("javax.management.MBeanServerConnection")
        query = private.new_array(self._spark, "Class", name, kind("javax.management.QueryExp"))
        attribute = private.new_array(self._spark, "Class", name, kind("java.lang.String"))
        self._query = interface.getMethod("queryNames", query)
        self._attribute = interface.getMethod("getAttribute", attribute)
        self._server = self._jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()

    def _value(self, arguments: Any) -> int | None:
        try:
            value = self._attribute.invoke(self._server, arguments)
        except Py4JError:
            self._found_at = 0.0  # that consumer was closed
            return None
        return int(value) if value == value else None  # NaN until its first fetch


def _ages(properties: str) -> dict[str, list[int]]:
    since = (time.time() - _RECENT) * 1000
    found: dict[str, list[int]] = {}
    for sample in _AGE.finditer(properties):
        if int(sample["at"]) >= since:
            found.setdefault(sample["group"], []).append(int(sample["age"]))
    return found
