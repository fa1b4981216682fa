"""Spark starts from an archive of its classes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
print(str(archive(settings)) in maps)
"""


def test_spark_starts_from_the_archive_that_training_leaves(tmp_path: Path) -> None:
    for command in (["-m", "gearshift.pipelines.training"], ["-c", _START]):
        said = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
        )
        assert said.returncode == 0, said.stderr
    assert said.stdout.strip() == "True"
