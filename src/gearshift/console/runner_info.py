"""The file in the app's folder through which other terminals find its runner."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gearshift.stack.processes.service import Pid
from gearshift.storage.shared_files import write_whole

FILE = "runner.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerInfo:
    """A runner's process, port and token; only its user can read the file."""

    app: str
    file: str
    pid: Pid
    spark_pid: Pid | None
    port: int
    token: str
    host: str = "127.0.0.1"
    https: bool = False
    page: str = ""
    """The address of its page, with the page's token."""

    def write(self, home: Path) -> None:
        """Write the file."""
        write_whole(home / FILE, json.dumps(asdict(self)))

    @classmethod
    def read(cls, home: Path) -> RunnerInfo | None:
        """The file last written, even if its runner has ended; None if there is none."""
        try:
            found = json.loads((home / FILE).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        spark = Pid.from_json(found["spark_pid"]) if found["spark_pid"] else None
        fields: dict[str, Any] = {**found, "pid": Pid.from_json(found["pid"]), "spark_pid": spark}
        return cls(**fields)

    @staticmethod
    def remove(home: Path) -> None:
        """Delete the file."""
        (home / FILE).unlink(missing_ok=True)
