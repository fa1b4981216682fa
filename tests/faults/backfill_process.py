"""`gearshift` that dies in its Nth interval: `python -m tests.faults.backfill_process POINT N batch run …`.

The points are `files`, when an interval's files are written and not committed, and `entry`, when its result is
committed and not yet in the ledger.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from gearshift.cli import main as gearshift
from gearshift.pipelines.interval_log import IntervalLog
from gearshift.tables import files


def _dying(call: Callable[..., Any], number: int, *, before: bool) -> Callable[..., Any]:
    left = number

    def called(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0 and before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = call(*arguments, **named)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return called


def main(point: str, number: str, *words: str) -> None:
    """Run the command with a point at which it dies."""
    if point == "files":
        files.write = _dying(files.write, int(number), before=False)
    else:
        IntervalLog.keep = _dying(IntervalLog.keep, int(number), before=True)
    sys.argv = ["gearshift", *words]
    gearshift()


if __name__ == "__main__":
    main(*sys.argv[1:])
