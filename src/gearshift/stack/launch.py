"""Runs a command that must not outlive its parent: `python launch.py PARENT SIGNAL USER COMMAND…` becomes that command.

It is a script of its own, with the standard library only, because the kernel's promise has to be asked for in the
new process before it becomes Java, and forking a threaded Python to run code there is not safe.
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for a signal when the parent ends, make sure it has not yet, and become the command."""
    parent, ends_on, user, *command = sys.argv[1:]
    if user:
        # Before the kernel's promise: it forgets that with a change of user.
        uid, gid = map(int, user.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    os.umask(0o077)  # what it keeps is for its own user alone
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(ends_on), 0, 0, 0)
        if os.getppid() != int(parent):
            sys.exit("the parent ended first")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
