"""What status shows of a real-time pipeline whose checkpoint is minutes away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame

import gearshift as gs
from gearshift.console.metrics import render
from gearshift.runner.runner import Runner
from gearshift.settings import Settings
from gearshift.topics import Producer
from tests.flow import Event, Flow
from tests.support import eventually


def test_the_numbers_of_real_time_are_live_between_checkpoints(
    unique: str, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    app = gs.App(unique)
    events = app.topic(f"{unique}-events", value=Event, key="key", partitions=3)
    copies = app.topic(f"{unique}-copies", value=Event, key="key", partitions=3)

    @app.pipeline(source=events, to=copies, gear="real-time")
    def copy(events: DataFrame) -> DataFrame:
        return events

    far = settings.model_copy(update={"checkpoint_interval": timedelta(minutes=10)})
    with Runner(app, far) as runner:
        supervisor = runner.supervisors["copy"]

        def shown() -> dict[str, Any]:
            (found,) = runner.status()["pipelines"]
            return found

        with Flow(runner.context.connection, events, rate=200) as flow:
            eventually(lambda: shown()["records"] > 300, within=60)
            first = shown()
            assert first["records"] <= flow.sent
            eventually(lambda: shown()["records"] > first["records"] + 300, within=60)
            assert shown()["latency_p50_ms"] is not None
            assert shown()["latency_p50_ms"] <= shown()["latency_p99_ms"]
            assert shown()["records_per_second"] > 0
        sent = flow.sent
        eventually(
            lambda: [shown()[name] for name in ("records", "written", "lag")] == [sent, sent, 0], within=60
        )
        assert f'gearshift_pipeline_records_total{{app="{unique}",pipeline="copy"}} {sent:.1f}' in render(
            runner.status()
        )
        with Producer(runner.context.connection) as producer:
            producer.send_bytes(events.name, b"garbage", key=b"x")
        warned = eventually(lambda: [m for m in caplog.messages if "cannot be decoded" in m], within=60)
        assert (
            len(warned) == 1
            and f"of {events.name} cannot be decoded; it goes to {events.name}.dlq" in warned[0]
        )
        runner.service_supervisor.problem = "broker kafka-1 has ended: its disk is full"
        assert (shown()["state"], shown()["error"]) == (
            "waiting for Kafka",
            runner.service_supervisor.problem,
        )
        runner.service_supervisor.problem = None
        assert supervisor.ledger.recent == []
        assert supervisor.condition.progress is None
