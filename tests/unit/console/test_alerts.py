"""Alerts: what is wrong in a running app, and since when."""

from __future__ import annotations

from typing import Any

import pytest

from gearshift.console.alerts import Alerts


def pipeline(**given: Any) -> dict[str, Any]:
    """A pipeline that does well."""
    return {
        "name": "load_alerts",
        "gear": "real-time",
        "freshness": "1 second",
        "freshness_seconds": 1.0,
        "state": "running",
        "error": None,
        "warning": None,
        "records_per_second": 100.0,
        "lag": 3,
        "latency_p99_ms": 40.0,
        "dead_letters": 0,
        "dead_letters_lost": 0,
        "gap": 0,
        **given,
    }


def delivery(**given: Any) -> dict[str, Any]:
    return {
        "name": "text_owner",
        "group_id": "sms/sender",
        "topic": "load-alerts",
        "state": "running",
        "error": None,
        "paused": False,
        "retrying": None,
        "advice": None,
        "dead_letters": 0,
        **given,
    }


class Watched:
    """The alerts of one app as the pages get them."""

    def __init__(self) -> None:
        self._alerts = Alerts()

    def of(self, status: dict[str, Any]) -> list[dict[str, Any]]:
        return [alert.as_json() for alert in self._alerts.of(status)]


def of(**status: Any) -> list[dict[str, Any]]:
    return Watched().of(status)


def test_an_app_that_does_well_has_none() -> None:
    capture = {"name": "orders", "running": True, "state": "running", "error": None, "tasks": []}
    source = {"name": "meters", "topic": "readings", "error": None}
    assert of(pipelines=[pipeline()], deliveries=[delivery()], captures=[capture], sources=[source]) == []
    assert of(app=None) == []


@pytest.mark.parametrize("state", ["waiting", "starting", "waiting for table bills"])
def test_what_waits_as_it_should_is_no_trouble(state: str) -> None:
    assert of(pipelines=[pipeline(state=state)]) == []


def test_a_failure_is_told_with_its_cause_and_the_way_out() -> None:
    error = "a column is missing (pipeline load_alerts, meters.py:12); add it"
    (alert,) = of(pipelines=[pipeline(state="failed", error=error)])
    assert alert["level"] == "error"
    assert alert["what"] == "load_alerts: a column is missing (pipeline load_alerts, meters.py:12)"
    assert (alert["hint"], alert["link"]) == ("add it", "/pipelines/load_alerts")


def test_kafka_that_is_gone_is_told_at_each_pipeline() -> None:
    (alert,) = of(
        pipelines=[pipeline(state="waiting for Kafka", error="broker kafka-1 has ended: its disk is full")]
    )
    assert "its disk is full" in alert["what"]


def test_a_broken_promise_is_told_once_it_lasts() -> None:
    alerts, late = Watched(), {"pipelines": [pipeline(latency_p99_ms=2500.0)]}
    assert alerts.of(late) == []
    assert alerts.of(late) == []
    (alert,) = alerts.of(late)
    assert alert["what"] == "load_alerts promises 1 second, and its slowest records take 2.5 s"
    since = alert["since"]
    assert alerts.of(late)[0]["since"] == since, "it is the same one"
    assert alerts.of({"pipelines": [pipeline()]}) == []
    assert alerts.of(late) == [], "it has to last again"


def test_a_lag_counts_by_how_long_it_takes_to_arrive() -> None:
    assert of(pipelines=[pipeline(lag=900)]) == []
    (alert,) = of(pipelines=[pipeline(lag=2000)])
    assert alert["what"] == "load_alerts is 2,000 records behind, 20 s of what arrives"
    assert of(pipelines=[pipeline(lag=2000, gear="batch")]) == [], "a batch waits for its calendar"
    assert of(pipelines=[pipeline(lag=2000, freshness_seconds=60.0)]) == [], "it is promised for later"
    assert of(pipelines=[pipeline(lag=2000, records_per_second=None)]) == []


def test_dead_letters_lead_to_their_page() -> None:
    first, second = of(
        pipelines=[pipeline(dead_letters=5, dead_letters_lost=1)], deliveries=[delivery(dead_letters=2)]
    )
    assert (first["what"], first["link"]) == (
        "load_alerts set 5 records aside, 1 of them lost",
        "/dead-letters",
    )
    assert (second["what"], second["link"]) == ("text_owner set 2 records aside", "/dead-letters/load-alerts")


def test_a_slow_destination_is_told_with_what_helps() -> None:
    (alert,) = of(deliveries=[delivery(paused=True)])
    assert alert["what"] == "text_owner is paused: its destination is slower than topic load-alerts"
    assert "parallelism=" in alert["hint"]
    assert alert["link"] == "/groups/sms%2Fsender"


def test_a_destination_that_fails_is_told_by_its_failure_and_not_by_what_follows_from_it() -> None:
    failure = "no answer from http://127.0.0.1:8025; check that it runs"
    (alert,) = of(deliveries=[delivery(retrying=failure, paused=True, advice="raise consumers=")])
    assert alert["what"] == "text_owner retries: no answer from http://127.0.0.1:8025"
    assert alert["hint"] == "check that it runs"


def test_errors_come_first() -> None:
    found = of(
        pipelines=[pipeline(dead_letters=1), pipeline(name="b", gap=7)],
        captures=[
            {
                "name": "orders",
                "running": False,
                "state": "failed",
                "error": None,
                "tasks": [{"cause": "no slot; make one"}],
            }
        ],
        sources=[{"name": "drop", "topic": "a, b", "error": "no folder"}],
    )
    assert [alert["level"] for alert in found] == ["error", "error", "error", "warning"]
    assert {alert["link"] for alert in found} == {"/pipelines/b", "/connectors", "/topics/a", "/dead-letters"}
    assert "change capture orders: no slot" in {alert["what"] for alert in found}
