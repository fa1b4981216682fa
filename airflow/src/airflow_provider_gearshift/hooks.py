"""Find and call the `gearshift` command. Gearshift itself is never imported: it has its own environment."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException


class GearshiftHook(BaseHook):
    """The `gearshift` command of an app.

    The command is `command`, or else that of the connection, $GEARSHIFT_COMMAND, or `gearshift` on the PATH. A
    connection of type `gearshift` has it in its extra, optionally with a folder and environment variables:
    `{"command": "/srv/shop/.venv/bin/gearshift", "folder": "/srv/shop", "env": {"GEARSHIFT_PROFILE": "production"}}`.
    """

    conn_name_attr = "gearshift_conn_id"
    default_conn_name = "gearshift_default"
    conn_type = "gearshift"
    hook_name = "Gearshift"

    def __init__(
        self,
        *,
        file: str | os.PathLike[str],
        command: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        gearshift_conn_id: str | None = None,
    ) -> None:
        super().__init__()
        connection: Any = self.get_connection(gearshift_conn_id) if gearshift_conn_id else None
        extra: dict[str, Any] = connection.extra_dejson if connection else {}
        self.words = _find(
            command or extra.get("command") or os.environ.get("GEARSHIFT_COMMAND") or "gearshift"
        )
        chosen = folder or extra.get("folder")
        self.file = (Path(chosen) / file if chosen else Path(file)).absolute()
        self.folder = Path(chosen).absolute() if chosen else self.file.parent
        self.env = {**_inherited(), **extra.get("env", {}), **(env or {})}
        if not self.folder.is_dir():
            raise AirflowFailException(
                f"folder {self.folder}, in which to run {self.words[0]}, does not exist"
            )

    def read(self, *words: str, timeout: float = 60) -> Any:
        """Run a read-only command and return its JSON output."""
        command = [*self.words, *words, "-o", "json"]
        called = shlex.join(command)
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
            )
        except OSError as error:
            raise AirflowFailException(f"{called}: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise AirflowException(f"{called}: no answer within {timeout:g} seconds") from None
        if done.returncode != 0:
            kind = AirflowFailException if done.returncode == 2 else AirflowException
            raise kind(f"{called}: {done.stderr.strip() or f'exit code {done.returncode}'}")
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise AirflowFailException(
                f"{called} did not print JSON but {done.stdout[:200]!r}; check that it is the gearshift command"
            ) from None

    def pipeline(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The app's graph and one of its pipelines."""
        graph = self.read("graph", str(self.file))
        found = next((each for each in graph["pipelines"] if each["name"] == name), None)
        if found is None:
            names = (
                ", ".join(each["name"] for each in graph["pipelines"]) or "another file: this one has none"
            )
            raise AirflowFailException(f"unknown pipeline {name!r} in {self.file}; use {names}")
        return graph, found


def _find(command: str) -> list[str]:
    """The command line, with the program resolved on the PATH."""
    words = shlex.split(command)
    program = shutil.which(words[0]) if words else None
    if program is None:
        raise AirflowFailException(
            f"command {command!r} not found; set command=, the connection's extra or GEARSHIFT_COMMAND "
            "to Gearshift's command, such as /srv/shop/.venv/bin/gearshift"
        )
    return [program, *words[1:]]


def _inherited() -> dict[str, str]:
    """The current environment without Airflow's settings, which contain the credentials of its database.

    GEARSHIFT_COMMAND is removed too: Gearshift rejects settings that it does not know.
    """
    removed = ("AIRFLOW", "_AIRFLOW", "GEARSHIFT_COMMAND")
    return {name: value for name, value in os.environ.items() if not name.startswith(removed)}
