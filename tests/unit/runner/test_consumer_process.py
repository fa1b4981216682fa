"""A consumer process ends soon after its runner, and logs as its runner does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_STUCK = """
import threading
from types import SimpleNamespace
from gearshift.runner.deliveries import consumer_process

consumer_process._ENDS_WITHIN = 0.2
worker = SimpleNamespace(stop=lambda: print("stopping", flush=True))  # then it waits for brokers that are gone
threading.Thread(target=consumer_process._end_with_input, args=(worker,), daemon=True).start()
threading.Event().wait(60)
"""


def test_a_consumer_that_cannot_leave_its_group_exits_anyway() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _STUCK],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=50,
        check=False,
    )
    assert ended.stdout == b"stopping\n"  # and not an import that failed, which exits with 1 as well
    assert ended.returncode == 1


@pytest.mark.parametrize("in_json", [False, True])
def test_a_consumer_logs_in_the_format_of_its_runner(tmp_path: Path, in_json: bool) -> None:
    missing = tmp_path / "missing.py"
    task = {"file": str(missing), "delivery": "texts", "log": str(tmp_path / "log"), "json": in_json}
    ended = subprocess.run(
        [sys.executable, "-m", "gearshift.runner.deliveries.consumer_process"],
        input=json.dumps(task) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (line,) = ended.stderr.splitlines()
    logged = (
        json.loads(line)
        if in_json
        else dict(zip(("day", "time", "level", "message"), line.split(" ", 3), strict=True))
    )
    assert logged["level"].lower() == "error"
    assert str(missing) in logged["message"]
    assert str(missing) in json.loads(ended.stdout)["failure"]
