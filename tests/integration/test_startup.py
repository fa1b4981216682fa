"""Spark and Kafka start from archives of their classes, and the private parts of Spark that are used are there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gearshift as gs
from gearshift import stack as local
from gearshift.settings import load
from gearshift.spark import private
from gearshift.spark.session import open_session
from gearshift.stack.artifacts.artifacts import jars

# In processes of their own: a Python process has one Java process, and this one's may be running already.
_START = """
from pathlib import Path
from gearshift.spark.session import end_java, start_java
from gearshift.spark.class_archive import archive
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
    run(folder, "-m", "gearshift.spark.training")
    return folder


def run(folder: Path, *arguments: str) -> str:
    said = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert said.returncode == 0, said.stderr
    return said.stdout.strip()


def test_spark_starts_from_the_archive_that_training_leaves(trained: Path) -> None:
    assert run(trained, "-c", _START) == "True"


def test_kafka_starts_from_the_archive_that_training_leaves(trained: Path) -> None:
    with local.up(load({"home": trained / "home"}, folder=trained, environ={})) as stack:
        (pid,) = [running.pid.number for running in stack.services if running.name == "kafka-1"]
        assert "/startup/kafka-" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


def test_the_private_parts_of_spark_that_are_used_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load({"home": tmp_path, "spark_master": "local[2]"}, environ={})
    found = jars("spark", cache=settings.cache)
    spark = open_session(gs.App("x").graph, settings, found, log_file=tmp_path / "logs" / "spark.log")
    try:
        assert private.self_test(spark, admin_timeout_ms=3000) == []
        monkeypatch.setattr(private, "_ADMIN", "org.apache.kafka.clients.admin.Renamed")
        (broken,) = private.self_test(spark, admin_timeout_ms=3000)
        assert broken.startswith(f"set_admin_timeout does not work with Spark {spark.version}: Py4JJavaError")
    finally:
        spark.stop()
