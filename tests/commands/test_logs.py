"""`gearshift logs`: what the local services and the app's processes wrote."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.commands.test_cli import GEARSHIFT, failed, gearshift


@pytest.fixture
def app_folder(tmp_path: Path) -> Path:
    logs = tmp_path / ".gearshift" / "logs"
    logs.mkdir(parents=True)
    (logs / "spark.log").write_text("".join(f"line {n}\n" for n in range(100)))
    for member in (1, 2):
        (logs / f"delivery-text_owner-{member}.log").write_text(f"member {member} \x1b[31mfailed\n")
    return tmp_path


def test_without_a_name_the_logs_are_listed(app_folder: Path) -> None:
    shown = gearshift(app_folder, "logs").stdout
    assert "delivery-text_owner-2" in shown and "spark.log" in shown
    listed = json.loads(gearshift(app_folder, "logs", "-o", "json").stdout)
    assert [each["name"] for each in listed] == ["delivery-text_owner-1", "delivery-text_owner-2", "spark"]


def test_where_nothing_ran_it_says_who_writes_logs(tmp_path: Path) -> None:
    done = gearshift(tmp_path, "logs")
    assert done.returncode == 0 and "gearshift run and gearshift up write them" in done.stderr
    assert "no log 'spark'" in failed(tmp_path, "logs", "spark", code=2)


def test_the_last_lines_of_a_log_are_shown(app_folder: Path) -> None:
    assert gearshift(app_folder, "logs", "spark", "-n", "2").stdout == "line 98\nline 99\n"
    assert len(gearshift(app_folder, "logs", "spark").stdout.splitlines()) == 50


def test_the_lines_of_several_consumers_carry_their_name_and_no_colours(app_folder: Path) -> None:
    assert gearshift(app_folder, "logs", "text_owner").stdout == (
        "delivery-text_owner-1: member 1 \\x1b[31mfailed\ndelivery-text_owner-2: member 2 \\x1b[31mfailed\n"
    )


def test_it_follows_a_log_until_it_is_stopped(app_folder: Path) -> None:
    following = _follow(app_folder)
    assert following.stdout is not None
    assert following.stdout.readline() == "line 99\n"
    with (app_folder / ".gearshift/logs/spark.log").open("a") as log:
        log.write("line 100\n")
    assert following.stdout.readline() == "line 100\n"
    following.send_signal(signal.SIGINT)
    assert following.communicate(timeout=60) == ("", "")
    assert following.returncode == 0


def test_it_ends_quietly_when_the_reader_of_its_pipe_has_enough(app_folder: Path) -> None:
    following = _follow(app_folder)
    assert following.stdout is not None and following.stderr is not None
    assert following.stdout.readline()
    following.stdout.close()
    assert following.wait(60) == 0
    assert following.stderr.read() == ""
    following.stderr.close()


def _follow(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [GEARSHIFT, "logs", "spark", "-f", "-n", "1"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
