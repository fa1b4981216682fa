"""`gearshift init` as a new user tries it: run it, test it, change a line, break a line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from gearshift.connection import Connection
from tests.commands.test_cli import failed, gearshift


def test_an_empty_folder_becomes_a_project_and_the_next_commands_are_printed(tmp_path: Path) -> None:
    done = gearshift(tmp_path, "init", "shop")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [
        "cd shop",
        "gearshift run shop.py    # until Ctrl-C; in another terminal: gearshift status",
    ]
    assert f"created shop in {tmp_path / 'shop'}" in done.stderr
    graph = gearshift(tmp_path / "shop", "graph", "shop.py")
    assert graph.returncode == 0 and "revenue_per_minute" in graph.stdout
    assert "is not empty" in failed(tmp_path, "init", "shop", code=2)


def test_a_name_may_have_accents_and_an_impossible_one_is_an_error(tmp_path: Path) -> None:
    done = gearshift(tmp_path, "init", "Möbel Straße")
    assert done.stdout.splitlines()[0] == "cd 'Möbel Straße'"
    assert (tmp_path / "Möbel Straße" / "mobel_strasse.py").is_file()
    assert "cannot be the name of a project" in failed(tmp_path, "init", "данные", code=2)
    assert "File name too long\nhint: " in failed(tmp_path, "init", "x" * 300, code=1)


def test_a_story_can_be_the_beginning(tmp_path: Path) -> None:
    done = gearshift(tmp_path, "init", "meters", "--story", "smart-meter")
    assert done.returncode == 0, done.stderr
    assert "python demo.py" in done.stdout and "gearshift run smart_meter.py" in done.stdout
    assert "unknown story 'chess'" in failed(tmp_path, "init", "x", "--story", "chess", code=2)
    assert not (tmp_path / "x").exists()


def test_the_stories_are_listed(tmp_path: Path) -> None:
    shown = gearshift(tmp_path, "demo", "--list").stdout
    assert "smart_meter" in shown and "Smart meters: one stream of readings" in shown
    assert "unknown story 'chess'" in failed(tmp_path, "demo", "chess", code=2)


def test_a_broken_line_is_named_with_its_file(tmp_path: Path) -> None:
    gearshift(tmp_path, "init", "shop")
    app = tmp_path / "shop" / "shop.py"
    lines = app.read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "app.topic(" in line)
    lines[number - 1] = lines[number - 1].replace('key="customer"', 'key="custmer"')
    app.write_text("\n".join(lines))
    said = failed(tmp_path / "shop", "run", "shop.py", code=2)
    assert "custmer" in said and f"shop.py:{number}" in said


def test_the_project_is_formatted_and_has_no_lint(tmp_path: Path) -> None:
    gearshift(tmp_path, "init", "shop")
    ruff = Path(sys.executable).with_name("ruff")
    for words in (
        ("check", "--isolated", "--select", "E,F,I,B,UP", "--ignore", "E501"),
        ("format", "--isolated", "--check"),
    ):
        done = subprocess.run([ruff, *words, "."], cwd=tmp_path / "shop", capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_projects_own_tests_pass(tmp_path: Path, connection: Connection) -> None:
    gearshift(tmp_path, "init", "shop")
    conftest = tmp_path / "shop" / "conftest.py"
    conftest.write_text(ON_OUR_STACK)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error"],
        cwd=tmp_path / "shop",
        env={**os.environ, "TEST_STACK": _as_text(connection)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


# Another Kafka would only take time.
ON_OUR_STACK = """
import json
import os
from types import SimpleNamespace

import pytest

from gearshift.connection import Connection


@pytest.fixture(scope="session")
def gearshift_stack():
    return SimpleNamespace(connection=Connection(**json.loads(os.environ["TEST_STACK"])))
"""


def _as_text(connection: Connection) -> str:
    return json.dumps(asdict(connection))
