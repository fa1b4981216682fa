"""A consumer process never outlives its runner for long."""

from __future__ import annotations

import subprocess
import sys

_STUCK = """
import threading
from types import SimpleNamespace
from gearshift.runner import consumer

consumer._ENDS_WITHIN = 0.2
worker = SimpleNamespace(stop=lambda: None)  # asked to stop, it waits for brokers that are gone
threading.Thread(target=consumer._end_with_input, args=(worker,), daemon=True).start()
threading.Event().wait(60)
"""


def test_a_consumer_that_cannot_leave_its_group_ends_all_the_same() -> None:
    ended = subprocess.run([sys.executable, "-c", _STUCK], stdin=subprocess.DEVNULL, timeout=50, check=False)
    assert ended.returncode == 1
