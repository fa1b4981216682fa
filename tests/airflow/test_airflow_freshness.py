"""The sensor's decision: whether a result is as fresh as declared, from Gearshift's JSON."""

from __future__ import annotations

import doctest
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_provider_gearshift import calendars, freshness
from airflow_provider_gearshift.freshness import complete_until, wanted_until

NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)
STREAM: dict[str, Any] = {"name": "alerts", "intervals": None, "calendar": None, "freshness_seconds": 60.0}
DAILY: dict[str, Any] = {
    "name": "per_day",
    "intervals": {"event_time": {"sales": "at"}, "grace_seconds": 3600.0, "allowed_lateness_seconds": None},
    "calendar": "1 day",
    "freshness_seconds": 86400.0,
}


def runner(**more: Any) -> dict[str, Any]:
    pipeline = {"name": "alerts", "state": "running", "lag": 0, "latency_p99_ms": None, **more}
    return {"app": "shop", "pipelines": [pipeline]}


def test_the_examples_in_the_docstrings_hold() -> None:
    for module in (calendars, freshness):
        found = doctest.testmod(module)
        assert (found.attempted > 0, found.failed) == (True, 0)


def test_an_interval_is_wanted_once_it_and_its_grace_are_over() -> None:
    at_half_past = datetime(2026, 3, 31, 0, 30, tzinfo=UTC)
    assert wanted_until(DAILY, "UTC", at_half_past, None) == datetime(2026, 3, 30, tzinfo=UTC)
    assert wanted_until(DAILY, "UTC", NOW, None) == datetime(2026, 3, 31, tzinfo=UTC)
    assert wanted_until(DAILY, "UTC", NOW, timedelta(days=2)) == NOW - timedelta(days=2)


def test_an_interval_that_was_run_before_its_end_is_not_complete() -> None:
    def ledger(began: str) -> dict[str, Any]:
        entry = {"start": "2026-03-30T00:00:00+02:00", "end": "2026-03-31T00:00:00+02:00", "began": began}
        return {"app": "shop", "pipeline": "per_day", "intervals": [entry]}

    def until(began: str) -> datetime | None:
        return complete_until(DAILY, [ledger(began)], None, "shop", NOW)[0]

    assert until("2026-03-30T21:00:00+00:00") is None
    assert until("2026-03-30T22:00:01+00:00") == datetime(2026, 3, 30, 22, tzinfo=UTC)
    assert complete_until(DAILY, [], None, "shop", NOW)[0] is None


def test_a_result_is_complete_up_to_an_interval_that_failed() -> None:
    def interval(day: int) -> dict[str, str]:
        start, end = (datetime(2026, 3, each, tzinfo=UTC).isoformat() for each in (day, day + 1))
        return {"start": start, "end": end, "began": "2026-03-31T00:00:00+00:00"}

    ledger = {"app": "shop", "pipeline": "per_day", "intervals": [interval(27), interval(29), interval(30)]}
    failed = {**ledger, "failed_intervals": [interval(28)]}
    assert complete_until(DAILY, [failed], None, "shop", NOW)[0] == datetime(2026, 3, 28, tzinfo=UTC)
    # One whose second run failed has the result of the first.
    again = {**ledger, "failed_intervals": [interval(29)]}
    assert complete_until(DAILY, [again], None, "shop", NOW)[0] == datetime(2026, 3, 31, tzinfo=UTC)


def test_a_stream_is_complete_when_nothing_is_left_or_its_latency_is_known() -> None:
    assert complete_until(STREAM, [], runner(), "shop", NOW)[0] == NOW
    behind = runner(lag=7, latency_p99_ms=250.0)
    assert complete_until(STREAM, [], behind, "shop", NOW)[0] == NOW - timedelta(milliseconds=250)


@pytest.mark.parametrize("running", [None, runner(state="failed"), {**runner(), "app": "another"}])
def test_a_stream_that_stands_still_is_as_old_as_its_last_batch(running: dict[str, Any] | None) -> None:
    last = datetime(2026, 3, 31, 11, tzinfo=UTC)
    recent = [{"timestamp_ms": int(last.timestamp() * 1000)}]
    ledgers = [{"app": "shop", "pipeline": "alerts", "recent": recent, "intervals": []}]
    assert complete_until(STREAM, ledgers, running, "shop", NOW) == (last, "last batch")
    assert complete_until(STREAM, [], running, "shop", NOW)[0] is None
