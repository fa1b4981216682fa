"""Output on stderr, and the error for an unusable folder."""

from __future__ import annotations

import io
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from rich.live import Live

from gearshift.cli.output import set_up_logging
from gearshift.cli.tables import show_reports
from gearshift.errors import DefinitionError, DiskError
from gearshift.freshness import Freshness
from gearshift.log_lines import in_json
from gearshift.storage.shared_files import private_home
from tests.command import GEARSHIFT


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """Restore the root logger after the test."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:], logger.level = handlers, level


def test_a_log_line_goes_above_the_live_table(
    root: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    set_up_logging("text", logging.WARNING)
    screen = io.StringIO()
    with Live("the table", console=Console(file=screen, force_terminal=True), auto_refresh=False):
        logging.getLogger("gearshift").warning("a broker went away")
    logging.getLogger("gearshift").warning("after it")
    shown = screen.getvalue()
    assert "WARNING a broker went away" in shown
    assert shown.index("went away") < shown.rindex("the table")
    stderr = capfd.readouterr().err
    assert "went away" not in stderr
    assert "after it" in stderr


def test_processes_of_a_command_know_its_log_format(root: logging.Logger) -> None:
    set_up_logging("text", logging.WARNING)
    assert not in_json()
    set_up_logging("json", logging.WARNING)
    assert in_json()


def test_a_folder_that_cannot_be_used_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / ".gearshift").touch()
    for verb in (["status"], ["up"], ["shift", "copy", "batch"], ["group", "list"]):
        done = subprocess.run(
            [GEARSHIFT, *verb], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout) == (2, ""), verb
        assert ".gearshift is a file, not a folder\nhint: move it away" in done.stderr
    with pytest.raises(DiskError, match=r"cannot write /proc/none/\.gearshift"):
        private_home(Path("/proc/none/.gearshift"))


def test_our_folder_is_kept_out_of_git_and_a_users_own_is_left_alone(tmp_path: Path) -> None:
    assert (private_home(tmp_path / ".gearshift") / ".gitignore").read_text() == "*\n"
    assert (private_home(tmp_path / "made") / ".gitignore").read_text() == "*\n"
    assert not (private_home(tmp_path) / ".gitignore").exists()


def test_a_freshness_that_is_a_number_is_refused_in_a_sentence() -> None:
    with pytest.raises(DefinitionError, match="1 is not a duration"):
        Freshness.parse(1)  # pyright: ignore[reportArgumentType]


def test_a_check_shows_what_to_do_about_another_parallelism(capsys: pytest.CaptureFixture[str]) -> None:
    gears = {gear: {"ok": True, "refusals": []} for gear in ("batch", "near-real-time", "real-time")}
    words = "declared parallelism=8, the checkpoint has 2: run gearshift scale count 8"
    report = {
        "pipeline": "count",
        "declared": "real-time",
        "chosen_by": None,
        "freshness": "1 second",
        "error": None,
        "parallelism": 2,
        "warnings": [words],
        "gears": gears,
    }
    show_reports([report, {**report, "pipeline": "copy", "parallelism": None, "warnings": []}])
    shown = capsys.readouterr().out
    assert f"\ncount: {words}\n" in shown
    assert shown.count("parallelism") == 1
