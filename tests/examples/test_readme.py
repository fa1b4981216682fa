"""The README is the first test: its pipeline is checked, its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gearshift as gs
from gearshift.settings import load
from gearshift.sources.simulator import sequence

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GEARSHIFT = str(Path(sys.executable).with_name("gearshift"))


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_pipeline_of_the_readme_runs_in_every_gear(tmp_path: Path) -> None:
    file = tmp_path / "readme_app.py"
    file.write_text(blocks("python")[0], encoding="utf-8")
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


def test_the_settings_of_the_readme_are_settings(tmp_path: Path) -> None:
    [text] = blocks("toml")
    (tmp_path / "gearshift.toml").write_text(text, encoding="utf-8")
    settings = load({"profile": "staging"}, folder=tmp_path, environ={})
    assert settings.bootstrap_servers == "staging:9092"
    assert settings.registry_url == tomllib.loads(text)["registry_url"]


def test_every_verb_of_the_readme_exists() -> None:
    verbs = set(
        re.findall(r"`?gearshift (run|check|shift|status|ledger|up|down|doctor|group|dlq|topic)\b", README)
    )
    assert verbs == {"run", "check", "shift", "status", "ledger", "up", "doctor", "group", "dlq", "topic"}
    for verb in (*verbs, "down"):
        done = subprocess.run(
            [GEARSHIFT, verb, "--help"], capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, verb


def test_the_delivery_of_the_readme_is_one(tmp_path: Path) -> None:
    pipeline, delivery = (
        next(text for text in blocks("python") if word in text) for word in ("gs.App(", "@app.delivery(")
    )
    told: dict[str, Any] = {"phone_of": lambda meter_id: f"+316{meter_id}"}
    exec(pipeline, told)
    exec(delivery, told)
    record = gs.Record(told["Reading"]("12345678", 2.5, datetime.now(UTC)), None, "load-alerts", 0, 0, None)
    assert told["text_owner"](record) == gs.destinations.SmsMessage("+31612345678", "load is 2.5 kW")
    assert told["app"].graph.deliveries["text_owner"].once_by == ("meter_id", "read_at")


def test_the_sources_of_the_readme_are_sources() -> None:
    told: dict[str, Any] = {}
    for word in ("gs.App(", "app.files("):
        exec(next(text for text in blocks("python") if word in text), told)
    graph = told["app"].graph
    assert (list(graph.folders), list(graph.ports), list(graph.sources)) == (
        ["readings-in"],
        ["http"],
        ["meters"],
    )
    assert next(sequence(graph.sources["meters"])).meter_id.startswith("meter-")


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make (demo|test|bench)\b", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
