"""Runs a command that must not outlive its parent: `python launch.py PARENT SIGNAL USER COMMAND…` execs that command.

It is a separate script that uses only the standard library: PR_SET_PDEATHSIG has to be set in the new process before
it execs Java, and running Python code in the fork of a threaded process is not safe.
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for a signal when the parent ends, check that it has not ended yet, and exec the command."""
    parent, stop_signal, user, *command = sys.argv[1:]
    if user:
        # Before prctl: a change of user clears the parent-death signal.
        uid, gid = map(int, user.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    os.umask(0o077)  # its files are readable by its own user only
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(stop_signal), 0, 0, 0)
        if os.getppid() != int(parent):
            sys.exit("the parent ended first")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
