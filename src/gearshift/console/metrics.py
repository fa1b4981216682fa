"""Renders a runner's status in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(status: Mapping[str, Any]) -> str:
    """The metrics of a status, as served at `/metrics`.

    >>> print(render({"app": "meter", "sources": [{"name": "meters", "topic": "readings", "sent": 3}]}))
    # HELP gearshift_source_records_total Records sent by a source.
    # TYPE gearshift_source_records_total counter
    gearshift_source_records_total{app="meter",source="meters",topic="readings"} 3.0
    <BLANKLINE>
    """
    registry = CollectorRegistry()
    registry.register(_Status(status))
    return generate_latest(registry).decode("utf-8")


class _Status(Collector):
    """Collects one status; a missing number is omitted, not reported as zero."""

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
    for name, field, help_text in (
        ("records", "records", "Records read by a pipeline."),
        ("written", "written", "Records written by a pipeline."),
        ("dead_letters", "dead_letters", "Records that a pipeline wrote to its dead letters."),
        (
            "dead_letters_lost",
            "dead_letters_lost",
            "Corrupt records that were deleted before they were written to the dead letters.",
        ),
        (
            "replayed",
            "replayed",
            "Records that a pipeline wrote again after a stop in the middle of a batch.",
        ),
        ("restarts", "restarts", "Restarts of a pipeline after a failure."),
    ):
        metric = CounterMetricFamily(f"gearshift_pipeline_{name}", help_text, labels=["app", "pipeline"])
        for entry in pipelines:
            _add(metric, [app, entry.get("name")], entry.get(field))
        yield metric
    late = GaugeMetricFamily(
        "gearshift_pipeline_late_rows",
        "Rows that arrived after their interval was closed, and are in no result.",
        labels=["app", "pipeline"],
    )
    for entry in pipelines:
        _add(late, [app, entry.get("name")], entry.get("late_rows"))
    yield late
    # The gear has its own metric: as a label of the counters it would reset them with every shift.
    gear = GaugeMetricFamily(
        "gearshift_pipeline_gear", "1 for the current gear of a pipeline.", labels=["app", "pipeline", "gear"]
    )
    for entry in pipelines:
        _add(gear, [app, entry.get("name"), entry.get("gear")], 1 if entry.get("gear") else None)
    yield gear
    latency = GaugeMetricFamily(
        "gearshift_pipeline_latency_seconds",
        "Time from a record's arrival to its result.",
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
        "Records that a delivery has finished, by outcome.",
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
        "gearshift_delivery_retries", "Retries of records.", labels=["delivery", "group"]
    )
    for entry in deliveries:
        _add(retries, [entry.get("name"), entry.get("group_id")], entry.get("retries"))
    yield retries
    for name, field, help_text in (
        ("in_flight_records", "in_flight", "Records polled and not yet finished."),
        ("in_flight_bytes", "in_flight_bytes", "Bytes polled and not yet finished."),
        ("consumers", "consumers", "Running consumers."),
        ("wanted_consumers", "wanted", "Desired consumers, by lag and scale."),
        (
            "paused",
            "paused",
            "1 while partitions are paused because the destination is slower than the topic.",
        ),
    ):
        metric = GaugeMetricFamily(f"gearshift_delivery_{name}", help_text, labels=["delivery", "group"])
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
    # The status has a pipeline's total lag over all its topics; Kafka's exporters report it by partition.
    total = GaugeMetricFamily(
        "gearshift_pipeline_lag_records", "Lag of a pipeline in records.", labels=["app", "pipeline"]
    )
    for entry in pipelines:
        _add(total, [app, entry.get("name")], entry.get("lag"))
    yield total


def _sources(app: str, sources: list[dict[str, Any]]) -> Iterator[Metric]:
    for name, field, help_text in (
        ("records", "sent", "Records sent by a source."),
        ("failed_records", "failed", "Records that a source failed to send."),
        ("files", "files", "Files ingested by a source."),
        ("requests", "requests", "Requests answered by a source."),
        ("refused", "refused", "Files or requests rejected by a source."),
    ):
        metric = CounterMetricFamily(f"gearshift_source_{name}", help_text, labels=["app", "source", "topic"])
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
        "Restarts of a failed connector or task.",
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
