"""YARN on this machine: a ResourceManager and a NodeManager from the jar that HDFS starts from, without passwords."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Self
from xml.sax.saxutils import escape

import pyspark

from gearshift.settings import load
from gearshift.stack.artifacts.artifacts import fetch, jars
from gearshift.stack.artifacts.java import environment, properties_text, require_java
from tests.support import closed_port, eventually, listening

_SERVER = "org.apache.hadoop.yarn.server"
_MANAGER = f"{_SERVER}.resourcemanager.ResourceManager"
_NODE = f"{_SERVER}.nodemanager.NodeManager"
_HEAP = "256m"


class Yarn:
    """The two processes; `conf` is what an app's HADOOP_CONF_DIR names."""

    def __init__(self, folder: Path, hdfs: str) -> None:
        self.conf = folder / "conf"
        self._folder = folder
        self._hdfs = hdfs
        self._ports = {name: closed_port() for name in ("manager", "scheduler", "tracker", "admin", "page")}
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        self._configure()
        with ExitStack() as started:
            self._exit = started
            self._start("manager", _MANAGER)
            eventually(lambda: all(listening(port) for port in self._ports.values()))
            self._start("node", _NODE)
            self._exit = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def settings(self) -> dict[str, object]:
        """What an app needs to run on it, beside `HADOOP_CONF_DIR`."""
        return {
            "spark_master": "yarn",
            "spark": {
                "spark.driver.memory": "1g",
                "spark.executor.instances": "1",
                "spark.executor.cores": "10",
                "spark.executor.memory": "640m",
                "spark.yarn.am.memory": "256m",
                # On each machine already: else Spark packs all its jars and uploads them at every start.
                "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
            },
        }

    def _configure(self) -> None:
        at = {name: f"127.0.0.1:{port}" for name, port in self._ports.items()}
        manager, node = "yarn.resourcemanager", "yarn.nodemanager"
        yarn = {
            f"{manager}.hostname": "127.0.0.1",
            f"{manager}.address": at["manager"],
            f"{manager}.scheduler.address": at["scheduler"],
            f"{manager}.resource-tracker.address": at["tracker"],
            f"{manager}.admin.address": at["admin"],
            f"{manager}.webapp.address": at["page"],
            f"{manager}.scheduler.class": f"{_SERVER}.resourcemanager.scheduler.fifo.FifoScheduler",
            f"{node}.hostname": "127.0.0.1",
            f"{node}.address": "127.0.0.1:0",
            f"{node}.localizer.address": f"127.0.0.1:{closed_port()}",
            f"{node}.collector-service.address": f"127.0.0.1:{closed_port()}",
            f"{node}.webapp.address": f"127.0.0.1:{closed_port()}",
            f"{node}.local-dirs": self._folder / "local",
            f"{node}.log-dirs": self._folder / "logs",
            f"{node}.resource.memory-mb": 4096,
            f"{node}.resource.cpu-vcores": 16,
            f"{node}.vmem-check-enabled": "false",
            f"{node}.pmem-check-enabled": "false",
            f"{node}.disk-health-checker.max-disk-utilization-per-disk-percentage": 100,
            "yarn.scheduler.minimum-allocation-mb": 128,
            "yarn.scheduler.maximum-allocation-vcores": 16,
        }
        # The jar has the page of the ResourceManager, and not the NodeManager's, whose server wants the folder.
        (self.conf / "webapps" / "node").mkdir(parents=True)
        for name, properties in (("core-site.xml", {"fs.defaultFS": self._hdfs}), ("yarn-site.xml", yarn)):
            lines = "".join(
                f"<property><name>{key}</name><value>{escape(str(value))}</value></property>\n"
                for key, value in properties.items()
            )
            (self.conf / name).write_text(f"<configuration>\n{lines}</configuration>\n", encoding="utf-8")
        log = {
            "rootLogger.level": "info",
            "rootLogger.appenderRef.out.ref": "out",
            "appender.out.type": "Console",
            "appender.out.name": "out",
            "appender.out.layout.type": "PatternLayout",
            "appender.out.layout.pattern": "%d %p %c{1}: %m%n%ex",
        }
        (self.conf / "log4j2.properties").write_text(properties_text(log), encoding="ascii")

    def _start(self, name: str, program: str) -> None:
        cache = load({}, environ={}).cache
        fetch("hdfs", "yarn", cache=cache)
        shipped = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
        classes = [
            self.conf,
            *jars("hdfs", cache=cache),
            *jars("yarn", cache=cache),
            *(jar for jar in shipped if "spark-" not in jar.name),
        ]
        java = require_java()
        with (self._folder / f"{name}.log").open("ab") as said:
            process = subprocess.Popen(
                [java, f"-Xmx{_HEAP}", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true", program],
                cwd=self._folder,
                env={
                    **environment(classes),
                    "HADOOP_CONF_DIR": str(self.conf),
                    "JAVA_HOME": str(java.resolve().parents[1]),
                    "JDK_JAVA_OPTIONS": os.environ.get("JDK_JAVA_OPTIONS", ""),
                },
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        self._exit.callback(_end, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """A NodeManager that is asked to end ends its containers."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
