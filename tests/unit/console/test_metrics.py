"""A status in Prometheus' format, read back by Prometheus' own parser."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from gearshift.console.metrics import render

STATUS: dict[str, Any] = {
    "app": "meter",
    "pipelines": [
        {
            "name": "load_alerts", "gear": "real-time", "records": 100, "written": 90, "dead_letters": 3,
            "replayed": 2, "restarts": 1, "lag": 7, "latency_p50_ms": 31, "latency_p99_ms": 60,
        }
    ],
    "sources": [{"name": "meters", "topic": "readings", "sent": 500, "failed": 0}],
    "deliveries": [
        {
            "name": "text_owner", "group_id": "sms", "topic": "alerts", "consumers": 2, "wanted": 3,
            "delivered": 40, "duplicates": 4, "dead_letters": 1, "retries": 6, "in_flight": 5,
            "in_flight_bytes": 1234, "lag": {0: 11, "1": 0}, "paused": True, "state": "running",
            "error": None, "advice": None,
        }
    ],
}  # fmt: skip


def samples(status: dict[str, Any]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(render(status))
        for sample in family.samples
    }


def told(name: str, **labels: str) -> float:
    return samples(STATUS)[name, tuple(sorted(labels.items()))]


def test_a_pipeline_is_counted_under_its_app_and_name() -> None:
    who = {"app": "meter", "pipeline": "load_alerts"}
    assert told("gearshift_pipeline_records_total", **who) == 100
    assert told("gearshift_pipeline_written_total", **who) == 90
    assert told("gearshift_pipeline_dead_letters_total", **who) == 3
    assert told("gearshift_pipeline_replayed_total", **who) == 2
    assert told("gearshift_pipeline_restarts_total", **who) == 1
    assert told("gearshift_pipeline_lag_records", **who) == 7
    assert told("gearshift_pipeline_gear", **who, gear="real-time") == 1
    assert told("gearshift_pipeline_latency_seconds", **who, quantile="0.99") == 0.06


def test_a_delivery_is_counted_by_outcome_and_its_lag_has_the_usual_name() -> None:
    who = {"delivery": "text_owner", "group": "sms"}
    outcomes = {"delivered": 40, "duplicate": 4, "dead_letter": 1}
    for outcome, count in outcomes.items():
        assert told("gearshift_delivery_records_total", **who, outcome=outcome) == count
    assert told("gearshift_delivery_retries_total", **who) == 6
    assert told("gearshift_delivery_in_flight_records", **who) == 5
    assert told("gearshift_delivery_in_flight_bytes", **who) == 1234
    assert told("gearshift_delivery_consumers", **who) == 2
    assert told("gearshift_delivery_wanted_consumers", **who) == 3
    assert told("gearshift_delivery_paused", **who) == 1
    for partition, lag in (("0", 11), ("1", 0)):
        labels = {"consumergroup": "sms", "topic": "alerts", "partition": partition}
        assert told("kafka_consumergroup_lag", **labels) == lag


def test_a_source_is_counted() -> None:
    assert told("gearshift_source_records_total", app="meter", source="meters", topic="readings") == 500


def test_unknown_values_are_omitted() -> None:
    assert samples({"app": "meter", "pipelines": [{"name": "p", "lag": None}], "deliveries": []}) == {}
    assert render({}) == ""


def test_external_names_cannot_break_the_format() -> None:
    odd = 'a"b\\c\nd'
    found = samples({"app": odd, "sources": [{"name": odd, "topic": odd, "sent": 1}]})
    labels = (("app", odd), ("source", odd), ("topic", odd))
    assert found == {("gearshift_source_records_total", labels): 1.0}


def test_a_change_capture_is_labelled_with_its_connector() -> None:
    entry = {"name": "orders-db", "connector": "food.orders-db", "running": True, "restarts": 2}
    text = render({"app": "food", "captures": [entry]})
    labels = '{app="food",capture="orders-db",connector="food.orders-db"}'
    assert f"gearshift_capture_running{labels} 1.0" in text
    assert f"gearshift_capture_restarts_total{labels} 2.0" in text
