"""The background process that owns the services after `gearshift up --detach`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from gearshift import errors
from gearshift.errors import GearshiftError, StackError
from gearshift.settings import OPTIONAL_PROCESSES, Settings
from gearshift.stack.lifecycle import find, up
from gearshift.stack.processes.restarts import ServiceSupervisor
from gearshift.stack.processes.service import last_lines
from gearshift.stack.services.optional import local_services
from gearshift.stack.stack import Stack, stack_folder


def detach(settings: Settings) -> Stack:
    """Start a background process that owns the stack; return when the stack is ready."""
    given = settings.revealed() | {
        "home": str(settings.home.absolute()),
        "cache": str(settings.cache.absolute()),
        "services": local_services(settings),
    }
    # Through stdin, since the settings hold passwords and every user can read a command line. The child forks into the
    # background and closes its end of the pipe when the stack is ready, or after it printed an error.
    child = subprocess.run(
        [sys.executable, "-m", "gearshift.stack.processes.background"],
        input=json.dumps(given),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if child.stdout.strip():
        error = json.loads(child.stdout)
        raise getattr(errors, error["kind"], StackError)(error["what"], hint=error["hint"])
    stack = find(settings)
    if stack is None:
        raise StackError(
            "the stack ended right after it started", hint=f"see {stack_folder(settings) / 'logs'}"
        )
    return stack


def hold(stack: Stack, *, progress: Callable[[str], None]) -> None:
    """Return when the stack is stopped; raise when it is no longer usable."""
    with ServiceSupervisor(stack, progress=progress):
        _hold(stack, progress)


def _hold(stack: Stack, progress: Callable[[str], None]) -> None:
    known_dead: set[int] = set()
    while not stack.stopping:
        for service in stack.dead():
            if stack.stopping:
                return
            if service.name in OPTIONAL_PROCESSES or stack.exited_with_error(service.name):
                continue  # the supervisor restarts it
            if not stack.usable:
                raise StackError(
                    f"{service.name} ended\n{last_lines(Path(service.log))}\n",
                    hint=f"see the full log in {service.log}",
                )
            if service.pid.number not in known_dead:
                known_dead.add(service.pid.number)
                progress(f"{service.name} ended; see its log in {service.log}")
        time.sleep(0.2)


def end_on_term() -> None:
    """Make SIGTERM exit the program as Ctrl-C does, through every `with`."""

    def leave(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, leave)


def main() -> None:
    """Fork into the background, start the stack, and hold it."""
    settings = Settings.model_validate(json.load(sys.stdin))
    if os.fork() > 0:
        os._exit(0)
    os.setsid()
    end_on_term()
    try:
        stack = up(settings, progress=lambda message: print(message, file=sys.stderr))
    except GearshiftError as error:
        failure: dict[str, Any] = {"kind": type(error).__name__, "what": error.what, "hint": error.hint}
        print(json.dumps(failure))
        return
    if not stack.owned:
        return
    with stack:
        _redirect_output(stack_folder(settings) / "logs" / "supervisor.log")
        try:
            hold(stack, progress=lambda message: print(message, flush=True))
        except KeyboardInterrupt:
            return


def _redirect_output(log: Path) -> None:
    """Redirect output to a log, which closes the pipe that the parent reads."""
    sys.stdout.flush()
    sys.stderr.flush()
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(target, 1)
    os.dup2(target, 2)


if __name__ == "__main__":
    main()
