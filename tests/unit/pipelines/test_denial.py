"""What Kafka's Java client raises inside Spark, as our errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import gearshift as gs
from gearshift.connection import Connection
from gearshift.definitions import Pipeline
from gearshift.errors import LoginError
from gearshift.pipelines.denial import explain_denial

CONNECTION = Connection(
    bootstrap_servers="kafka:9092", registry_url="http://registry", kafka={"sasl.username": "meters"}
)
JAVA = "org.apache.kafka.common.errors."


@dataclass
class Reading:
    """A value."""

    meter_id: str


@pytest.fixture
def pipeline() -> Pipeline:
    app = gs.App("meter")
    readings = app.topic("readings", value=Reading)
    alerts = app.topic("alerts", value=Reading)

    @app.pipeline(readings, to=alerts, freshness="1 second")
    def alert(readings: Any) -> Any:
        return readings

    return app.graph.pipelines["alert"]


@pytest.mark.parametrize(
    ("raised", "rule"),
    [
        ("TopicAuthorizationException: Not authorized to access topics: [readings]", "Read --topic readings"),
        ("TopicAuthorizationException: Not authorized to access topics: [alerts]", "Write --topic alerts"),
        ("TopicAuthorizationException: Topic authorization failed.", "Read --topic readings"),
        ("GroupAuthorizationException: Not authorized to access group: g-1", "Read --group g-1"),
        ("ClusterAuthorizationException: Cluster authorization failed.", "Write --topic alerts"),
    ],
)
def test_a_missing_rule_is_named(pipeline: Pipeline, raised: str, rule: str) -> None:
    text = f"Job aborted: task failed\nCaused by: {JAVA}{raised}\n\tat java.base"
    error = explain_denial(text, pipeline, CONNECTION)
    assert f"--allow-principal User:meters --operation {rule}" in str(error)


def test_a_rejected_login_is_final(pipeline: Pipeline) -> None:
    text = (
        f"Caused by: {JAVA}SaslAuthenticationException: Authentication failed during authentication\n\tat x"
    )
    error = explain_denial(text, pipeline, CONNECTION)
    assert isinstance(error, LoginError)
    assert "Authentication failed during authentication" in str(error)


def test_another_failure_is_left_to_others(pipeline: Pipeline) -> None:
    assert explain_denial("java.lang.ArithmeticException: / by zero", pipeline, CONNECTION) is None
