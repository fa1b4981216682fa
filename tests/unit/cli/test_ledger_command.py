"""`gearshift ledger` reports damaged files and shows the other ledgers, without Spark."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gearshift.pipelines.ledger.ledger import Ledger
from gearshift.storage.folders import LocalFolder
from gearshift.storage.lease import take
from tests.command import GEARSHIFT


@pytest.mark.parametrize(
    ("file", "text"),
    [("ledger.json", ""), ("ledger.json", '{"app": "shop", "gap'), ("intervals/2026-01.json", "[]")],
)
def test_a_damaged_ledger_is_a_sentence_and_the_others_are_shown(
    tmp_path: Path, file: str, text: str
) -> None:
    shop = tmp_path / ".gearshift" / "checkpoints" / "shop"
    for name in ("bills", "orders"):
        Ledger(LocalFolder(shop / name), "shop", name).save()
    damaged = shop / "bills" / file
    damaged.parent.mkdir(exist_ok=True)
    damaged.write_text(text)
    done = subprocess.run(
        [GEARSHIFT, "ledger"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    output = " ".join(done.stderr.split())
    assert "is damaged" in output
    assert f"bills/{file}" in output.replace(" ", "")
    if file == "ledger.json":
        assert "shop.orders" in done.stdout


def test_a_damaged_ledger_can_be_put_aside_and_not_while_a_runner_has_the_checkpoint(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path / ".gearshift" / "checkpoints" / "shop" / "bills")
    folder.write("ledger.json", "")

    def reset() -> subprocess.CompletedProcess[str]:
        command = [GEARSHIFT, "reset", "bills", "--yes"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    lease = take(LocalFolder(tmp_path / ".gearshift" / "checkpoints" / "shop"), home=tmp_path)
    assert "another runner has the checkpoint" in " ".join(reset().stderr.split())
    assert folder.read("ledger.json") == ""
    lease.release()
    assert reset().returncode == 0
    assert folder.read("ledger.json") is None
