"""The README is the first test: its pipeline is checked, its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from gearshift.settings import load

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
    verbs = set(re.findall(r"`?gearshift (run|check|shift|status|ledger|up|down|doctor)\b", README))
    assert verbs == {"run", "check", "shift", "status", "ledger", "up", "doctor"}
    for verb in (*verbs, "down"):
        done = subprocess.run(
            [GEARSHIFT, verb, "--help"], capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, verb


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`?make (demo|test|bench)\b", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
