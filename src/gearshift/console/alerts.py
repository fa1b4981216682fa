"""What is wrong in a running app: the cause, what to do next, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from gearshift.alert import Alert, Level

Status = dict[str, Any]

_BEHIND_SECONDS = 10
_WORKING = ("running", "waiting", "starting")
_OVER_PROMISE = 3
"""Snapshots in a row: one slow second is no broken promise."""
_REPLAY = "see the reasons; fix the cause, then replay them"


@dataclass(frozen=True, slots=True)
class _Subject:
    """What an alert is about, and the page that shows it."""

    name: str
    link: str
    now: datetime

    def alert(self, kind: str, level: Level, what: str, hint: str | None, link: str | None = None) -> Alert:
        """An alert about it."""
        return Alert(
            id=f"{self.name} {kind}",
            level=level,
            kind=kind,
            what=what,
            hint=hint,
            link=link or self.link,
            since=self.now,
        )

    def failure(self, kind: str, level: Level, error: str, before: str) -> Alert:
        """An alert from an error in one line: what happened, then the hint."""
        what, _, hint = error.partition("; ")
        return self.alert(kind, level, f"{before}: {what}", hint or None)


class Alerts:
    """The alerts of one app: which there are, and since when."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}
        self._over: dict[str, int] = {}

    def of(self, status: Status) -> list[Alert]:
        """The alerts of a status, errors first."""
        now = datetime.now(UTC)
        found = [
            *self._of_pipelines(status.get("pipelines", ()), now),
            *_of_deliveries(status.get("deliveries", ()), now),
            *_of_captures(status.get("captures", ()), now),
            *_of_sources(status.get("sources", ()), now),
        ]
        self._since = {alert.id: self._since.get(alert.id, now) for alert in found}
        dated = [replace(alert, since=self._since[alert.id]) for alert in found]
        return sorted(dated, key=lambda alert: alert.level)

    def _of_pipelines(self, pipelines: Iterable[Status], now: datetime) -> Iterator[Alert]:
        for each in pipelines:
            name = str(each["name"])
            subject = _Subject(f"pipeline {name}", f"/pipelines/{_part(name)}", now)
            if each["state"] not in _WORKING and not each["state"].startswith("waiting for table"):
                error = each["error"] or f"it is {each['state']}"
                yield subject.failure("failed", "error", error, name)
            if each["warning"]:
                yield subject.failure("warning", "warning", each["warning"], name)
            if self._breaks_promise(each):
                seconds = each["latency_p99_ms"] / 1000
                yield subject.alert(
                    "freshness",
                    "warning",
                    f"{name} promises {each['freshness']}, and its slowest records take {seconds:,.1f} s",
                    f"see what takes the time, or shift it: it runs in {each['gear']}",
                )
            behind = _seconds_behind(each["lag"], each["records_per_second"])
            if each["gear"] != "batch" and behind > max(_BEHIND_SECONDS, each["freshness_seconds"]):
                yield subject.alert(
                    "lag",
                    "warning",
                    f"{name} is {each['lag']:,} records behind, {behind:,.0f} s of what arrives",
                    "check the skew of its topics, or give it more partitions",
                )
            if each["dead_letters"] or each["dead_letters_lost"]:
                lost = f", {each['dead_letters_lost']:,} of them lost" if each["dead_letters_lost"] else ""
                what = f"{name} set {each['dead_letters']:,} records aside{lost}"
                yield subject.alert("dead letters", "warning", what, _REPLAY, "/dead-letters")
            if each["gap"]:
                yield subject.alert(
                    "gap", "error", f"{name} skipped {each['gap']:,} offsets", "see its ledger"
                )

    def _breaks_promise(self, status: Status) -> bool:
        p99 = status["latency_p99_ms"]
        over = p99 is not None and status["gear"] != "batch" and p99 / 1000 > status["freshness_seconds"]
        self._over[status["name"]] = self._over.get(status["name"], 0) + 1 if over else 0
        return self._over[status["name"]] >= _OVER_PROMISE


def _of_deliveries(deliveries: Iterable[Status], now: datetime) -> Iterator[Alert]:
    for each in deliveries:
        name = str(each["name"])
        subject = _Subject(f"delivery {name}", f"/groups/{_part(each['group_id'])}", now)
        if each["error"]:
            level: Level = "error" if each["state"] == "failed" else "warning"
            yield subject.failure("failed", level, each["error"], name)
        if each["retrying"]:
            # Pauses and lag follow from it.
            yield subject.failure("retrying", "warning", each["retrying"], f"{name} retries")
        elif each["paused"]:
            yield subject.alert(
                "slow destination",
                "warning",
                f"{name} is paused: its destination is slower than topic {each['topic']}",
                each["advice"] or "give it more parallelism= or consumers=, or a faster destination",
            )
        elif each["advice"]:
            yield subject.alert("lag", "warning", f"{name}: {each['advice']}", None)
        if each["dead_letters"]:
            what = f"{name} set {each['dead_letters']:,} records aside"
            link = f"/dead-letters/{_part(each['topic'])}"
            yield subject.alert("dead letters", "warning", what, _REPLAY, link)


def _of_captures(captures: Iterable[Status], now: datetime) -> Iterator[Alert]:
    for each in captures:
        if each["running"] or (each["state"] == "starting" and not each["error"]):
            continue
        name = f"change capture {each['name']}"
        subject = _Subject(name, "/connectors", now)
        if each["state"] == "paused":
            yield subject.alert("connector", "warning", f"{name} is paused", "resume it")
            continue
        cause = each["error"] or next((task["cause"] for task in each["tasks"] if task["cause"]), None)
        yield subject.failure("connector", "error", cause or f"its connector is {each['state']}", name)


def _of_sources(sources: Iterable[Status], now: datetime) -> Iterator[Alert]:
    for each in sources:
        if each["error"]:
            name = f"source {each['name']}"
            topic = str(each["topic"]).split(", ")[0]
            subject = _Subject(name, f"/topics/{_part(topic)}", now)
            yield subject.failure("source", "error", str(each["error"]), name)


def _part(name: str) -> str:
    """A name as one part of a path."""
    return quote(str(name), safe="")


def _seconds_behind(lag: int | None, per_second: float | None) -> float:
    """How many seconds of what arrives a lag is; 0 if nobody knows.

    >>> _seconds_behind(500, 50.0), _seconds_behind(500, None)
    (10.0, 0.0)
    """
    return lag / per_second if lag and per_second else 0.0
