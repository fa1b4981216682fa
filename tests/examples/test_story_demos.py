"""What the demos of all stories do alike, shown by a small story: the screen, data files, Ctrl-C, and wrong names."""

from __future__ import annotations

import doctest
import importlib
import io
import os
import pty
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from gearshift import stack as local
from gearshift.settings import load
from tests import stories
from tests.demos import PROOF, environ
from tests.support import eventually

sys.path.append(str(stories.EXAMPLES))

APP = '''
"""Counting: numbers and their sum."""
import os
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pyspark.sql import functions as F

import gearshift as gs
from gearshift.errors import WrongFileError

DATA = os.environ.get("GEARSHIFT_STORY_DATA")


@dataclass(frozen=True)
class Number:
    name: str
    value: int


app = gs.App("counting")
numbers = app.topic("numbers", value=Number, key="name")
doubles = app.topic("doubles", value=Number, key="name")


@app.source(to=numbers, rate=100, seed=7)
def counting():
    if DATA is None:
        yield from (Number(f"n{number % 5}", number) for number in count())
        return
    for line, text in enumerate(Path(DATA).read_text().split(), 1):
        if not text.isdecimal():
            raise WrongFileError(f"{text!r} is not a number", hint="correct it", file=DATA, line=line)
        yield Number("read", int(text))


@app.pipeline(source=numbers, to=doubles, freshness="1 second")
def double(numbers):
    return numbers.withColumn("value", F.col("value") * 2)
'''

DEMO = """
import sys
from pathlib import Path

sys.path.append({examples!r})
from demos import Board, story

boards = [Board("Doubled numbers", "doubles", ("name", "value"), key="name")]
sys.exit(story(Path(__file__).with_name("counting.py"), title="Counting", boards=boards, shifts=[("double", "batch")]))
"""


@pytest.fixture
def counting(tmp_path: Path) -> Path:
    """The demo of a story that counts; it has a loader."""
    folder = tmp_path / "counting"
    folder.mkdir()
    (folder / "counting.py").write_text(APP)
    (folder / "loader.py").write_text("")
    (folder / "demo.py").write_text(DEMO.format(examples=str(stories.EXAMPLES)))
    return folder / "demo.py"


def words(demo: Path, *options: str | Path) -> list[str]:
    """The command line of a demo."""
    return [sys.executable, str(demo), "--folder", str(demo.parent / "home"), *map(str, options)]


