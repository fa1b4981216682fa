"""How fresh a pipeline's result is, from the JSON of Gearshift's commands. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from airflow_provider_gearshift.calendars import parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """Up to when the result is complete, and up to when it has to be."""

    until: datetime | None
    wanted: datetime
    why: str

    @property
    def is_enough(self) -> bool:
        """Whether the result is complete enough."""
        return self.until is not None and self.until >= self.wanted

    def __str__(self) -> str:
        so_far = f"complete up to {self.until.isoformat()}" if self.until else "no result yet"
        return f"{so_far} ({self.why}), wanted up to {self.wanted.isoformat()}"


def wanted_until(
    pipeline: Mapping[str, Any], timezone: str, now: datetime, max_age: timedelta | None
) -> datetime:
    """When a result has to be complete: at the end of the last closed interval, or at its maximum age.

    >>> month = {"calendar": "1 month", "intervals": {"grace_seconds": 0}, "freshness_seconds": 2592000.0}
    >>> wanted_until(month, "UTC", datetime(2026, 3, 31, 12, tzinfo=UTC), None).isoformat()
    '2026-03-01T00:00:00+00:00'
    """
    intervals = pipeline.get("intervals")
    if max_age is None and intervals:
        due = now - timedelta(seconds=intervals["grace_seconds"])
        return parse(pipeline["calendar"]).last_run(due, ZoneInfo(timezone))
    return now - (max_age if max_age is not None else timedelta(seconds=pipeline["freshness_seconds"]))


def complete_until(
    pipeline: Mapping[str, Any],
    ledgers: Sequence[Mapping[str, Any]],
    runner: Mapping[str, Any] | None,
    app: str,
    now: datetime,
) -> tuple[datetime | None, str]:
    """Up to when a pipeline has processed its input, and how that is known."""
    name = pipeline["name"]
    ledger = next((each for each in ledgers if (each["app"], each["pipeline"]) == (app, name)), None)
    if pipeline.get("intervals"):
        # A run before the interval's end saw only part of it.
        ends = [
            datetime.fromisoformat(each["end"])
            for each in (ledger or {}).get("intervals", ())
            if datetime.fromisoformat(each["began"]) >= datetime.fromisoformat(each["end"])
        ]
        # A failed interval without a result is a gap: the result is complete only up to there.
        known = {each["start"] for each in (ledger or {}).get("intervals", ())}
        gaps = [
            datetime.fromisoformat(each["start"])
            for each in (ledger or {}).get("failed_intervals", ())
            if each["start"] not in known
        ]
        if ends and gaps and min(gaps) < max(ends):
            return min(gaps), "a failed interval"
        return max(ends, default=None), "last interval"
    running = _running(runner, app, name)
    if running is not None and running["lag"] == 0:
        return now, "running, without lag"
    if running is not None and running["latency_p99_ms"] is not None:
        return now - timedelta(milliseconds=running["latency_p99_ms"]), "p99 latency"
    recent = (ledger or {}).get("recent") or ()
    last = datetime.fromtimestamp(recent[-1]["timestamp_ms"] / 1000, UTC) if recent else None
    return last, "last batch"


def _running(runner: Mapping[str, Any] | None, app: str, name: str) -> Mapping[str, Any] | None:
    if runner is None or runner["app"] != app:
        return None
    return next(
        (each for each in runner["pipelines"] if each["name"] == name and each["state"] == "running"), None
    )
