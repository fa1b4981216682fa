"""One run of the command, identified by its folder: any process with the folder can follow, stop or resume it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

GRACE_PERIOD = 20.0
"""Seconds between TERM and KILL when a command is cancelled."""
_KEEPER = Path(__file__).with_name("keeper.py")


@dataclass(frozen=True, slots=True)
class Run:
    """A command that keeps running if the process that started it exits."""

    folder: Path

    @classmethod
    def start(cls, folder: Path, command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Run:
        """Start a command in its own session; its environment is passed on and never stored."""
        folder.mkdir(parents=True, mode=0o700)
        # The keeper detaches at once, so this does not wait for the command.
        subprocess.run(
            [sys.executable, "-I", str(_KEEPER), str(folder), str(GRACE_PERIOD), *command],
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=True,
        )
        return cls(folder)

    @property
    def is_here(self) -> bool:
        """Whether its folder is on this machine."""
        return self.folder.is_dir()

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while running, and also if it was killed together with its keeper."""
        try:
            return int((self.folder / "exit").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    @property
    def is_kept(self) -> bool:
        """Whether its keeper is running."""
        return _is_locked(self.folder / "alive")

    @property
    def is_over(self) -> bool:
        """Whether it has ended, normally or not."""
        return not self.is_kept or self.exit_code is not None

    def new_lines(self) -> list[str]:
        """The lines on stderr since the last call from any process."""
        seen = self.folder / "seen"
        offset = int(seen.read_text(encoding="utf-8")) if seen.exists() else 0
        over = self.is_over  # read before the log, so that no line before the end is missed
        try:
            with (self.folder / "log").open("rb") as log:
                log.seek(offset)
                text = log.read(1_000_000)
        except FileNotFoundError:
            return []
        whole = len(text) if over else text.rfind(b"\n") + 1
        if whole:
            seen.write_text(str(offset + whole), encoding="utf-8")
        return text[:whole].decode(errors="replace").splitlines()

    def data(self) -> list[dict[str, Any]]:
        """The JSON objects it printed, one per line; other lines are ignored."""
        try:
            lines = (self.folder / "data").read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []
        found: list[dict[str, Any]] = []
        for line in lines:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                found.append(cast("dict[str, Any]", value))
        return found

    def error_output(self, count: int = 10) -> str:
        """The end of its stderr, from the last error on, for an error message."""
        try:
            lines = (self.folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        errors = [index for index, line in enumerate(lines) if line.startswith("error: ")]
        return "\n".join(lines[errors[-1] :][:count] if errors else lines[-count:])

    def request_stop(self) -> None:
        """Ask its keeper to stop it; return at once."""
        if self.is_here:
            (self.folder / "cancel").touch()

    def kill(self) -> None:
        """Kill what is left: a command that its keeper did not stop, or whose keeper was killed."""
        if _is_locked(self.folder / "busy"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                os.killpg(int((self.folder / "group").read_text(encoding="utf-8")), signal.SIGKILL)

    def end(self) -> None:
        """Stop it and wait until it has ended."""
        self.request_stop()
        deadline = time.monotonic() + GRACE_PERIOD + 5
        while not self.is_over and time.monotonic() < deadline:
            time.sleep(0.1)
        self.kill()

    def forget(self) -> None:
        """Remove its folder and the parent folders that become empty."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            for above in self.folder.parents:
                above.rmdir()


def _is_locked(path: Path) -> bool:
    try:
        with path.open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
