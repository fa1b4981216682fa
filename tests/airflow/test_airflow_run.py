"""A run outlives the process that started it, can be followed from any process, and stops on request."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from airflow_provider_gearshift.run import Run
from tests.support import eventually

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: print("no", file=sys.stderr, flush=True))
subprocess.Popen(["sleep", "600"])
print("up", file=sys.stderr, flush=True)
while True:
    time.sleep(1)
"""


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_gearshift.run.GRACE_PERIOD", 1.0)


def start(folder: Path, *command: str) -> Run:
    return Run.start(folder / "run", command, cwd=folder, env=os.environ)


def members(group: int) -> list[int]:
    """The processes of a group that have not ended."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = entry.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(pgrp) == group and state not in "ZX":
            found.append(int(entry.parent.name))
    return found


def group_of(run: Run) -> int:
    path = run.folder / "group"
    eventually(path.exists)
    return int(path.read_text(encoding="utf-8"))


def test_output_is_told_once_whoever_asks_and_data_are_the_json_of_stdout(tmp_path: Path) -> None:
    run = start(
        tmp_path,
        "sh",
        "-c",
        """echo one >&2; echo '{"rows": 3}'; echo stray; echo two >&2; exit 1""",
    )
    eventually(lambda: run.is_over)
    assert Run(run.folder).new_lines() == ["one", "two"]
    assert run.new_lines() == []
    assert run.data() == [{"rows": 3}]
    assert run.exit_code == 1
    run.forget()
    assert list(tmp_path.glob("run")) == []


def test_its_error_output_begins_at_the_error(tmp_path: Path) -> None:
    run = start(
        tmp_path,
        "sh",
        "-c",
        "echo noise >&2; echo 'error: no (x)' >&2; echo 'hint: y' >&2; exit 1",
    )
    eventually(lambda: run.is_over)
    assert run.error_output() == "error: no (x)\nhint: y"


def test_a_command_that_is_not_there_is_an_error_of_the_run(tmp_path: Path) -> None:
    run = start(tmp_path, "/no/such/command")
    eventually(lambda: run.is_over)
    assert run.exit_code == 127
    assert run.error_output() == "error: /no/such/command cannot be started: No such file or directory"


def test_what_does_not_end_when_told_to_is_killed_with_its_children(tmp_path: Path) -> None:
    run = start(tmp_path, sys.executable, "-c", STUBBORN)
    eventually(lambda: "up" in run.new_lines())
    group = group_of(run)
    assert len(members(group)) == 2
    run.end()
    assert run.exit_code == -signal.SIGKILL
    assert run.new_lines() == ["no"]
    eventually(lambda: not members(group))


def test_a_command_whose_keeper_was_killed_is_not_left_behind(tmp_path: Path) -> None:
    run = start(tmp_path, sys.executable, "-c", STUBBORN)
    group = group_of(run)
    (keeper,) = (pid for pid in (parent(member) for member in members(group)) if pid not in members(group))
    os.kill(keeper, signal.SIGKILL)
    eventually(lambda: run.is_over)
    assert run.exit_code is None
    run.end()
    eventually(lambda: not members(group))


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[1])
