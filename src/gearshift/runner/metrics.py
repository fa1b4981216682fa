"""A runner's status in Prometheus' text format, under the names that dashboards know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(status: Mapping[str, Any]) -> str:
    """The metrics of a status, as `/metrics` answers with.

    >>> print(render({"app": "meter", "sources": [{"name": "meters", "topic": "readings", "sent": 3}]}))
    # HELP gearshift_source_records_total Records that a source sent.
    # TYPE gearshift_source_records_total counter
    gearshift_source_records_total{app="meter",source="meters",topic="readings"} 3.0
    <BLANKLINE>
    """
    registry = CollectorRegistry()
    registry.register(_Status(status))
    return generate_latest(registry).decode("utf-8")


class _Status(Collector):
    """One status, told once: a number that the status does not have is left out, not told as zero."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self._status = status

    def collect(self) -> Iterable[Metric]:
        app = str(self._status.get("app", ""))
        pipelines: list[dict[str, Any]] = self._status.get("pipelines") or []
        deliveries: list[dict[str, Any]] = self._status.get("deliveries") or []
        sources: list[dict[str, Any]] = self._status.get("sources") or []
        captures: list[dict[str, Any]] = self._status.get("captures") or []
        for metric in (
            *_pipelines(app, pipelines),
            *_deliveries(deliveries),
            *_lag(app, pipelines, deliveries),
            *_sources(app, sources),
            *_captures(app, captures),
        ):
            if metric.samples:
                yield metric


def _pipelines(app: str, pipelines: list[dict[str, Any]]) -> Iterator[Metric]:
    for name, field, words in (
        ("records", "records", "Records that a pipeline read."),
        ("written", "written", "Records that a pipeline wrote."),
        ("dead_letters", "dead_letters", "Records that a pipeline set aside."),
        ("replayed", "replayed", "Records that a pipeline wrote again after a stop in mid-batch."),
        ("restarts", "restarts", "Times that a pipeline was started again after a failure."),
    ):
        metric = CounterMetricFamily(f"gearshift_pipeline_{name}", words, labels=["app", "pipeline"])
        for entry in pipelines:
            _add(metric, [app, entry.get("name")], entry.get(field))
        yield metric
    late = GaugeMetricFamily(
        "gearshift_pipeline_late_rows",
        "Rows that came after their interval was closed for good, and are in no result.",
        labels=["app", "pipeline"],
    )
    for entry in pipelines:
        _add(late, [app, entry.get("name")], entry.get("late_rows"))
    yield late
    # The gear is a label of its own metric: as one of the counters' it would start each anew with every shift.
    gear = GaugeMetricFamily(
        "gearshift_pipeline_gear", "1 for the gear that a pipeline is in.", labels=["app", "pipeline", "gear"]
    )
    for entry in pipelines:
        _add(gear, [app, entry.get("name"), entry.get("gear")], 1 if entry.get("gear") else None)
    yield gear
    latency = GaugeMetricFamily(
        "gearshift_pipeline_latency_seconds",
        "From a record's arrival to its result.",
        labels=["app", "pipeline", "quantile"],
    )
    for entry in pipelines:
        for quantile, field in (("0.5", "latency_p50_ms"), ("0.99", "latency_p99_ms")):
            value = entry.get(field)
            _add(latency, [app, entry.get("name"), quantile], None if value is None else value / 1000)
    yield latency


def _deliveries(deliveries: list[dict[str, Any]]) -> Iterator[Metric]:
    outcomes = CounterMetricFamily(
        "gearshift_delivery_records",
        "Records that a delivery is done with.",
        labels=["delivery", "group", "outcome"],
    )
    for entry in deliveries:
        for outcome, field in (
            ("delivered", "delivered"),
            ("duplicate", "duplicates"),
            ("dead_letter", "dead_letters"),
        ):
            _add(outcomes, [entry.get("name"), entry.get("group_id"), outcome], entry.get(field))
    yield outcomes
    retries = CounterMetricFamily(
        "gearshift_delivery_retries", "Times that a record was tried again.", labels=["delivery", "group"]
    )
    for entry in deliveries:
        _add(retries, [entry.get("name"), entry.get("group_id")], entry.get("retries"))
    yield retries
    for name, field, words in (
        ("in_flight_records", "in_flight", "Records taken off the topic and not yet done with."),
        ("in_flight_bytes", "in_flight_bytes", "Bytes taken off the topic and not yet done with."),
        ("consumers", "consumers", "Consumers that run."),
        ("wanted_consumers", "wanted", "Consumers that there should be, by lag and scale."),
        ("paused", "paused", "1 while the destination is slower than the topic and partitions wait for it."),
    ):
        metric = GaugeMetricFamily(f"gearshift_delivery_{name}", words, labels=["delivery", "group"])
        for entry in deliveries:
            _add(metric, [entry.get("name"), entry.get("group_id")], entry.get(field))
        yield metric


def _lag(app: str, pipelines: list[dict[str, Any]], deliveries: list[dict[str, Any]]) -> Iterator[Metric]:
    lag = GaugeMetricFamily(
        "kafka_consumergroup_lag",
        "Records between a group's committed offset and the end of the partition.",
        labels=["consumergroup", "topic", "partition"],
    )
    for entry in deliveries:
        by_partition: Mapping[Any, Any] = entry.get("lag") or {}
        for partition, behind in by_partition.items():
            _add(lag, [entry.get("group_id"), entry.get("topic"), str(partition)], behind)
    yield lag
    # Of a pipeline the status has the lag over all its topics; by partition Kafka's own exporters have it.
    total = GaugeMetricFamily(
        "gearshift_pipeline_lag_records", "Records that a pipeline is behind.", labels=["app", "pipeline"]
    )
    for entry in pipelines:
        _add(total, [app, entry.get("name")], entry.get("lag"))
    yield total


def _sources(app: str, sources: list[dict[str, Any]]) -> Iterator[Metric]:
    for name, field, words in (
        ("records", "sent", "Records that a source sent."),
        ("failed_records", "failed", "Records of a source that did not reach their topic."),
        ("files", "files", "Files that a source took."),
        ("requests", "requests", "Requests that a source answered."),
        ("refused", "refused", "Files or requests that a source refused."),
    ):
        metric = CounterMetricFamily(f"gearshift_source_{name}", words, labels=["app", "source", "topic"])
        for entry in sources:
            _add(metric, [app, entry.get("name"), entry.get("topic")], entry.get(field))
        yield metric


def _captures(app: str, captures: list[dict[str, Any]]) -> Iterator[Metric]:
    labels = ["app", "capture", "connector"]
    running = GaugeMetricFamily(
        "gearshift_capture_running", "1 while the connector and its tasks run.", labels=labels
    )
    restarts = CounterMetricFamily(
        "gearshift_capture_restarts",
        "Times that a failed connector or task was started again.",
        labels=labels,
    )
    for entry in captures:
        named = [app, entry.get("name"), entry.get("connector")]
        _add(running, named, entry.get("running"))
        _add(restarts, named, entry.get("restarts"))
    yield running
    yield restarts


def _add(metric: CounterMetricFamily | GaugeMetricFamily, labels: list[Any], value: float | None) -> None:
    if value is not None:
        metric.add_metric([str(label) for label in labels], value)
