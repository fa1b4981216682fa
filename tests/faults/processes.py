"""Runners in processes of their own, which a test can kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gearshift.console.client import ask
from gearshift.console.problems import restore
from gearshift.console.runner_info import RunnerInfo
from gearshift.errors import RunnerError
from gearshift.settings import Settings
from gearshift.stack.processes.service import wait_ended
from tests.support import eventually

_ROOT = Path(__file__).parents[2]
_UP_WITHIN = timedelta(seconds=240)
_ENDS_WITHIN = timedelta(seconds=120)


def write_settings(settings: Settings, folder: Path) -> None:
    """Leave a `gearshift.toml` with which a process started in this folder has the same settings."""
    interval = f"{settings.checkpoint_interval.total_seconds():.0f} seconds"
    lines = {
        "home": settings.home,
        "bootstrap_servers": settings.bootstrap_servers,
        "registry_url": settings.registry_url,
        "checkpoint_interval": interval,
        **{
            name: value
            for name in ("checkpoints", "warehouse", "spark_master")
            if (value := getattr(settings, name))
        },
    }
    for table in ("kafka", "registry", "storage", "spark"):
        entries = settings.revealed().get(table, {})
        lines |= {f'{table}."{name}"': value for name, value in entries.items()}
    text = "".join(f'{name} = "{value}"\n' for name, value in lines.items())
    (folder / "gearshift.toml").write_text(text, encoding="utf-8")


class RunnerProcess:
    """A runner in a process of its own; leaving it leaves nothing running, however it ended."""

    def __init__(self, settings: Settings, folder: Path, command: list[str]) -> None:
        self._home = settings.home
        self._log = folder / "runner.log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GEARSHIFT_")}
        with self._log.open("ab") as said:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={
                    **environment,
                    "PYTHONPATH": f"{_ROOT}{os.pathsep}{_ROOT / 'src'}",
                },
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    @classmethod
    def of_file(cls, settings: Settings, folder: Path, file: str, *options: str) -> Self:
        """`gearshift run FILE` in a folder."""
        return cls(
            settings, folder, [str(Path(sys.executable).with_name("gearshift")), "run", file, *options]
        )

    @classmethod
    def of_module(cls, settings: Settings, folder: Path, module: str, *arguments: str) -> Self:
        """`python -m MODULE` in a folder."""
        return cls(settings, folder, [sys.executable, "-m", module, *arguments])

    def gears(self) -> dict[str, str]:
        """The gear of every pipeline, once the runner answers and all of them run."""

        def running() -> dict[str, str] | None:
            assert self._process.poll() is None, f"the runner ended:\n{self.said()}"
            try:
                status = next(ask(self._home, "GET", "/api/status"))
            except RunnerError:
                return None
            found = {entry["name"]: entry for entry in status["pipelines"]}
            if any(entry["state"] not in ("running", "waiting") for entry in found.values()):
                return None
            return {name: entry["gear"] for name, entry in found.items()}

        return eventually(running, within=_UP_WITHIN)

    def shift(self, pipeline: str, gear: str) -> dict[str, Any]:
        """Bring a pipeline into a gear from another process, as `gearshift shift` does."""
        return self.post(f"{pipeline}/shift", {"gear": gear, "now": False})["shifted"]

    def post(self, path: str, wanted: dict[str, Any]) -> dict[str, Any]:
        """The last line of the answer to a request about a pipeline."""
        line: dict[str, Any] = {}
        for line in ask(self._home, "POST", f"/api/pipelines/{path}", wanted):
            if "error" in line:
                raise restore(line["error"])
        return line

    @property
    def pids(self) -> tuple[int, int]:
        """Its process and that of its Spark, while it runs."""
        info = RunnerInfo.read(self._home)
        assert info is not None and info.spark_pid is not None and info.pid.number == self._process.pid
        return info.pid.number, info.spark_pid.number

    def await_said(self, words: str) -> None:
        """Wait until its output has these words."""

        def found() -> bool:
            assert self._process.poll() is None, f"the runner ended:\n{self.said()}"
            return words in self.said()

        eventually(found)

    def await_refused(self) -> str:
        """Wait until it has ended by itself with an error; its output."""
        assert self._process.wait(_UP_WITHIN.total_seconds()) == 1, self.said()
        return self.said()

    def kill(self) -> None:
        """`kill -9`."""
        assert self._process.poll() is None, f"the runner ended by itself:\n{self.said()}"
        self._process.kill()
        self._process.wait()

    def wait_killed(self) -> None:
        """Wait until it has killed itself."""
        try:
            code = self._process.wait(_UP_WITHIN.total_seconds())
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the runner lives on:\n{self.said()}") from None
        assert code == -signal.SIGKILL, f"the runner ended with {code}:\n{self.said()}"

    def stop(self) -> None:
        """Ask it to end, as Ctrl-C does."""
        self._process.terminate()
        assert self._process.wait(_ENDS_WITHIN.total_seconds()) == 0, self.said()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        note = RunnerInfo.read(self._home)
        spark = note.spark_pid if note else None
        if error is not None and spark is not None and not wait_ended([spark], within=timedelta(seconds=10)):
            os.kill(spark.number, signal.SIGKILL)

    def said(self) -> str:
        """The end of its output."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-4000:]
