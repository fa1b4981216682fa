"""Ensures that one process at a time works on the checkpoints of a folder."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from gearshift.console.runner_info import RunnerInfo
from gearshift.errors import RunnerError
from gearshift.stack.processes.service import Pid
from gearshift.storage.lease import StandBy
from gearshift.storage.shared_files import private_home

_SPARK_ENDS_WITHIN = 20.0
_TRIED_EVERY = 0.1


@contextmanager
def lock_home(
    home: Path, *, progress: Callable[[str], None], app: str | None = None, stand_by: StandBy | None = None
) -> Generator[None]:
    """Lock the folder, and wait until the Spark of an earlier runner that died no longer writes its checkpoints.

    With `stand_by`, wait while a runner of the same app has the folder.
    """
    home = private_home(home)
    with (home / "runner.lock").open("a") as lock:
        waits_for = ""
        while not _locked(lock):
            other = RunnerInfo.read(home)
            who = f"{other.app}, process {other.pid.number}" if other else "another process"
            held = f"a runner is already running in {home} ({who})"
            if stand_by is None:
                raise RunnerError(
                    held, hint="stop it, wait for its end with --standby, or use another folder"
                )
            if other is not None and other.app != app:
                raise RunnerError(
                    held, hint=f"{app} can stand by for runners of {app} only; use another folder"
                )
            if held != waits_for:
                waits_for = held
                stand_by(held)
            time.sleep(_TRIED_EVERY)
        last = RunnerInfo.read(home)
        if last is not None and last.spark_pid is not None and last.spark_pid.alive:
            progress("waiting for Spark from the last run to exit")
            _end(last.spark_pid)
        RunnerInfo.remove(home)
        yield


def _locked(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _end(spark: Pid) -> None:
    """Wait for Spark, which exits after its Python process; kill it if it does not."""
    until = time.monotonic() + _SPARK_ENDS_WITHIN
    while spark.alive and time.monotonic() < until:
        if time.monotonic() > until - _SPARK_ENDS_WITHIN / 2:
            os.kill(spark.number, signal.SIGKILL)
        time.sleep(0.05)
    if spark.alive:
        raise RunnerError(
            f"Spark from the last run, process {spark.number}, is still running", hint="kill the process"
        )