def run(demo: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a demo to its end, with the output in a pipe."""
    return subprocess.run(
        words(demo, *options),
        cwd=demo.parent,
        env=environ(),
        capture_output=True,
        text=True,
        timeout=400,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def nothing_runs(demo: Path) -> bool:
    """Whether no process has the demo's folder in its command line, and no stack is found there."""
    home = demo.parent / "home"
    found = local.find(load({"home": home}, environ={}))
    lines = (line for file in Path("/proc").glob("[0-9]*/cmdline") if (line := _read(file)))
    return found is None and not any(str(home) in line for line in lines)


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def test_a_file_of_data_is_told_to_its_end_in_a_pipe(counting: Path) -> None:
    data = counting.parent / "numbers.txt"
    data.write_text("1 2 21")
    done = run(counting, "--data", data, "--seconds", "300")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the first result came after" in done.stdout
    assert "double: real-time → batch" in done.stdout
    assert done.stdout.rstrip().endswith("Nothing is left running.")
    # The last snapshot has the last value, and no terminal's control characters.
    assert re.search(r"read +42", done.stdout[done.stdout.rindex("Doubled numbers") :])
    assert "\x1b" not in done.stdout
    assert [(name, verdict.split(",")[0]) for name, verdict in PROOF.findall(done.stdout)] == [
        ("double", "no gap")
    ]
    eventually(lambda: nothing_runs(counting), within=30)


def test_a_wrong_file_of_data_ends_with_its_line(counting: Path) -> None:
    data = counting.parent / "numbers.txt"
    data.write_text("1\n2\nthree")
    done = run(counting, "--data", data)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "'three' is not a number" in done.stderr
    assert f"{data}:3" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    eventually(lambda: nothing_runs(counting), within=30)


def test_ctrl_c_on_a_terminal_ends_what_keeps_running(counting: Path) -> None:
    terminal, its_end = pty.openpty()
    process = subprocess.Popen(
        words(counting, "--keep", "--seconds", "1"),
        cwd=counting.parent,
        env={**environ(), "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"},
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(its_end)
    seen = b""
    while b"it keeps running" not in seen:
        seen += os.read(terminal, 65536)
    os.write(terminal, b"\x03")
    while chunk := _chunk(terminal):
        seen += chunk
    os.close(terminal)
    assert process.wait(60) == 130
    shown = seen.decode()
    assert "nothing is left running" in shown
    assert "Traceback" not in shown
    assert "\x1b[2K" in shown  # it was redrawn in place
    eventually(lambda: nothing_runs(counting), within=30)


def test_ctrl_c_while_it_starts_leaves_nothing_running(counting: Path) -> None:
    process = subprocess.Popen(
        words(counting),
        cwd=counting.parent,
        env=environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while "starting kafka" not in process.stdout.readline():
        assert process.poll() is None, process.stderr and process.stderr.read()
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)  # impatience changes nothing
    output, errors = process.communicate(timeout=200)
    assert process.returncode == 130, output + errors
    assert "nothing is left running" in output
    assert "Traceback" not in output + errors
    eventually(lambda: nothing_runs(counting), within=30)


def _take_terminal() -> None:
    """Make the terminal of stdin that of this session, so that Ctrl-C reaches it."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _chunk(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize(
    ("replaced", "by", "message"),
    [
        ('"doubles"', '"halves"', "unknown topic 'halves'; use one of numbers, doubles"),
        ('("name", "value")', '("name", "sum")', "shows 'sum', which Number does not have"),
        ('("double", "batch")', '("halve", "batch")', "a shift of an unknown pipeline 'halve'"),
        ('("double", "batch")', '("double", "fast")', "unknown gear 'fast'"),
    ],
)
def test_wrong_names_are_refused_before_anything_starts(
    counting: Path, replaced: str, by: str, message: str
) -> None:
    counting.write_text(counting.read_text().replace(replaced, by))
    done = run(counting)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr.replace("\nhint: ", "; ")
    assert "starting" not in done.stdout
    assert "Traceback" not in done.stderr


def test_data_that_cannot_be_read_is_refused_before_anything_starts(counting: Path) -> None:
    done = run(counting, "--data", "nowhere.csv")
    assert (done.returncode, "nowhere.csv does not exist" in done.stderr) == (2, True)
    (counting.parent / "loader.py").unlink()
    done = run(counting, "--data", counting)
    assert (done.returncode, "counting reads no data files" in done.stderr) == (2, True)


def test_a_narrow_terminal_cuts_texts_off_but_no_numbers_and_no_times() -> None:
    boards = importlib.import_module("demo_boards")
    rows = [
        [datetime(2026, 3, 1, 18, minute, tzinfo=UTC), "goal, strasse, café, " * 5, 1_234_567]
        for minute in (3, 4)
    ]
    table = boards._table("Tags", ("window_end", "best", "posts"), rows, more=0)
    printed = io.StringIO()
    Console(width=50, file=printed).print(table)
    for line, minute in zip(printed.getvalue().splitlines()[2:], (3, 4), strict=True):
        assert line.startswith(f"2026-03-01 18:0{minute}:00  goal") and line.endswith("…  1,234,567")


@pytest.mark.parametrize("name", ["demo_boards", "demo_screen"])
def test_what_the_docstrings_show_is_so(name: str) -> None:
    assert_docstrings(importlib.import_module(name))


@pytest.mark.parametrize(
    ("story", "module"),
    [
        ("stock_exchange", "times"),
        ("stock_exchange", "loader"),
        ("stock_exchange", "truth"),
        ("trending_hashtags", "times"),
        ("trending_hashtags", "truth"),
    ],
)
def test_what_the_docstrings_of_the_stories_show_is_so(story: str, module: str) -> None:
    assert_docstrings(stories.load(story, module))


def assert_docstrings(module: ModuleType) -> None:
    """Assert that the examples in a module's docstrings hold, and that there are some."""
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)
