"""librdkafka's log as users see it."""

from __future__ import annotations

import logging

import pytest

from gearshift.topics.client import LOG

RETRIED = (
    "GETPID [gearshift#producer-3] [thrd:main]: Failed to acquire idempotence PID from broker 127.0.0.1:9092/1: "
    "Broker: Coordinator load in progress: retrying",
    "COMMIT [gearshift#consumer-1] [thrd:main]: Broker: Not coordinator: retrying",
    "FAIL [gearshift#producer-1] [thrd:x]: SASL authentication error: invalid credentials",  # an error of ours says it
)
TOLD = "PROTOERR [gearshift#producer-1] [thrd:x]: Protocol parse failure for Produce v7"


def test_retried_states_are_logged_as_debug(caplog: pytest.LogCaptureFixture) -> None:
    for line in (*RETRIED, TOLD):
        LOG.warning("%s", line)
    assert [record.getMessage() for record in caplog.records] == [TOLD]
    caplog.clear()
    with caplog.at_level(logging.DEBUG, LOG.name):
        for line in RETRIED:
            LOG.warning("%s", line)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("DEBUG", line) for line in RETRIED
    ]
