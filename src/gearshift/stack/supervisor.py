"""A process in the background that owns the services, so that a shell is free: `gearshift up --detach`."""

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
from gearshift.settings import KNOWN_SERVICES, Settings
from gearshift.stack.lifecycle import find, up
from gearshift.stack.processes import last_lines
from gearshift.stack.revival import Revival
from gearshift.stack.stack import Stack, folder
from gearshift.stack.stores import wanted


def detach(settings: Settings) -> Stack:
    """Leave a process behind that owns the stack; come back when the stack answers."""
    given = settings.revealed() | {
        "home": str(settings.home.absolute()),
        "cache": str(settings.cache.absolute()),
        "services": wanted(settings),
    }
    # The settings hold passwords, and a command line shows them to everybody. It goes into the background by itself and closes its end of the pipe when the stack answers, or says why not.
    told = subprocess.run(
        [sys.executable, "-m", "gearshift.stack.supervisor"],
        input=json.dumps(given),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if told.stdout.strip():
        error = json.loads(told.stdout)
        raise getattr(errors, error["kind"], StackError)(error["what"], hint=error["hint"])
    stack = find(settings)
    if stack is None:
        raise StackError("the stack ended as soon as it had started", hint=f"see {folder(settings) / 'logs'}")
    return stack


def hold(stack: Stack, *, said: Callable[[str], None]) -> None:
    """Stay until somebody takes the stack down; raise when it cannot be used any more."""
    with Revival(stack, said=said):
        _hold(stack, said)


def _hold(stack: Stack, said: Callable[[str], None]) -> None:
    known_dead: set[int] = set()
    while not stack.stopping:
        for service in stack.dead():
            if stack.stopping:
                return
            if service.name in KNOWN_SERVICES or stack.ended_itself(service.name):
                continue  # it is started again
            if not stack.usable:
                raise StackError(
                    f"{service.name} ended\n{last_lines(Path(service.log))}\n",
                    hint=f"its whole log is {service.log}",
                )
            if service.pid.number not in known_dead:
                known_dead.add(service.pid.number)
                said(f"{service.name} ended; its log is {service.log}")
        time.sleep(0.2)


def end_on_term() -> None:
    """Make TERM leave the program as Ctrl-C does, through every `with` on the way out."""

    def leave(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, leave)


def main() -> None:
    """Go into the background, start the stack, and hold it."""
    settings = Settings.model_validate(json.load(sys.stdin))
    if os.fork() > 0:
        os._exit(0)
    os.setsid()
    end_on_term()
    try:
        stack = up(settings, progress=lambda message: print(message, file=sys.stderr))
    except GearshiftError as error:
        told: dict[str, Any] = {"kind": type(error).__name__, "what": error.what, "hint": error.hint}
        print(json.dumps(told))
        return
    if not stack.owned:
        return
    with stack:
        _let_go(folder(settings) / "logs" / "supervisor.log")
        try:
            hold(stack, said=lambda message: print(message, flush=True))
        except KeyboardInterrupt:
            return


def _let_go(log: Path) -> None:
    """Put a log in the place of the terminal, and so close the pipe that the parent reads."""
    sys.stdout.flush()
    sys.stderr.flush()
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(target, 1)
    os.dup2(target, 2)


if __name__ == "__main__":
    main()
