"""A whole app under every kind of fault, and the proof that the harness would notice a broken promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.harness.faults import FAULTS
from tests.faults.harness.guarantees import table
from tests.faults.harness.judging import settle
from tests.faults.harness.running import run
from tests.faults.harness.world import World
from tests.support import eventually

_README = Path(__file__).parents[2] / "README.md"


@pytest.mark.timeout(1500)
def test_no_fault_loses_a_record_or_breaks_a_guarantee(tmp_path: Path) -> None:
    report = run(tmp_path, seed=12, seconds=0)
    print(report)
    assert report.kept, str(report)


def test_a_consumer_that_commits_before_it_delivers_is_caught(tmp_path: Path) -> None:
    hangs, killed = (
        next(fault for fault in FAULTS if fault.name == name)
        for name in ("sms: times out before the effect", "the app is killed")
    )
    with World(tmp_path, seed=1, mutant="commits-first") as world:
        with hangs.happen(world):
            eventually(lambda: world.flow.sent.total() - len(world.sms.accepted) > 100)
            with killed.happen(world):
                pass
        lost = {verdict.destination: verdict.lost for verdict in settle(world)}
    print(f"lost by a consumer that commits first: {lost}")
    assert lost["sms"] > 0


def test_the_readme_promises_what_the_harness_checks() -> None:
    assert table() in _README.read_text(encoding="utf-8")
