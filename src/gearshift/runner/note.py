"""The runner's note: where it answers, left in the app's folder for the commands of other terminals."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gearshift.stack.files import write_whole
from gearshift.stack.processes import Pid

FILE = "runner.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Who runs, and where it answers; only this user can read it, for it holds the token."""

    app: str
    file: str
    pid: Pid
    spark_pid: Pid | None
    port: int
    token: str

    def leave(self, home: Path) -> None:
        """Write the note."""
        write_whole(home / FILE, json.dumps(asdict(self)))

    @classmethod
    def find(cls, home: Path) -> Note | None:
        """The note last left, whether or not its runner lives."""
        try:
            found = json.loads((home / FILE).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        spark = Pid(**found["spark_pid"]) if found["spark_pid"] else None
        kept: dict[str, Any] = {**found, "pid": Pid(**found["pid"]), "spark_pid": spark}
        return cls(**kept)

    @staticmethod
    def remove(home: Path) -> None:
        """Take the note away."""
        (home / FILE).unlink(missing_ok=True)
