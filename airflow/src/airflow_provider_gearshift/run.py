"""One run of the command, known by its folder: whoever has the folder can follow it, end it, or take it over."""

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

PATIENCE = 20.0
"""Seconds a command has to end by itself when it is cancelled."""
_KEEPER = Path(__file__).with_name("keeper.py")


@dataclass(frozen=True, slots=True)
class Run:
    """A command that goes on whatever becomes of the process that started it."""

    folder: Path

    @classmethod
    def start(cls, folder: Path, command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Run:
        """Start a command in its own session; its environment is handed over and never written down."""
        folder.mkdir(parents=True, mode=0o700)
        # The keeper leaves its parent at once, so this is no wait for the command.
        subprocess.run(
            [sys.executable, "-I", str(_KEEPER), str(folder), str(PATIENCE), *command],
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
        """How it ended; None while it runs, and for good if it was killed together with its keeper."""
        try:
            return int((self.folder / "exit").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    @property
    def is_kept(self) -> bool:
        """Whether its keeper lives."""
        return _is_locked(self.folder / "alive")

    @property
    def is_over(self) -> bool:
        """Whether it has ended, one way or the other."""
        return not self.is_kept or self.exit_code is not None

    def new_lines(self) -> list[str]:
        """What it has said on stderr since this was last asked, by whomever."""
        seen = self.folder / "seen"
        offset = int(seen.read_text(encoding="utf-8")) if seen.exists() else 0
        over = self.is_over  # asked first: what comes before the end must not be missed
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
        """The JSON objects that it has printed, one a line; other lines are somebody's stray words."""
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

    def last_words(self, count: int = 10) -> str:
        """The end of what it said on stderr, for the error that is made of it."""
        try:
            lines = (self.folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        errors = [index for index, line in enumerate(lines) if line.startswith("error: ")]
        return "\n".join(lines[errors[-1] :][:count] if errors else lines[-count:])

    def ask_to_end(self) -> None:
        """Have its keeper end it; returns at once."""
        if self.is_here:
            (self.folder / "cancel").touch()

    def kill(self) -> None:
        """KILL what is left of it: a command that its keeper does not end, or whose keeper was killed."""
        if _is_locked(self.folder / "busy"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                os.killpg(int((self.folder / "group").read_text(encoding="utf-8")), signal.SIGKILL)

    def end(self) -> None:
        """End it, and return when it has ended."""
        self.ask_to_end()
        deadline = time.monotonic() + PATIENCE + 5
        while not self.is_over and time.monotonic() < deadline:
            time.sleep(0.1)
        self.kill()

    def forget(self) -> None:
        """Remove its folder, and those above it of which it was the last."""
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
