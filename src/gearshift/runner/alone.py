"""One process at a time works on the checkpoints of a folder."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from gearshift.errors import RunnerError
from gearshift.runner.note import Note
from gearshift.stack.files import private_home
from gearshift.stack.processes import Pid

_OLD_SPARK_ENDS_WITHIN = 20.0


@contextmanager
def take_the_folder(home: Path, *, said: Callable[[str], None]) -> Generator[None]:
    """Hold the folder: no other runner has it, and no Spark of an earlier one that died still writes its checkpoints."""
    home = private_home(home)
    with (home / "runner.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note = Note.find(home)
            who = f"{note.app}, process {note.pid.number}" if note else "another process"
            raise RunnerError(
                f"a runner is running in {home} ({who})", hint="stop it, or use another folder"
            ) from None
        note = Note.find(home)
        if note is not None and note.spark_pid is not None and note.spark_pid.alive:
            said("waiting for the Spark of the last run to end")
            _end(note.spark_pid)
        Note.remove(home)
        yield


def _end(spark: Pid) -> None:
    """Spark ends by itself when its Python is gone; if it lingers, end it."""
    until = time.monotonic() + _OLD_SPARK_ENDS_WITHIN
    while spark.alive and time.monotonic() < until:
        if time.monotonic() > until - _OLD_SPARK_ENDS_WITHIN / 2:
            os.kill(spark.number, signal.SIGKILL)
        time.sleep(0.05)
    if spark.alive:
        raise RunnerError(
            f"the Spark of the last run, process {spark.number}, does not end", hint="end it by hand"
        )
