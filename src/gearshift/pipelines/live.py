"""How far a real-time query is while its batch is open: Spark reports only at the checkpoint, minutes later.

With a local master the tasks run in the driver's JVM, so Kafka's own consumer metrics tell the lag of each partition,
and a sample of the records leaves its age among the system properties, as does a record that cannot be decoded. Tasks of a cluster run elsewhere: there
the numbers are those of the last checkpoint.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

GROUP = "gearshift-"
AGE_PROPERTY = "gearshift.age."
CORRUPT_PROPERTY = "gearshift.corrupt."
AGE_SLOTS = 64
"""Ages kept of each source: every next one takes the place of the oldest."""
_RECENT = 30.0  # seconds for which an age counts

_BEANS = "kafka.consumer:type=consumer-fetch-manager-metrics,partition=*,*"
_CLIENT = re.compile(r"client-id=consumer-(?P<group>.+)-[0-9a-f-]{36}-+\d+-executor-(?P<number>\d+)\b")
_TAG = re.compile(r"(partition|topic)=([^,]+)")
_AGE = re.compile(re.escape(AGE_PROPERTY) + r"(?P<group>[^=,]+)\.\d+=(?P<at>\d+):(?P<age>-?\d+)")
_CORRUPT = re.compile(re.escape(CORRUPT_PROPERTY) + r"(?P<group>[^=,]+)=(?P<at>\d+):(?P<place>\d+/\d+)")
_NAMES_STAY = 5.0  # seconds; consumers come and go with batches and restarts

Partition = tuple[str, int]


def group_prefix(query: str, source: str) -> str:
    """What the consumer groups of a query's source begin with.

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
    """What the consumers of all real-time queries tell at one moment, by the prefix of their group."""

    lag: Mapping[str, Mapping[Partition, int]] = field(default_factory=dict[str, dict[Partition, int]])
    ages: Mapping[str, list[int]] = field(default_factory=dict[str, list[int]])
    corrupt: Mapping[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    """The latest record that could not be decoded: when, in epoch milliseconds, and its `partition/offset`."""


class Gauges:
    """Reads live numbers out of the driver's JVM."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
        self._gateway: Any = spark.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
        self._local = (spark.sparkContext.master or "").startswith("local")
        self._beans: dict[str, Any] = {}
        self._looked_at = 0.0
        self._server: Any = None

    def read(self) -> Live:
        """The numbers of this moment; none where tasks run in other processes."""
        if not self._local:
            return Live()
        try:
            told = str(self._jvm.java.lang.System.getProperties().toString())
            corrupt = {each["group"]: (int(each["at"]), each["place"]) for each in _CORRUPT.finditer(told)}
            return Live(lag=self._lag(), ages=_ages(told), corrupt=corrupt)
        except (
            Py4JError
        ) as error:  # another Java or Kafka client: numbers come with the checkpoints, as on a cluster
            self._local = False
            log.warning("real-time numbers are those of the last checkpoint: %s", str(error).splitlines()[0])
            return Live()

    def _lag(self) -> dict[str, dict[Partition, int]]:
        if time.monotonic() - self._looked_at > _NAMES_STAY:
            self._find_beans()
        newest: dict[tuple[str, Partition], tuple[int, int]] = {}
        for name, arguments in self._beans.items():
            client, tags = _CLIENT.search(name), dict(_TAG.findall(name))
            value = self._value(arguments)
            if client is None or value is None:
                continue
            key = client["group"], (tags["topic"], int(tags["partition"]))
            # The consumer of an earlier start lingers in Spark's pool with the lag it last saw.
            newest[key] = max(newest.get(key, (-1, 0)), (int(client["number"]), value))
        found: dict[str, dict[Partition, int]] = {}
        for (group, partition), (_, lag) in newest.items():
            found.setdefault(group, {})[partition] = lag
        return found

    def _find_beans(self) -> None:
        if self._server is None:
            self._connect()
        pattern = self._jvm.javax.management.ObjectName(_BEANS)
        told = str(self._query.invoke(self._server, self._array("Object", pattern, None)).toString())
        names = [f"kafka.consumer:{name}" for name in told.strip("[]").split("kafka.consumer:")[1:]]
        names = [name.rstrip(", ") for name in names if f"client-id=consumer-{GROUP}" in name]
        known, attribute = self._beans, "records-lag"
        self._beans = {
            name: known.get(name)
            or self._array("Object", self._jvm.javax.management.ObjectName(name), attribute)
            for name in names
        }
        self._looked_at = time.monotonic()

    def _connect(self) -> None:
        # The server's class is Java's own secret; its methods can be called through the interface alone.
        kind = self._jvm.java.lang.Class.forName
        name, interface = kind("javax.management.ObjectName"), kind("javax.management.MBeanServerConnection")
        query = self._array("Class", name, kind("javax.management.QueryExp"))
        attribute = self._array("Class", name, kind("java.lang.String"))
        self._query = interface.getMethod("queryNames", query)
        self._attribute = interface.getMethod("getAttribute", attribute)
        self._server = self._jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()

    def _value(self, arguments: Any) -> int | None:
        try:
            value = self._attribute.invoke(self._server, arguments)
        except Py4JError:
            self._looked_at = 0.0  # that consumer was closed
            return None
        return int(value) if value == value else None  # NaN until its first fetch

    def _array(self, kind: str, *values: Any) -> Any:
        made = self._gateway.new_array(getattr(self._jvm.java.lang, kind), len(values))
        for number, value in enumerate(values):
            made[number] = value
        return made


def _ages(told: str) -> dict[str, list[int]]:
    since = (time.time() - _RECENT) * 1000
    found: dict[str, list[int]] = {}
    for sample in _AGE.finditer(told):
        if int(sample["at"]) >= since:
            found.setdefault(sample["group"], []).append(int(sample["age"]))
    return found
