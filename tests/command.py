"""The installed command on the session's stack, as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from gearshift.connection import Connection
from tests.support import cluster_environ

GEARSHIFT = Path(sys.executable).with_name("gearshift")


class Command:
    """Runs `gearshift` in an empty folder, against a cluster that the environment names."""

    def __init__(self, connection: Connection, folder: Path) -> None:
        ours = ("GEARSHIFT_", "NO_COLOR", "FORCE_COLOR")
        self._folder = folder
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(ours)},
            **cluster_environ(connection),
        }

    def __call__(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            [GEARSHIFT, *words],
            cwd=self._folder,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=120,
            input=stdin,
        )

    def start(self, *words: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Run it beside us."""
        return subprocess.Popen(
            [GEARSHIFT, *words],
            cwd=self._folder,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            stdin=stdin,
        )

    def data(self, *words: str) -> Any:
        """What a command that succeeds prints with `-o json`."""
        done = self(*words, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def refusal(self, *words: str, code: int = 1, stdin: str = "") -> str:
        """What a command that fails says: on stderr only, and without a traceback."""
        done = self(*words, stdin=stdin)
        assert done.returncode == code, done
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        return done.stderr
