"""A runner that kills itself while it scales: `python -m tests.faults.scaling_process APP NUMBER NAME STEP… NAME`.

The first pipelines scale to the number and wait at their steps; then the last one begins to move its state, and in the
middle of that it happens.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from gearshift.runner.runner import Runner
from gearshift.settings import load
from tests.faults.apps import four_counts
from tests.support import eventually


def die_while_scaling(name: str, partitions: int, points: list[tuple[str, str]], last: str) -> None:
    """Die when each pipeline is at its step, and the last one's state is on its way."""
    declared = four_counts(name)
    together = threading.Barrier(len(points) + 1)

    def scale(runner: Runner, pipeline: str, step: str | None) -> None:
        def on_step(reached: str, _: str) -> None:
            if reached == step:
                together.wait(240)

        try:
            runner.scale(pipeline, partitions, on_step=on_step)
        finally:
            together.abort()

    with Runner(declared.app, load()) as runner, ThreadPoolExecutor(len(points) + 1) as pool:
        for supervisor in runner.supervisors.values():
            eventually(lambda each=supervisor: each.run is not None and each.run.records)
        scaling = [pool.submit(scale, runner, *point) for point in points]
        eventually(lambda: together.n_waiting == len(points) or together.broken)
        moved = runner.supervisors[last].ledger.checkpoint
        scaling.append(pool.submit(scale, runner, last, None))
        eventually(lambda: moved.unfinished_repartition() is not None or together.broken, every=0.002)
        if not together.broken:
            os.kill(os.getpid(), signal.SIGKILL)
        for each in scaling:
            each.result()


if __name__ == "__main__":
    _, name, number, *words, last = sys.argv
    die_while_scaling(name, int(number), list(zip(words[::2], words[1::2], strict=True)), last)
