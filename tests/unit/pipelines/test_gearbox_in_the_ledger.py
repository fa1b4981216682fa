"""The ledger has what the gearbox decided and a person's shift, and the gearbox continues from it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from gearshift.freshness import Gear
from gearshift.gearbox.costs import AT_FIRST
from gearshift.gearbox.measurements import Hold, Limits
from gearshift.pipelines.ledger.decisions import KEPT, Decided
from gearshift.pipelines.ledger.ledger import Ledger
from gearshift.runner.gearbox.gearbox import recall
from gearshift.storage.folders import open_folder

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def opened(folder: Path) -> Ledger:
    return Ledger(open_folder(str(folder)), "app", "copy")


def decided(minutes_ago: float, reason: str = "promise", *, is_shift: bool = True) -> Decided:
    return Decided(
        at=NOW - timedelta(minutes=minutes_ago),
        gear=Gear.REAL_TIME,
        reason=reason,
        why="because",
        is_shift=is_shift,
        numbers={"batch_overhead": 1.5, "batch_capacity": 700.0, "late": 12.0},
    )


def test_a_hold_and_the_decisions_survive_a_restart(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.hold = Hold(gear=Gear.BATCH, until=NOW)
    ledger.decide(decided(5))
    again = opened(tmp_path)
    assert again.hold == Hold(gear=Gear.BATCH, until=NOW)
    assert again.decisions == [decided(5)]
    again.hold = Hold(gear=Gear.BATCH, until=None)
    again.save()
    assert opened(tmp_path).hold == Hold(gear=Gear.BATCH, until=None)


def test_a_run_has_the_numbers_that_it_was_decided_on(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    ledger.begin(Gear.REAL_TIME, Gear.REAL_TIME, "gearbox: because", NOW, numbers={"age": 4.5})
    assert opened(tmp_path).runs[0].numbers == {"age": 4.5}


def test_only_the_latest_decisions_are_kept(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    for number in range(KEPT + 5):
        ledger.decide(decided(number))
    assert len(opened(tmp_path).decisions) == KEPT


def test_the_gearbox_remembers_its_shifts_and_what_batches_took(tmp_path: Path) -> None:
    ledger = opened(tmp_path)
    for minutes, reason, is_shift in ((90, "promise", True), (30, "cheaper", True), (20, "timetable", True)):
        ledger.decide(decided(minutes, reason, is_shift=is_shift))
    ledger.decide(decided(1, "cheaper", is_shift=False))
    memory = recall(ledger, NOW, Limits())
    assert memory.shifts == (NOW - timedelta(minutes=30),)
    assert (memory.times.overhead, memory.times.capacity, memory.late) == (1.5, 700.0, 12.0)


def test_a_new_pipeline_begins_with_what_was_measured_for_gearshift(tmp_path: Path) -> None:
    assert recall(opened(tmp_path), NOW, Limits()).times == AT_FIRST
