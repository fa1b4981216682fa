"""A consumer process ends soon after its runner."""

from __future__ import annotations

import subprocess
import sys

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
