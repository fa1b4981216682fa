"""What the demos share: a demo can run twice, and removes no other folder."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

import pytest

from gearshift.errors import GearshiftError

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from demos import empty, run_demo, wait


def test_a_story_begins_in_an_empty_folder_each_time(tmp_path: Path) -> None:
    folder = empty(tmp_path / "demo")
    (folder / "warehouse").mkdir()
    assert empty(folder) == folder
    assert not (folder / "warehouse").exists()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").touch()
    with pytest.raises(GearshiftError, match="is not the folder of a demo"):
        empty(tmp_path)
    assert (tmp_path / "letter").exists()


def test_a_demo_that_runs_keeps_its_folder(tmp_path: Path) -> None:
    folder = empty(tmp_path / "demo")
    (folder / "warehouse").mkdir()
    with (folder / "runner.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(GearshiftError, match="a demo is running in"):
            empty(folder)
    assert (folder / "warehouse").exists()


def test_what_does_not_come_ends_a_story_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_demo(lambda: wait(lambda: False, "a parcel", within=0.2)) == 1
    assert "error: timed out after 0 s waiting for a parcel" in capsys.readouterr().err
