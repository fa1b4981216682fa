"""The installed command, as a user types it."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gearshift.app import App
from gearshift.console.console import Emit
from gearshift.console.runner_info import RunnerInfo
from gearshift.errors import GearRefusedError, ScaleError
from gearshift.freshness import Gear
from gearshift.pipelines.ledger.ledger import Batch, Ledger
from gearshift.pipelines.ledger.scalings import Scaling
from gearshift.settings import load
from gearshift.stack.processes.service import Pid
from gearshift.storage.folders import LocalFolder
from tests.consoles import FakeRun, open_console
from tests.support import closed_port

GEARSHIFT = Path(sys.executable).with_name("gearshift")
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")

APP = """
from dataclasses import dataclass
import gearshift as gs
from pyspark.sql import functions as F

@dataclass
class Word:
    text: str

app = gs.App("words")
words = app.topic("words", value=Word)

@app.pipeline(source=words, to=app.topic("copies", value=Word), freshness="1 second")
def copy(words):
    return words

@app.pipeline(source=words, to=app.topic("loud", value=Word), freshness="1 second")
def shout(words):
    upper = F.udf(str.upper, "string")
    return words.withColumn("text", upper("text"))

@app.pipeline(source=words, to=app.topic("wrong", value=Word), freshness="1 second")
def misspell(words):
    return words.select("txet")
"""


def gearshift(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder, with nothing in the environment that is not said here."""
    ours = ("GEARSHIFT_", "NO_COLOR", "FORCE_COLOR")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        [GEARSHIFT, *words],
        cwd=folder,
        env={**clean, **environ},
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )


