"""HDFS 3.5 from one jar: a NameNode and a DataNode on loopback, without passwords, as on most clusters to try things."""

from __future__ import annotations

import http.client
import json
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from gearshift.errors import StackError
from gearshift.stack.artifacts.java import environment, properties_text
from gearshift.stack.processes.ports import HOST
from gearshift.stack.processes.service import Service
from gearshift.storage.shared_files import write_whole

GROUPS = ("hdfs",)
PORTS = ("hdfs", "hdfs-http", "hdfs-data", "hdfs-data-ipc", "hdfs-data-http")
HEAP = 256 << 20  # of each of the two
_NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_STATE = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hdfs:
    """A NameNode and a DataNode: their data folder and their ports."""

    folder: Path
    logs: Path
    java: Path
    jars: tuple[Path, ...]
    ports: dict[str, int]

    def services(self) -> list[Service]:
        """Both, with the file system's name folder created, ready to start."""
        self._configure()
        if not self._data("name").exists():
            self._format()
        port = self.ports["hdfs"]
        name_node = Service(
            name="hdfs",
            command=self._command(_NAME_NODE),
            environment=self._environment(),
            log=self.logs / "hdfs.log",
            port=port,
            address=f"hdfs://{HOST}:{port}",
            ready=lambda: live_data_nodes(self.ports["hdfs-http"]) is not None,
        )
        data_node = Service(
            name="hdfs-datanode",
            command=self._command(_DATA_NODE),
            environment=self._environment(),
            log=self.logs / "hdfs-datanode.log",
            port=self.ports["hdfs-data"],
            ready=lambda: bool(live_data_nodes(self.ports["hdfs-http"])),
        )
        return [name_node, data_node]

    def _configure(self) -> None:
        at = {name: f"{HOST}:{port}" for name, port in self.ports.items()}
        core = {"fs.defaultFS": f"hdfs://{at['hdfs']}", "hadoop.tmp.dir": self._data("tmp")}
        own = {
            "dfs.namenode.name.dir": self._data("name").as_uri(),
            "dfs.datanode.data.dir": self._data("data").as_uri(),
            "dfs.replication": 1,
            "dfs.namenode.http-address": at["hdfs-http"],
            "dfs.datanode.address": at["hdfs-data"],
            "dfs.datanode.ipc.address": at["hdfs-data-ipc"],
            "dfs.datanode.http.address": at["hdfs-data-http"],
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            # A restarted NameNode takes writes as soon as it knows the blocks.
            "dfs.namenode.safemode.extension": 0,
            "dfs.namenode.handler.count": 4,
            "dfs.blocksize": 16 << 20,
        }
        for name, properties in (("core-site.xml", core), ("hdfs-site.xml", own)):
            lines = (
                f"<property><name>{key}</name><value>{escape(str(value))}</value></property>\n"
                for key, value in properties.items()
            )
            write_whole(self._conf / name, f"<configuration>\n{''.join(lines)}</configuration>\n")
        log = {
            "rootLogger.level": "warn",
            "rootLogger.appenderRef.out.ref": "out",
            "appender.out.type": "Console",
            "appender.out.name": "out",
            "appender.out.layout.type": "PatternLayout",
            "appender.out.layout.pattern": "%d %p %c{1}: %m%n%ex",
        }
        write_whole(self._conf / "log4j2.properties", properties_text(log))

    def _format(self) -> None:
        """Create the name folder of an empty file system."""
        done = subprocess.run(
            [*self._command(_NAME_NODE), "-format", "-nonInteractive", "-force"],
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise StackError(f"cannot create HDFS's name folder: {done.stdout.strip()[-2000:]}")

    def _command(self, program: str) -> tuple[str, ...]:
        return (
            str(self.java),
            f"-Xmx{HEAP >> 20}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:+ExitOnOutOfMemoryError",
            "-Djava.net.preferIPv4Stack=true",
            program,
        )

    def _environment(self) -> dict[str, str]:
        return environment((self._conf, *self.jars, *_spark_jars()))

    def _data(self, name: str) -> Path:
        return self.folder.absolute() / name

    @property
    def _conf(self) -> Path:
        return self.folder.absolute() / "conf"


def live_data_nodes(http_port: int) -> int | None:
    """How many DataNodes the NameNode at this port has once it takes writes; None if it does not answer."""
    connection = http.client.HTTPConnection(HOST, http_port, timeout=2)
    try:
        connection.request("GET", _STATE)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            return None
        beans: list[dict[str, Any]] = json.loads(answer.read())["beans"]
        if not beans:
            return None
        state = beans[0]
        return int(state["NumLiveDataNodes"]) if state["FSState"] == "Operational" else 0
    except (OSError, http.client.HTTPException, ValueError, KeyError):
        return None
    finally:
        connection.close()


def _spark_jars() -> list[Path]:
    """What Hadoop's servers need in addition to their own jar: PySpark ships it."""
    spec = find_spec("pyspark")
    folders = (spec.submodule_search_locations if spec else None) or []
    return [
        jar
        for folder in folders
        for jar in sorted((Path(folder) / "jars").glob("*.jar"))
        if not jar.name.startswith("spark-")
    ]
