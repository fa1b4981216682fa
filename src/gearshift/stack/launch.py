"""Runs a command that must not outlive its parent: `python launch.py PARENT COMMAND…` becomes that command.

It is a script of its own, with the standard library only, because the kernel's promise has to be asked for in the
new process before it becomes Java, and forking a threaded Python to run code there is not safe.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for TERM when the parent ends, make sure it has not yet, and become the command."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != int(sys.argv[1]):
            sys.exit("the parent ended first")
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
