"""A real Airflow in its own environment and folder; Gearshift's command is that of the test environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

BIN = Path(__file__).parents[2] / ".venv-airflow" / "bin"
GEARSHIFT = Path(sys.executable).with_name("gearshift")


class Airflow:
    """An Airflow with an empty database, whose DAGs the tests write."""

    def __init__(self, home: Path) -> None:
        assert (BIN / "airflow").exists(), "no Airflow to test with; run make .venv-airflow/done"
        self.home = home
        self.dags = home / "dags"
        self.runs = home / "gearshift"
        self.dags.mkdir(parents=True)
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AIRFLOW", "GEARSHIFT", "FORCE_COLOR"))
        }
        self.environ = {
            **inherited,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "120",
            "GEARSHIFT_COMMAND": str(GEARSHIFT),
            "NO_COLOR": "1",
            "COLUMNS": "500",
        }
        self("db", "migrate")

    def __call__(self, *words: str, code: int = 0, **more: str) -> str:
        """Run an `airflow` command and return its output."""
        done = subprocess.run(
            [BIN / "airflow", *words],
            cwd=self.home,
            env={**self.environ, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def start(self, *words: str, log: Path) -> subprocess.Popen[bytes]:
        """Run an `airflow` command in the background."""
        with log.open("wb") as file:
            return subprocess.Popen(
                [BIN / "airflow", *words],
                cwd=self.home,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def python(self, script: Path, *words: str) -> Any:
        """The JSON that a script in Airflow's environment prints on its last line."""
        done = subprocess.run(
            [BIN / "python", script, *words],
            cwd=self.home,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def write_dag(self, name: str, text: str) -> None:
        """Write a file to Airflow's DAG folder."""
        (self.dags / f"{name}.py").write_text(text, encoding="utf-8")


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    """One Airflow for all tests."""
    return Airflow(tmp_path_factory.mktemp("airflow"))


def write_app(folder: Path, text: str, settings: Mapping[str, str] | None = None) -> Path:
    """Write an app to its own folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "shop.py"
    file.write_text(text, encoding="utf-8")
    lines = [f'{name} = "{value}"' for name, value in (settings or {}).items()]
    (folder / "gearshift.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file