def failed(folder: Path, *words: str, code: int, **environ: str) -> str:
    """What a command that fails says: on stderr only, and without a traceback."""
    done = gearshift(folder, *words, **environ)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which a pipeline ran."""
    ledger = Ledger(LocalFolder(tmp_path / ".gearshift/checkpoints/words/copy"), "words", "copy")
    for number, gear in enumerate((Gear.BATCH, Gear.REAL_TIME)):
        ledger.begin(gear, Gear.BATCH, "rollback: [/red] is no [table]", datetime(2026, 1, 1, tzinfo=UTC))
        ledger.add(
            Batch(
                id=number,
                timestamp_ms=number,
                starts={"words": {0: number * 10}},
                ends={"words": {0: number * 10 + 10}},
                records=10,
                written=10,
            )
        )
    ledger.runs[1].pause, ledger.runs[1].paused_for = 6.5, "6.1 s to start"
    then = datetime(2026, 1, 1, tzinfo=UTC)
    for after, ended in ((8, {"pause": 7.25}), (3, {"error": "8 again: [/] no space"})):
        ledger.scale(
            Scaling(began=then, before=11 - after, after=after, why="requested", ended=then, **ended)
        )
    ledger.end(datetime(2026, 1, 1, tzinfo=UTC), "the disk [/] is full")
    return tmp_path


@pytest.mark.parametrize("words", [("--help",), ("status",), ("ledger",), ("ledger", "-o", "json")])
def test_what_needs_no_spark_answers_in_under_a_second(folder: Path, words: tuple[str, ...]) -> None:
    # Of the processor, which is what an idle machine's user waits for; the tests beside this one are not counted.
    took: list[float] = []
    for _ in range(3):
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert gearshift(folder, *words).returncode == 0
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime)
    assert min(took) < 1.0, took


def test_help_names_every_verb(tmp_path: Path) -> None:
    said = gearshift(tmp_path, "--help").stdout
    for verb in (
        "run",
        "check",
        "shift",
        "status",
        "ledger",
        "up",
        "down",
        "doctor",
        "group",
        "dlq",
        "topic",
    ):
        assert re.search(rf"^\W*{verb}\s", said, re.MULTILINE), said
        assert gearshift(tmp_path, verb, "-h").returncode == 0


def test_the_ledger_is_data_on_stdout(folder: Path) -> None:
    done = gearshift(folder, "-v", "ledger", "-o", "json")
    assert done.returncode == 0
    (ledger,) = json.loads(done.stdout)
    assert (ledger["app"], ledger["pipeline"], ledger["gap"], ledger["replayed"]) == ("words", "copy", 0, 0)
    assert [run["gear"] for run in ledger["runs"]] == ["batch", "real-time"]
    assert json.loads(gearshift(folder, "ledger", "copy", "--output", "json").stdout) == [ledger]


def test_the_ledger_is_a_table_with_its_proof_for_people(folder: Path) -> None:
    done = gearshift(folder, "ledger")
    assert (done.returncode, done.stderr) == (0, "")
    assert "20 records in 2 runs: no gap, 0 replayed" in done.stdout
    assert "0:10–20" in done.stdout
    assert "6.5 s" in done.stdout and "#1: the pause was 6.1 s to start" in done.stdout
    assert "scaled from 3 to 8 shuffle partitions (requested), pause 7.2 s" in done.stdout
    assert "scaled from 8 to 3 shuffle partitions (requested), failed: 8 again: [/] no space" in done.stdout
    assert "[/red] is no [table]" in done.stdout and "the disk [/] is full" in done.stdout
    assert "\x1b" not in done.stdout  # no terminal, no colours


def test_colours_are_for_terminals_and_no_color_takes_them_away(folder: Path) -> None:
    assert COLOUR.search(gearshift(folder, "ledger", FORCE_COLOR="1", TERM="xterm").stdout)
    assert not COLOUR.search(gearshift(folder, "ledger", FORCE_COLOR="1", NO_COLOR="1", TERM="xterm").stdout)


def test_where_nothing_runs_status_says_how_to_start(tmp_path: Path) -> None:
    done = gearshift(tmp_path, "status")
    assert (done.returncode, done.stderr) == (0, "")
    assert "gearshift up" in done.stdout and "gearshift run FILE" in done.stdout
    found = json.loads(gearshift(tmp_path, "status", "-o", "json").stdout)
    assert found == {"stack": {"running": False, "services": []}, "runner": None}
    assert json.loads(gearshift(tmp_path, "ledger", "-o", "json").stdout) == []
    assert list(tmp_path.iterdir()) == []  # looking leaves nothing behind


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fly",), "No such command 'fly'"),
        (("ledger", "-o", "xml"), "'xml'"),
        (("shift", "copy"), "Missing argument"),
        (("scale", "copy", "0"), "greater than or equal to 1"),
        (("--log-format", "xml", "status"), "must be text or json"),
        (("shift", "copy", "turbo"), "use batch, near-real-time, real-time"),
        (("ledger", "cpoy"), "pipeline 'cpoy' has no ledger\nhint: use copy"),
        (("run", "none.py"), "no such file (none.py)\nhint: name the Python file"),
        (("check", "none.py"), "no such file (none.py)"),
        (("--profile", "prod", "status"), "unknown profile 'prod'"),
        (("--profile", "prod", "up"), "unknown profile 'prod'"),
        (("up", "--brokers", "2"), "setting brokers: must be 1 or 3\nhint: change --brokers"),
    ],
)
def test_wrong_use_ends_with_two_and_says_what_would_be_right(
    folder: Path, words: tuple[str, ...], said: str
) -> None:
    assert said in failed(folder, *words, code=2)


def test_a_wrong_key_is_named_with_file_and_line_by_every_verb(tmp_path: Path) -> None:
    (tmp_path / "gearshift.toml").write_text("brokers = 1\n\nbroker = 3\n")
    for words in (("status",), ("ledger",), ("up",), ("down",), ("doctor",), ("shift", "copy", "batch")):
        said = failed(tmp_path, *words, code=2)
        assert said == (
            f"error: unknown setting 'broker' ({tmp_path}/gearshift.toml:3)\nhint: did you mean 'brokers'?\n"
        )


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    said = failed(tmp_path, "status", code=2, GEARSHIFT_BROKER="3")
    assert said == "error: unknown setting GEARSHIFT_BROKER\nhint: did you mean 'brokers'?\n"


def test_an_app_that_cannot_be_read_is_shown_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import gearshift as gs\napp = gs.App('no good')\n")
    assert "error: invalid app name 'no good' (app.py:2)\nhint: " in failed(
        tmp_path, "check", "app.py", code=2
    )
    (tmp_path / "app.py").write_text("import gearshift as gs\n\n1 / 0\n")
    assert "ZeroDivisionError: division by zero (app.py:3)" in failed(tmp_path, "run", "app.py", code=2)
    for column in ("F.col('load') > 2", "F.count('*')"):
        (tmp_path / "app.py").write_text(f"from pyspark.sql import functions as F\nHIGH = {column}\n")
        said = failed(tmp_path, "check", "app.py", code=2)
        assert "error: a column is built before Spark starts (app.py:2)\nhint: build it inside" in said
    (tmp_path / "app.py").write_text(
        "from pyspark.sql import functions as F\n\n@F.udf('double')\ndef taxed(amount: float) -> float: ...\n"
    )
    assert (
        "error: the type of a UDF is a text, which needs a started Spark (app.py:3)\nhint: use a type such"
        in failed(tmp_path, "check", "app.py", code=2)
    )


def test_a_port_of_the_console_that_is_taken_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = failed(tmp_path, "run", "app.py", code=1, GEARSHIFT_CONSOLE_PORT=str(port))
    assert said.splitlines() == [
        f"error: cannot listen on 127.0.0.1, port {port}: Address already in use",
        "hint: set another console_port or console_host",
    ]


def test_a_shift_without_a_runner_fails_and_says_how_to_start_one(tmp_path: Path) -> None:
    said = failed(tmp_path, "shift", "copy", "batch", code=1)
    assert said.startswith("error: no runner is running in ")
    assert said.endswith('hint: start one with "gearshift run FILE"\n')


# A runner's answers, from the runner's own server in this process.


def _shift(pipeline: str, gear: str, now: bool, emit: Emit) -> None:
    emit({"step": "check", "words": f"can {pipeline} run in {gear}?"})
    if gear == "real-time":
        raise GearRefusedError("no", hint="write it otherwise", pipeline=pipeline, file="app.py", line=7)
    done = {"pipeline": pipeline, "before": "batch", "after": gear, "waited": 0, "pause": 1.25, "replayed": 3}
    emit({"shifted": done})


def _status() -> dict[str, Any]:
    pipeline: dict[str, Any] = dict.fromkeys(("next_run", "lag", "latency_p50_ms", "latency_p99_ms"))
    pipeline |= {
        "parallelism": 8,
        "name": "copy",
        "gear": "batch",
        "declared": "batch",
        "state": "failed",
        "error": "[/] no",
    }
    pipeline |= dict.fromkeys(
        ("records_per_second", "written_per_second", "records", "written", "dead_letters"), 7
    )
    return {"app": "words", "bootstrap_servers": "there:9092", "pipelines": [pipeline], "sources": []}


@dataclass
class Word:
    """One word."""

    text: str


class _App(FakeRun):
    """An app with one pipeline, which shifts to any gear but real-time."""

    def __init__(self) -> None:
        super().__init__(_declared())

    def status(self) -> dict[str, Any]:
        return _status()

    def why(self, pipeline: str) -> dict[str, Any]:
        return {"pipeline": pipeline, "gear": "batch", "why": "it is cheap", "change": "nothing"}

    def shift_for(self, pipeline: str, gear: str, now: bool, emit: Emit, hold: str | None = None) -> None:
        if gear == "auto":
            emit({"released": self.why(pipeline)})
        else:
            _shift(pipeline, gear, now, emit)

    def scale_for(self, pipeline: str, partitions: int, emit: Emit) -> None:
        emit({"step": "check", "words": f"can {pipeline} have {partitions} shuffle partitions?"})
        if partitions > 8:
            raise ScaleError("12 shuffle partitions did not work, 2 again: no space", pipeline=pipeline)
        done = {"pipeline": pipeline, "gear": "batch", "before": 2, "after": partitions}
        emit({"scaled": {**done, "waited": 0, "pause": 7.25, "replayed": 0}})


def _declared() -> App:
    app = App("words")
    words = app.topic("words", value=Word)

    @app.pipeline(words, to=app.table("kept"), freshness="1 minute")
    def copy(words: Any) -> Any:
        return words

    return app


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / ".gearshift"
    with open_console(home, _App(), settings=load({"home": home}, environ={})) as client:
        pid = Pid.of(os.getpid())
        assert pid is not None
        RunnerInfo(app="words", file="", pid=pid, spark_pid=None, port=client.port, token=client.token).write(
            home
        )
        yield tmp_path


def test_a_shift_tells_its_steps_on_stderr_and_its_result_on_stdout(answering: Path) -> None:
    done = gearshift(answering, "shift", "copy", "near-real-time")
    assert done.returncode == 0
    assert done.stdout == "copy: batch → near-real-time, pause 1.2 s, 3 records replayed\n"
    assert done.stderr == "check: can copy run in near-real-time?\n"
    found = json.loads(gearshift(answering, "shift", "copy", "batch", "-o", "json").stdout)
    assert found["pause"] == 1.25


def test_a_scaling_tells_its_steps_on_stderr_and_its_result_on_stdout(answering: Path) -> None:
    done = gearshift(answering, "scale", "copy", "8")
    assert done.stdout == "copy: 2 → 8 shuffle partitions in batch, pause 7.2 s, 0 records replayed\n"
    assert done.stderr == "check: can copy have 8 shuffle partitions?\n"
    assert json.loads(gearshift(answering, "scale", "copy", "8", "-o", "json").stdout)["before"] == 2
    said = failed(answering, "scale", "copy", "12", code=1)
    assert said.endswith("error: 12 shuffle partitions did not work, 2 again: no space (pipeline copy)\n")


def test_why_answers_in_two_sentences(answering: Path) -> None:
    done = gearshift(answering, "why", "copy")
    assert done.stdout == "copy is in batch: it is cheap.\nWhat would change it: nothing.\n"
    assert json.loads(gearshift(answering, "why", "copy", "-o", "json").stdout)["gear"] == "batch"


def test_a_pipeline_is_given_back_to_the_gearbox(answering: Path) -> None:
    assert gearshift(answering, "shift", "copy", "auto").stdout == "copy: the gearbox decides again\n"
    refused = gearshift(answering, "shift", "copy", "batch", "--hold", "soon")
    assert "'soon' is not a duration" in refused.stderr


def test_a_refused_shift_ends_with_one_and_the_runners_own_error(answering: Path) -> None:
    said = failed(answering, "shift", "copy", "real-time", code=1)
    assert said.endswith("error: no (pipeline copy, app.py:7)\nhint: write it otherwise\n")


def test_status_shows_the_runner_to_people_and_programs(answering: Path) -> None:
    done = gearshift(answering, "status")
    assert done.returncode == 0, done.stderr
    assert "batch ×8" in done.stdout
    assert "words on there:9092" in done.stdout and "copy: [/] no" in done.stdout
    assert json.loads(gearshift(answering, "status", "-o", "json").stdout)["runner"] == _status()


# With Spark.


def test_check_says_for_each_pipeline_which_gears_work_and_fails_if_a_declared_one_does_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "app.py").write_text(APP)
    done = gearshift(tmp_path, "check", "app.py", "-o", "json")
    assert done.returncode == 1
    assert done.stderr == ""
    copy, shout, misspell = json.loads(done.stdout)
    assert {gear: found["ok"] for gear, found in copy["gears"].items()} == {
        "batch": True,
        "near-real-time": True,
        "real-time": True,
    }
    assert [found["ok"] for found in shout["gears"].values()] == [True, True, False]
    (refusal,) = shout["gears"]["real-time"]["refusals"]
    line = APP.splitlines().index('    return words.withColumn("text", upper("text"))') + 1
    assert refusal["what"] == "a Python UDF" and refusal["at"] == f"app.py:{line}"
    assert misspell["error"]["kind"] == "TransformError"
    assert misspell["error"]["line"] == len(APP.splitlines())
    assert "txet" in misspell["error"]["what"]


def test_a_run_on_a_broker_that_is_down_ends_with_one_and_names_its_address(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "gearshift.toml").write_text(
        f'bootstrap_servers = "127.0.0.1:{(port := closed_port())}"\nregistry_url = "http://127.0.0.1:{port}"\n'
    )
    said = failed(tmp_path, "run", "app.py", code=1)
    assert f"error: no broker answers at 127.0.0.1:{port}" in said
    assert "\nhint: " in said
    assert not (tmp_path / ".gearshift" / "runner.json").exists()
