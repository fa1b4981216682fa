"""Spark, Kafka and the registry start from archives of their classes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gearshift import stack as local
from gearshift.settings import load

# In processes of their own: a Python process has one Java process, and this one's may be running already.
_START = """
from pathlib import Path
from gearshift.pipelines.session import end_java, start_java
from gearshift.pipelines.startup import archive
from gearshift.settings import load
settings = load()
java = start_java(settings, log_file=Path("spark.log").absolute())
maps = Path(f"/proc/{java.java.lang.ProcessHandle.current().pid()}/maps").read_text()
end_java()
print(str(archive(settings).path) in maps)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder, and the archives made if they were not."""
    folder = tmp_path_factory.mktemp("training")
    run(folder, "-m", "gearshift.pipelines.training")
    return folder


def run(folder: Path, *arguments: str) -> str:
    said = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert said.returncode == 0, said.stderr
    return said.stdout.strip()


def test_spark_starts_from_the_archive_that_training_leaves(trained: Path) -> None:
    assert run(trained, "-c", _START) == "True"


def test_kafka_and_the_registry_start_from_the_archives_that_training_leaves(trained: Path) -> None:
    with local.up(load({"home": trained / "home"}, folder=trained, environ={})) as stack:
        for service, program in (("kafka-1", "kafka-"), ("registry", "registry-")):
            (pid,) = [running.pid.number for running in stack.services if running.name == service]
            maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
            assert f"/startup/{program}" in maps, service
