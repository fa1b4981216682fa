"""A runner that kills itself at named points: `python -m tests.faults.runner_process NAME POINT…`.

A point is `PIPELINE=GEAR:STEP`: a step of a shift of that pipeline to that gear. For the app with tables it
is `PIPELINE:files`, when a batch's files are written and not committed, or `PIPELINE:rows`, when they are
committed and Spark does not know yet. All the pipelines are at their points at once when it happens.
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
from gearshift.tables import files
from tests.faults.apps import NEAR, REAL, copies_and_counts, keep
from tests.support import eventually

_ALL_THERE_WITHIN = 170.0


def die() -> None:
    """`kill -9` of this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_in_shifts(name: str, points: dict[str, str]) -> None:
    """Die when each of the shifts is at its step."""
    shifts = {pipeline: tuple(point.split(":")) for pipeline, point in points.items()}
    # Each starts in the gear that its shift leaves.
    declared = copies_and_counts(
        name, {pipeline: REAL if gear == NEAR else NEAR for pipeline, (gear, _) in shifts.items()}
    )
    together = threading.Barrier(len(shifts), action=die)

    def shift(runner: Runner, pipeline: str, gear: str, step: str) -> None:
        def on_step(reached: str, _: str) -> None:
            if reached == step:
                together.wait(_ALL_THERE_WITHIN)

        try:
            runner.shift(pipeline, Gear.named(gear), on_step=on_step)
        finally:
            together.abort()

    with Runner(declared.app, load()) as runner, ThreadPoolExecutor(len(shifts)) as pool:
        names = [topic.name for topic in declared.targets.values()]
        before = written(runner, names)
        eventually(
            lambda: all(count > before[topic] for topic, count in written(runner, names).items()),
            within=_ALL_THERE_WITHIN,
        )
        for shifting in [pool.submit(shift, runner, pipeline, *words) for pipeline, words in shifts.items()]:
            shifting.result()


def die_in_writes(name: str, points: dict[str, str]) -> None:
    """Die when each of the tables is in the middle of a batch that holds rows."""
    declared = keep(name, points)
    at = {f"{name}_{pipeline}": point for pipeline, point in points.items()}
    together = threading.Barrier(len(points), action=die)
    write, append = files.write, tables.append

    def meet(uri: str, point: str, rows: int) -> None:
        if rows and at[uri.rpartition("/")[2]] == point:
            together.wait(_ALL_THERE_WITHIN)

    def write_and_die(frame: Any, uri: str, **named: Any) -> Any:
        written = write(frame, uri, **named)
        meet(uri, "files", written.rows)
        return written

    def append_and_die(table: Any, uri: str, frame: Any, **named: Any) -> Any:
        commit = append(table, uri, frame, **named)
        meet(uri, "rows", commit.rows)
        return commit

    files.write, tables.append = write_and_die, append_and_die
    with Runner(declared.app, load()):
        threading.Event().wait(_ALL_THERE_WITHIN)


def written(runner: Runner, topics: list[str]) -> dict[str, int]:
    """How many records are on each topic."""
    found = dict.fromkeys(topics, 0)
    for (topic, _), end in runner.engine.admin.end_offsets(topics).items():
        found[topic] += end
    return found


if __name__ == "__main__":
    _, name, *words = sys.argv
    if "=" in words[0]:
        die_in_shifts(name, dict(word.split("=") for word in words))
    else:
        die_in_writes(name, dict(word.split(":") for word in words))
