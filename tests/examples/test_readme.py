"""The README is the first test: its pipeline is checked, its delivery and the sources of the manual work."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import gearshift as gs
from gearshift.sources.simulator.source import sequence
from tests.documentation import README, ROOT, blocks, run_python

GEARSHIFT = str(Path(sys.executable).with_name("gearshift"))


def test_the_pipeline_of_the_readme_runs_in_every_gear(tmp_path: Path) -> None:
    file = tmp_path / "readme_app.py"
    file.write_text(blocks(README, "python")[0], encoding="utf-8")
    done = subprocess.run(
        [GEARSHIFT, "check", str(file)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"load_alerts\s+yes\s+yes\s+yes\s+real-time \(1 second\)", done.stdout)


def test_the_delivery_of_the_readme_is_one() -> None:
    names = run_python(README)
    record = gs.Record(names["Reading"]("12345678", 2.5, datetime.now(UTC)), None, "load-alerts", 0, 0, None)
    assert names["text_owner"](record) == gs.destinations.SmsMessage("+31612345678", "load is 2.5 kW")
    assert names["app"].graph.deliveries["text_owner"].once_by == ("meter_id", "read_at")


def test_the_sources_of_the_manual_are_sources() -> None:
    graph = run_python(ROOT / "docs" / "sources.md")["app"].graph
    assert (list(graph.file_sources), list(graph.http_sources), list(graph.sources)) == (
        ["readings-in"],
        ["http", "public"],
        ["meters"],
    )
    assert next(sequence(graph.sources["meters"])).meter_id.startswith("meter-")


def test_the_readme_fits_one_screen_and_a_half() -> None:
    assert len(README.read_bytes()) < 7_000
