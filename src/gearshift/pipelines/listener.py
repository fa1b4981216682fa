"""Receives Spark's progress reports and passes them on as plain data."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from gearshift.pipelines.ledger.checkpoint import Offsets
from gearshift.pipelines.records.reading import offsets_of
from gearshift.pipelines.records.writing import RESULT
from gearshift.spark.private import add_query_listener, close_connection, current_connection

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrupt:
    """The number of records of a source that a batch could not decode, and the range of their offsets."""

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
    invalid: int
    """Rows of the result that its topic could not take and that became dead letters."""
    latency_ms: tuple[float, float] | None
    durations_ms: dict[str, int]
    """How long each part of the batch took, by Spark's names."""
    state_rows: int = 0
    state_bytes: int = 0
    watermark: str | None = None

    @property
    def settled_ms(self) -> int:
        """A time in epoch milliseconds after this batch's time and before the next one's."""
        return int((self.began + self.took).timestamp() * 1000)

    @classmethod
    def read(cls, report: dict[str, Any]) -> Progress | None:
        """Parse Spark's report; None if the trigger ran no batch."""
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
        invalid = metered.get(RESULT, {}).get("invalid") or 0
        no_times: dict[str, str] = {}
        return cls(
            query=report["name"],
            run_id=report["runId"],
            batch_id=report["batchId"],
            began=datetime.fromisoformat(report["timestamp"]).astimezone(UTC),
            took=timedelta(milliseconds=report["durationMs"]["triggerExecution"]),
            records=report["numInputRows"] or sum(metrics.get("read") or 0 for metrics in observed.values()),
            written=written - invalid if written >= 0 else None,
            starts=starts,
            ends=ends,
            corrupt={
                name: Corrupt(count=metrics["corrupt"], first=metrics["first"], last=metrics["last"])
                for name, metrics in observed.items()
                if metrics.get("corrupt")
            },
            invalid=invalid,
            latency_ms=(max(age[0] for age in ages), max(age[1] for age in ages)) if ages else None,
            durations_ms=report["durationMs"],
            state_rows=sum(each["numRowsTotal"] for each in report.get("stateOperators", ())),
            state_bytes=sum(each["memoryUsedBytes"] for each in report.get("stateOperators", ())),
            watermark=report.get("eventTime", no_times).get("watermark"),
        )


class _Listener:
    """Calls `on_progress` for every executed batch, in Spark's event thread, and so must be quick.

    It implements the Java interface directly. PySpark's listener would first copy the report into Python objects, value
    by value, in hundreds of calls into Java instead of one.
    """

    class Java:
        """The Java interfaces, as py4j looks them up."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)

    def __init__(self, on_progress: Callable[[Progress], None]) -> None:
        self._on_progress = on_progress
        self._connections: dict[str, Any] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        """Keep the connection: Spark calls this in the query's Java thread, which ends with the query."""
        self._connections[event.runId().toString()] = current_connection()

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Pass the report on."""
        try:
            progress = Progress.read(json.loads(event.progress().json()))
            if progress is not None:
                self._on_progress(progress)
        except Exception:
            log.exception("a progress report could not be read")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Ignore it: no batch ran."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """End the Python thread that served the query's Java thread."""
        close_connection(self._connections.pop(event.runId().toString(), None))


def listen(spark: SparkSession, on_progress: Callable[[Progress], None]) -> None:
    """Report every executed batch of this session."""
    add_query_listener(spark, _Listener(on_progress))
