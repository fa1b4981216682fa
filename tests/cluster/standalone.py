"""A Spark standalone cluster on this machine, from PySpark's wheel: a master, and workers that a test can kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pyspark

from tests.support import closed_port, eventually, listening

_HOME = Path(pyspark.__file__).parent
_SECRET = "a-secret-of-the-tests"
SLOTS = 10
"""Of one worker: enough for every real-time query of the test, so that one worker may be lost."""


class StandaloneCluster:
    """Processes of their own, which know nothing of this Python's path, and open only to those with the secret."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._count = workers
        self._exit = ExitStack()
        self.master = f"spark://127.0.0.1:{closed_port()}"
        self.workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        conf = self._folder / "conf"
        conf.mkdir(parents=True)
        entries = {"spark.authenticate": "true", "spark.authenticate.secret": _SECRET}
        text = "".join(f"{name} {value}\n" for name, value in entries.items())
        (conf / "spark-defaults.conf").write_text(text, encoding="utf-8")
        with ExitStack() as started:
            self._exit = started
            port = self.master.rpartition(":")[2]
            self._start("master.Master", "--host", "127.0.0.1", "--port", port)
            eventually(lambda: listening(int(port)))
            self.workers = [self._worker(number) for number in range(self._count)]
            self._exit = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def settings(self, spark: Mapping[str, str] | None = None) -> dict[str, object]:
        """What an app needs to run on it, and its further Spark configuration."""
        return {
            "spark_master": self.master,
            "spark": {
                "spark.executor.memory": "640m",
                "spark.driver.memory": "1g",
                "spark.authenticate": "true",
                "spark.authenticate.secret": _SECRET,
                **(spark or {}),
            },
        }

    def kill_worker(self) -> None:
        """`kill -9` of one and of its executors, as a machine that is lost takes both."""
        worker = self.workers.pop(0)
        executors = Path(f"/proc/{worker.pid}/task").glob("*/children")
        killed = [int(number) for file in executors for number in file.read_text().split()]
        assert killed, "the worker runs no executor"
        for number in (worker.pid, *killed):
            os.kill(number, signal.SIGKILL)
        worker.wait()

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        folder = self._folder / f"worker-{number}"
        return self._start(
            "worker.Worker", "--cores", str(SLOTS), "--memory", "1g", "--work-dir", str(folder), self.master
        )

    def _start(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        log = self._folder / f"{program}.log"
        environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "JDK_JAVA_OPTIONS": os.environ.get("JDK_JAVA_OPTIONS", ""),
            "SPARK_HOME": str(_HOME),
            "SPARK_CONF_DIR": str(self._folder / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "192m",
        }
        with log.open("ab") as said:
            process = subprocess.Popen(
                [
                    _HOME / "bin" / "spark-class",
                    f"org.apache.spark.deploy.{program}",
                    "--webui-port",
                    "0",
                    *words,
                ],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        self._exit.callback(_end, process)
        return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """A worker that is asked to end ends its executors."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
