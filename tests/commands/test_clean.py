"""`gearshift clean`: removes local data after it said what, and never while something uses it."""

from __future__ import annotations

import fcntl
import os
import pty
import subprocess
from pathlib import Path

import pytest

from gearshift.stack.processes import state
from gearshift.stack.processes.service import Pid
from gearshift.storage.folders import LocalFolder
from gearshift.storage.lease import take
from tests.commands.test_cli import GEARSHIFT, failed, gearshift


@pytest.fixture
def app_folder(tmp_path: Path) -> Path:
    """A folder in which an app and a demo ran."""
    (tmp_path / "app.py").touch()
    for home in (".gearshift", ".gearshift/demo-cricket"):
        for name in (
            "stack/kafka/data",
            "checkpoints/words/copy/ledger.json",
            "warehouse/words/part",
            "runner.lock",
        ):
            path = tmp_path / home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("data")
    (tmp_path / ".gearshift/demo-cricket/demo").touch()
    return tmp_path


def test_it_says_what_it_would_remove_and_keeps_it(app_folder: Path) -> None:
    done = gearshift(app_folder, "clean")
    assert done.returncode == 0
    for words in (
        "this removes from",
        "stack",
        "the tables",
        "demo-cricket",
        "it keeps the downloaded programs",
    ):
        assert words in done.stderr
    assert done.stderr.endswith("dry run; add --yes to apply\n")
    assert (app_folder / ".gearshift/warehouse/words/part").exists()


def test_with_yes_it_removes_the_local_data_and_nothing_else(app_folder: Path) -> None:
    done = gearshift(app_folder, "clean", "--yes")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in app_folder.iterdir()] == ["app.py"]
    assert "there is nothing to remove" in gearshift(app_folder, "clean", "--yes").stderr


@pytest.mark.parametrize(("answer", "kept"), [("n", True), ("y", False)])
def test_at_a_terminal_it_asks(app_folder: Path, answer: str, kept: bool) -> None:
    ours, theirs = pty.openpty()
    clean = subprocess.Popen([GEARSHIFT, "clean"], cwd=app_folder, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while b"remove it? [y/N]: " not in shown:
        shown += os.read(ours, 1000)
    assert b"the tables" in shown
    os.write(ours, f"{answer}\n".encode())
    assert clean.wait(60) == 0
    os.close(ours)
    assert (app_folder / ".gearshift").exists() == kept


def test_of_another_home_only_what_gearshift_made_is_removed(tmp_path: Path) -> None:
    (tmp_path / "shared" / "warehouse").mkdir(parents=True)
    (tmp_path / "shared" / "photos").mkdir()
    done = gearshift(tmp_path, "clean", "--yes", GEARSHIFT_HOME="shared")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "shared/warehouse").exists() and (tmp_path / "shared/photos").exists()


def test_what_is_elsewhere_is_kept_and_named(app_folder: Path, tmp_path: Path) -> None:
    done = gearshift(
        app_folder, "clean", GEARSHIFT_WAREHOUSE="s3://lake/tables", GEARSHIFT_BOOTSTRAP_SERVERS="k:9092"
    )
    assert "it keeps the tables in s3://lake/tables" in done.stderr
    assert "it keeps the topics on k:9092" in done.stderr


@pytest.mark.parametrize("home", [".gearshift", ".gearshift/demo-cricket"])
def test_it_refuses_while_a_runner_runs(app_folder: Path, home: str) -> None:
    with (app_folder / home / "runner.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = failed(app_folder, "clean", "--yes", code=1)
    assert "a runner is already running" in said
    assert (app_folder / ".gearshift/warehouse/words/part").exists()


@pytest.mark.parametrize("home", [".gearshift", ".gearshift/demo-cricket"])
def test_it_refuses_while_the_stack_runs(app_folder: Path, home: str) -> None:
    mine = Pid.of(os.getpid())
    assert mine is not None
    kafka = state.Running(name="kafka-1", pid=mine, port=1, log="")
    stack = state.State(owner=mine, bootstrap_servers="", registry_url="", services=(kafka,), ready=True)
    stack.write(app_folder / home / "stack")
    said = failed(app_folder, "clean", "--yes", code=1)
    assert "the local stack is running" in said and "gearshift down" in said


def test_it_refuses_while_a_runner_in_another_folder_uses_a_checkpoint(app_folder: Path) -> None:
    checkpoint = LocalFolder(app_folder / ".gearshift/checkpoints/words")
    lease = take(checkpoint, home=app_folder / "elsewhere")
    assert "another runner uses the checkpoints of words" in failed(app_folder, "clean", "--yes", code=1)
    lease.release()
    assert gearshift(app_folder, "clean", "--yes").returncode == 0
