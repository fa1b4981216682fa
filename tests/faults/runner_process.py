"""A runner that kills itself at a named point: `python -m tests.faults.runner_process APP NAME POINT…`.

A point is `PIPELINE GEAR STEP`, three words: a step of a shift of that pipeline to that gear. When
several are given, all the shifts are at their steps at once when it happens. For the app with a table it
is `files`, when a batch's files are written and not committed, or `rows`, when they are committed and
Spark does not know yet.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gearshift import tables
from gearshift.freshness import Gear
from gearshift.runner.runner import Runner
from gearshift.settings import load
from gearshift.tables.write import parquet_files as files
from tests.faults.apps import copy_and_count, keep
from tests.support import eventually


def die() -> None:
    """`kill -9` of this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_in_shifts(name: str, points: list[tuple[str, str, str]]) -> None:
    """Die when each of the shifts is at its step."""
    declared = copy_and_count(name, copy_in="near-real-time", count_in="real-time")
    together = threading.Barrier(len(points), action=die)

    def shift(runner: Runner, pipeline: str, gear: str, step: str) -> None:
        def on_step(reached: str, _: str) -> None:
            if reached == step:
                together.wait(60)

        try:
            runner.shift(pipeline, Gear.named(gear), on_step=on_step)
        finally:
            together.abort()

    with Runner(declared.app, load()) as runner, ThreadPoolExecutor(len(points)) as pool:
        for target in (declared.copies, declared.counts):
            before = written(runner, target.name)
            eventually(lambda name=target.name, before=before: written(runner, name) > before)
        for shifting in [pool.submit(shift, runner, *point) for point in points]:
            shifting.result()


def die_in_a_write(name: str, point: str) -> None:
    """Die in the middle of the first batch that holds rows."""
    declared = keep(name)
    if point == "files":
        write = files.write

        def write_and_die(*arguments: Any, **named: Any) -> Any:
            written = write(*arguments, **named)
            if written.rows:
                die()
            return written

        files.write = write_and_die
    else:
        append = tables.append

        def append_and_die(*arguments: Any, **named: Any) -> Any:
            commit = append(*arguments, **named)
            if commit.rows:
                die()
            return commit

        tables.append = append_and_die
    with Runner(declared.app, load()):
        threading.Event().wait(60)


def written(runner: Runner, topic: str) -> int:
    """How many records are on a topic."""
    return sum(runner.context.admin.end_offsets([topic]).values())


if __name__ == "__main__":
    _, name, *words = sys.argv
    if len(words) == 1:
        die_in_a_write(name, words[0])
    else:
        die_in_shifts(name, list(zip(words[::3], words[1::3], words[2::3], strict=True)))
