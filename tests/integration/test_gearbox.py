"""The gearbox on real Kafka and Spark: it shifts by itself, a person overrules it, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gearshift.connection import Connection
from gearshift.console.client import ask
from gearshift.pipelines.ledger.ledger import Ledger
from gearshift.pipelines.ledger.listing import find_ledgers
from gearshift.settings import Settings
from gearshift.topics import Producer
from tests.faults.processes import RunnerProcess, write_settings
from tests.flow import Event, highest_counts, seen_twice, values
from tests.integration.gearbox_process import SLOW, Declared, declare
from tests.support import eventually

NEAR, REAL = "near-real-time", "real-time"
BACKLOG = 30_000


class _Running:
    """The app in its process, as its console and its ledgers show it."""

    def __init__(self, settings: Settings, declared: Declared, connection: Connection) -> None:
        self.settings, self.declared, self.connection = settings, declared, connection
        self.sent = 0

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        return list(ask(self.settings.home, method, f"/api/pipelines/{path}", body))

    def why(self, pipeline: str) -> dict[str, Any]:
        return self.ask("GET", f"{pipeline}/why")[0]

    def ledger(self, pipeline: str) -> Ledger:
        return next(each for each in find_ledgers(self.settings.checkpoints_uri) if each.pipeline == pipeline)

    def reasons(self, pipeline: str) -> list[tuple[str, str]]:
        """The gear and the reason of each shift that the gearbox decided."""
        return [(str(each.gear), each.reason) for each in self.ledger(pipeline).decisions if each.is_shift]

    def await_gear(self, pipeline: str, gear: str) -> None:
        def is_there() -> bool:
            last = self.ledger(pipeline).last
            return last is not None and str(last.gear) == gear and last.verified

        eventually(is_there, every=0.5)

    def send(self, count: int, key: str | None = None) -> None:
        with Producer(self.connection) as producer:
            for number in range(self.sent, self.sent + count):
                producer.send(self.declared.events, Event(key=key or f"k{number % 50}", n=number))
        self.sent += count


def test_the_gearbox_shifts_a_live_pipeline_by_what_it_measures(
    unique: str, settings: Settings, connection: Connection, tmp_path: Path
) -> None:
    write_settings(settings, tmp_path)
    live = _Running(settings, declare(unique), connection)
    command = (settings, tmp_path, "tests.integration.gearbox_process", unique)

    with RunnerProcess.of_module(*command) as process:
        assert process.gears()["count"] == REAL
        live.await_gear("copy", NEAR)  # silence: a micro-batch would keep the first record fresh
        assert live.why("copy")["reason"] == "cheaper"

        while live.reasons("copy")[-1] != (REAL, "late"):  # a burst that takes batches longer than promised
            live.send(150, key=SLOW)
            shifts = len(live.reasons("copy"))
            eventually(lambda shifts=shifts: len(live.reasons("copy")) > shifts or _is_idle(live))
        live.await_gear("copy", REAL)
        late = live.ledger("copy").runs[-1]
        assert late.why.startswith("gearbox: the oldest record is ")
        assert late.numbers["age"] > 0.95 * late.numbers["freshness"]

        live.await_gear("copy", NEAR)  # silence again

        done = live.ask("POST", "copy/shift", {"gear": REAL, "hold": "1 hour"})
        assert done[-1]["shifted"]["after"] == REAL
        assert live.why("copy")["reason"] == "held"
        live.send(500)
        process.kill()  # while records are in flight

    live.send(BACKLOG)
    with RunnerProcess.of_module(*command) as process:
        assert process.gears()["copy"] == REAL
        assert live.why("copy")["why"].startswith("a person chose it until ")
        # The count begins in the gear that emits one update per key, and returns when the backlog is drained.
        eventually(lambda: live.reasons("count")[-2:] == [(NEAR, "backlog"), (REAL, "promise")])
        live.await_gear("count", REAL)
        assert "promise is 1 s" in live.ledger("count").runs[-1].why
        assert live.why("copy")["reason"] == "held"  # although micro-batches would be cheaper
        assert str(live.ledger("copy").runs[-1].gear) == REAL

        assert live.ask("POST", "copy/shift", {"gear": "auto"})[-1]["released"]["pipeline"] == "copy"
        live.await_gear("copy", NEAR)
        eventually(lambda: _copied(live) == live.sent)
        process.stop()

    copied = values(connection, live.declared.copies)
    assert {event.n for event in copied} == set(range(live.sent))
    assert sum(highest_counts(values(connection, live.declared.counts)).values()) == live.sent
    ledger = live.ledger("copy")
    assert ledger.gap == live.ledger("count").gap == 0
    assert ledger.replayed == seen_twice(copied)
    for run in ledger.runs:
        assert bool(run.numbers) == run.why.startswith("gearbox: ")


def _copied(live: _Running) -> int:
    return sum(run.records for run in live.ledger("copy").runs)


def _is_idle(live: _Running) -> bool:
    return _copied(live) == live.sent
