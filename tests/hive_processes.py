"""A Hive metastore of its own, and a reader of it: Spark SQL with Hive support, in a process that knows no Gearshift.

`python -m tests.hive_processes NAME=VALUE…` answers queries, one a line of JSON, on stdin and stdout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pyspark

from gearshift.settings import load
from gearshift.spark import class_archive as startup
from tests.support import closed_port, eventually, listening

ROOT = Path(__file__).parent.parent
JARS = Path(pyspark.__file__).parent / "jars" / "*"


@contextmanager
def metastore(folder: Path, port: int | None = None) -> Iterator[str]:
    """Hive's own metastore server over Derby; its URI."""
    port = port or closed_port()
    options = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'db'};create=true",
        "hive.metastore.schema.verification": "false",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.warehouse.dir": str(folder / "warehouse"),
    }
    command = [
        "java",
        "-Xmx300m",
        "-Dhive.async.log.enabled=false",
        "-Dderby.storage.rowLocking=false",
        f"-Dderby.stream.error.file={folder}/derby.log",
    ]
    command += ["-cp", str(JARS), "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    for name, value in options.items():
        command += ["--hiveconf", f"{name}={value}"]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env={**os.environ, "USER": "me"}
        )
        try:
            eventually(lambda: server.poll() is not None or listening(port))
            assert server.poll() is None, (folder / "log").read_text()
            yield f"thrift://127.0.0.1:{port}"
        finally:
            server.kill()
            server.wait()


class Reader:
    """Asks Spark SQL, in another process."""

    def __init__(self, configuration: Mapping[str, str], log: Path) -> None:
        archive = startup.archive(load({}, environ={}))
        derby = f"-Dderby.stream.error.file={log.with_name('derby.log')}"
        starting = {"spark.driver.extraJavaOptions": startup.quoted((*archive.options, derby))}
        with log.open("w") as said:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    __name__,
                    *(f"{name}={value}" for name, value in {**starting, **configuration}.items()),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                cwd=ROOT,
            )
        self._log = log

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def ask(self, query: str) -> list[list[Any]]:
        """The rows, with what JSON has no word for as text."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(query) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, self._log.read_text()[-5000:]
        told = json.loads(answer)
        assert "error" not in told, told["error"]
        return told["rows"]


def main(configuration: list[str]) -> None:
    """Answer until stdin ends."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").appName("reader").enableHiveSupport()
    quiet = ["spark.ui.enabled=false", "spark.ui.showConsoleProgress=false", "spark.sql.shuffle.partitions=1"]
    for option in ["spark.driver.memory=800m", "spark.sql.session.timeZone=UTC", *quiet, *configuration]:
        builder = builder.config(*option.split("=", 1))
    spark = builder.getOrCreate()
    for line in sys.stdin:
        try:
            told: dict[str, Any] = {"rows": [list(row) for row in spark.sql(json.loads(line)).collect()]}
        except PySparkException as error:
            told = {"error": str(error)}
        print(json.dumps(told, default=str), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
