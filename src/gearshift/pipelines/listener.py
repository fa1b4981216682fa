"""What Spark reports of its queries, handed on as plain data."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started  # pyright: ignore[reportUnknownVariableType]
from pyspark.sql import SparkSession

from gearshift.pipelines.checkpoint import Offsets
from gearshift.pipelines.java_threads import close_connection, current_connection
from gearshift.pipelines.reading import offsets_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrupt:
    """How many records of a source a batch could not decode, and between which offsets."""

    count: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One executed batch of a query."""

    query: str
    run_id: str
    batch_id: int
    began: datetime
    took: timedelta
    records: int
    written: int | None
    starts: Offsets
    ends: Offsets
    corrupt: dict[str, Corrupt]
    latency_ms: tuple[float, float] | None

    @property
    def settled_ms(self) -> int:
        """A time, in epoch milliseconds, after this batch's own and before the next one's."""
        return int((self.began + self.took).timestamp() * 1000)

    @classmethod
    def read(cls, report: dict[str, Any]) -> Progress | None:
        """Read Spark's report; None if it is of a trigger that ran no batch."""
        if "addBatch" not in report["durationMs"]:
            return None
        starts: Offsets = {}
        ends: Offsets = {}
        for source in report["sources"]:
            starts.update(offsets_of(source, "startOffset") or {})
            ends.update(offsets_of(source, "endOffset") or {})
        metered: dict[str, dict[str, Any]] = report.get("observedMetrics") or {}
        observed = {
            name.removeprefix("decode_"): metrics
            for name, metrics in metered.items()
            if name.startswith("decode_")
        }
        ages = [metrics["age"] for metrics in observed.values() if metrics.get("age")]
        written = report["sink"].get("numOutputRows", -1)
        return cls(
            query=report["name"],
            run_id=report["runId"],
            batch_id=report["batchId"],
            began=datetime.fromisoformat(report["timestamp"]).astimezone(UTC),
            took=timedelta(milliseconds=report["durationMs"]["triggerExecution"]),
            records=report["numInputRows"] or sum(metrics.get("read") or 0 for metrics in observed.values()),
            written=written if written >= 0 else None,
            starts=starts,
            ends=ends,
            corrupt={
                name: Corrupt(count=metrics["corrupt"], first=metrics["first"], last=metrics["last"])
                for name, metrics in observed.items()
                if metrics.get("corrupt")
            },
            latency_ms=(max(age[0] for age in ages), max(age[1] for age in ages)) if ages else None,
        )


class _Listener:
    """Calls `on_progress` for every executed batch; it runs in Spark's event thread and so must be quick.

    It is Java's listener itself. PySpark's would first copy the report into Python objects, value by
    value: hundreds of calls into Java, of which we want one.
    """

    class Java:
        """What py4j is told of this class."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)

    def __init__(self, on_progress: Callable[[Progress], None]) -> None:
        self._on_progress = on_progress
        self._connections: dict[str, Any] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        """Note the connection: Spark calls this in the query's own Java thread, which ends with the query."""
        self._connections[event.runId().toString()] = current_connection()

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Hand the report on."""
        try:
            progress = Progress.read(json.loads(event.progress().json()))
            if progress is not None:
                self._on_progress(progress)
        except Exception:
            log.exception("a progress report could not be read")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing: no batch ran."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """End the thread that the query's Java thread called here; the driver waits for the end itself."""
        close_connection(self._connections.pop(event.runId().toString(), None))


def listen(spark: SparkSession, on_progress: Callable[[Progress], None]) -> None:
    """Report every executed batch of this session."""
    ensure_callback_server_started(spark.sparkContext._gateway)  # pyright: ignore[reportPrivateUsage]
    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    wrapped = jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(_Listener(on_progress))
    streams: Any = spark.streams._jsqm  # pyright: ignore[reportPrivateUsage]
    streams.addListener(wrapped)
