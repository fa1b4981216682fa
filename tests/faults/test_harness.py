"""A whole app under every kind of fault, and the proof that the harness would notice a broken promise."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from gearshift.errors import GearshiftError
from tests.faults.harness.faults import FAULTS
from tests.faults.harness.judging import settle
from tests.faults.harness.running import run
from tests.faults.harness.world import World
from tests.support import eventually


@pytest.mark.timeout(1500)
def test_no_fault_loses_a_record_or_breaks_a_guarantee(tmp_path: Path) -> None:
    report = run(tmp_path, seed=12, seconds=0)
    print(report)
    assert report.kept, str(report)


def test_a_consumer_that_commits_before_it_delivers_is_caught(tmp_path: Path) -> None:
    hangs = next(fault for fault in FAULTS if fault.name == "sms: times out before the effect")
    with World(tmp_path, seed=1, mutant="commits-first") as world:
        with hangs.happen(world):
            eventually(lambda: _committed(world, "sms") - len(world.sms.accepted) > 50)  # what hangs there
            for pid in world.consumers():
                os.kill(pid, signal.SIGKILL)
        lost = {verdict.destination: verdict.lost for verdict in settle(world)}
    print(f"lost by a consumer that commits first: {lost}")
    assert lost["sms"] > 0


def _committed(world: World, group: str) -> int:
    """How many records a group has committed, as far as the brokers say."""
    with suppress(GearshiftError):
        return world.flow.sent.total() - world.behind()[group]
    return 0
