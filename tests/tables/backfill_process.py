"""`gearshift` that dies in its Nth interval: `python -m tests.tables.backfill_process N batch run …`.

It dies when the interval's files are written and not committed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from gearshift.cli import main as gearshift
from gearshift.tables.write import parquet_files as files


def _dying(call: Callable[..., Any], number: int) -> Callable[..., Any]:
    left = number

    def called(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        result = call(*arguments, **named)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return called


def main(number: str, *words: str) -> None:
    """Run the command until it dies."""
    files.write = _dying(files.write, int(number))
    sys.argv = ["gearshift", *words]
    gearshift()


if __name__ == "__main__":
    main(*sys.argv[1:])
