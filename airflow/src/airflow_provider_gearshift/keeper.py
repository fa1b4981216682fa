"""Run one command detached from the process that started it, and store its output in a folder.

    python keeper.py FOLDER SECONDS COMMAND…

The output goes to the files `log` (stderr) and `data` (stdout), the exit code to `exit`. A file `cancel` in the folder,
or SIGTERM, stops the command: TERM to its process group, then KILL after SECONDS. The keeper holds a lock on `alive`
and the command one on `busy`, so that neither is mistaken for another process with the same id. Uses only the
standard library, to start fast.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TextIO


def main(folder: Path, patience: float, command: list[str]) -> None:
    """Detach, run the command, store its exit code."""
    alive = _lock(folder / "alive")
    if os.fork():
        os._exit(0)  # the child now holds the lock, and the parent process is free

    def cancel(*_: object) -> None:
        (folder / "cancel").touch()

    signal.signal(signal.SIGTERM, cancel)
    busy = _lock(folder / "busy")
    with (folder / "log").open("ab") as log, (folder / "data").open("ab") as data:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=data,
                stderr=log,
                pass_fds=[busy.fileno()],
                process_group=0,
            )
        except OSError as error:
            log.write(f"error: {command[0]} cannot be started: {error.strerror}\n".encode())
            _write(folder / "exit", "127")
            return
    busy.close()
    _write(folder / "group", str(child.pid))
    _write(folder / "exit", str(_wait(child, folder / "cancel", patience)))
    alive.close()


def _wait(child: subprocess.Popen[bytes], cancel: Path, patience: float) -> int:
    """Wait for the command to exit, or stop it when cancelled; return its exit code."""
    while not cancel.exists():
        try:
            return child.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            continue
    _signal(child.pid, signal.SIGTERM)
    try:
        code = child.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        code = None
    _signal(child.pid, signal.SIGKILL)  # whatever is left of its process group
    return child.wait() if code is None else code


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _lock(path: Path) -> TextIO:
    file = path.open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def _write(path: Path, text: str) -> None:
    """Write a file atomically."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
