"""A real S3 server on this machine, which checks keys and puts on condition, behind a connection that can be cut.

moto's server and not s3proxy: of sixteen puts at once of a file that must be new, s3proxy 2.7.0 on a file system lets
all sixteen through, and moto one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.support import closed_port, eventually, listening

BUCKET = "gear"
_ROOT = Path(__file__).parents[2]
_PYTHON = _ROOT / ".venv-s3" / "bin" / "python"  # moto needs another python-dateutil than Gearshift


@dataclass
class ObjectStore:
    """The server, an account's keys, and the address under which clients know it."""

    log: Path
    checked: bool = True
    """Whether keys are checked; moto rejects the right ones too where a listed folder has a space in its name."""
    port: int = field(default_factory=closed_port)
    access_key: str = ""
    secret_key: str = ""

    def __enter__(self) -> Self:
        assert _PYTHON.exists(), "make test-cluster makes the environment of the S3 server"
        words = [str(self.port), BUCKET, *(["checked"] if self.checked else [])]
        with ExitStack() as started, self.log.open("wb") as said:
            # Its home is empty, since boto3 would read the keys of this user there.
            environment = {"PATH": os.defpath, "HOME": str(self.log.parent), "PYTHONUNBUFFERED": "1"}
            process = started.enter_context(
                subprocess.Popen(
                    [_PYTHON, Path(__file__).with_name("s3_server.py"), *words],
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=said,
                )
            )
            started.callback(process.kill)
            assert process.stdout is not None
            answer = process.stdout.readline()
            assert answer, self.log.read_text(errors="replace")
            keys = json.loads(answer)
            self.access_key, self.secret_key = keys["access_key"], keys["secret_key"]
            self.relay = started.enter_context(Relay(self.port))
            self._started = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()

    @property
    def endpoint(self) -> str:
        """The address through the relay."""
        return f"http://127.0.0.1:{self.relay.port}"

    def settings(self, folder: str = "") -> dict[str, Any]:
        """The settings with which checkpoints and tables are in a folder of the bucket."""
        root = f"s3a://{BUCKET}/{folder}".rstrip("/")
        return {
            "checkpoints": f"{root}/checkpoints",
            "warehouse": f"{root}/warehouse",
            "storage": {
                "endpoint": self.endpoint,
                "access_key": self.access_key,
                "secret_key": self.secret_key,
            },
        }


class Relay:
    """The way to a port, which can be cut: then nobody answers."""

    def __init__(self, to: int) -> None:
        self.port = closed_port()
        self._to = to
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """End all connections and refuse new ones, until this block is left."""
        self._close()
        try:
            yield
        finally:
            self._open()

    def _open(self) -> None:
        command = [sys.executable, "-m", "tests.cluster.relay", str(self.port), str(self._to)]
        self._process = subprocess.Popen(command, cwd=_ROOT)
        eventually(lambda: listening(self.port))

    def _close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
