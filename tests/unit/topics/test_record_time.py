"""The time of a record, whatever a producer has set."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE

from gearshift.topics.reader import record_time


@pytest.mark.parametrize("kind", [TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME])
def test_a_time_is_that_of_the_producer_or_the_broker(kind: int) -> None:
    assert record_time(kind, 1_774_746_123_004) == datetime(2026, 3, 29, 1, 2, 3, 4000, tzinfo=UTC)


@pytest.mark.parametrize("millis", [2**62, 253_402_300_800_000, -(2**62)])
def test_a_time_that_no_calendar_has_is_none(millis: int) -> None:
    assert record_time(TIMESTAMP_CREATE_TIME, millis) is None


def test_a_record_may_have_no_time() -> None:
    assert record_time(TIMESTAMP_NOT_AVAILABLE, 0) is None
