"""Apache Kafka in KRaft mode: one or three combined brokers and controllers on loopback."""

from __future__ import annotations

import base64
import re
import secrets
import signal
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gearshift.errors import StackError
from gearshift.stack.artifacts.java import environment, properties_text
from gearshift.stack.processes.ports import HOST
from gearshift.stack.processes.service import Service
from gearshift.stack.services import kafka_login
from gearshift.stack.services.kafka_login import Login
from gearshift.stack.services.kafka_metadata import request_metadata
from gearshift.storage.shared_files import write_whole

LOG4J = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
logger.config.name = org.apache.kafka.common.config.AbstractConfig
logger.config.level = warn
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""
_START_FAST = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """A cluster: its data folder, its number of brokers, and their ports."""

    folder: Path
    logs: Path
    java: Path
    jars: tuple[Path, ...]
    brokers: int
    ports: Mapping[str, int]
    startup: tuple[str, ...] = ()
    """Java options for a faster start."""

    @property
    def bootstrap_servers(self) -> str:
        """The address of every broker."""
        return ",".join(f"{HOST}:{self.ports[name]}" for name in names(self.brokers))

    def services(self) -> list[Service]:
        """The brokers, configured and with formatted storage, ready to start."""
        cluster = self._cluster_id()
        client = kafka_login.login_of(self.folder, make=True)
        superuser = kafka_login.superuser_of(self.folder, make=True)
        write_whole(client_file(self.folder), properties_text(client.java_properties()))
        if superuser != client:
            write_whole(admin_file(self.folder), properties_text(superuser.java_properties()))
        write_whole(self.folder / "log4j2.properties", LOG4J)
        for node in self._nodes:
            write_whole(self._file(node), self._properties(node, superuser))
        self._format(cluster, {client, superuser} if superuser != client else set())
        return [self._service(node, cluster, superuser) for node in self._nodes]

    @property
    def _nodes(self) -> range:
        return range(1, self.brokers + 1)

    def _file(self, node: int) -> Path:
        return self.folder / f"kafka-{node}.properties"

    def _data(self, node: int) -> Path:
        return self.folder / f"kafka-{node}"

    def _cluster_id(self) -> str:
        file = self.folder / "cluster-id"
        if not file.exists():
            # An id is base64; Kafka rejects one that starts with a hyphen.
            write_whole(
                file, "g" + base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")[1:]
            )
        return file.read_text(encoding="utf-8").strip()

    def _properties(self, node: int, superuser: Login) -> str:
        copies = self.brokers
        in_sync = 2 if self.brokers == 3 else 1
        own, controller = self.ports[f"kafka-{node}"], self.ports[f"kafka-{node}-controller"]
        voters = ",".join(f"{n}@{HOST}:{self.ports[f'kafka-{n}-controller']}" for n in self._nodes)
        properties: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": node,
            # A static quorum: ports are read from this file at each start, so they may change between two starts.
            "controller.quorum.voters": voters,
            "listeners": f"BROKER://{HOST}:{own},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"BROKER://{HOST}:{own}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "BROKER",
            # Every user of the machine, and any web page in a browser, can reach loopback: all listeners need a password.
            **kafka_login.broker_properties(self.folder, superuser),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "log.dirs": self._data(node).absolute(),
            "auto.create.topics.enable": "false",
            "default.replication.factor": copies,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": in_sync,
            # The default of 50 partitions per internal topic costs a small machine seconds at each start and stop.
            "offsets.topic.num.partitions": 8,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.num.partitions": 4,
            "group.initial.rebalance.delay.ms": 0,
            # A dead consumer is detected after this; the default of 45 s is meant for distributed clusters.
            "group.consumer.min.session.timeout.ms": 6000,
            "group.consumer.session.timeout.ms": 10000,
            "group.consumer.min.heartbeat.interval.ms": 1000,
            "group.consumer.heartbeat.interval.ms": 2000,
            # A transaction of a killed producer is aborted this soon after its timeout, not up to 10 s later.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
            # Allows an occasional large record; the producers' own limit keeps them rare.
            "message.max.bytes": 10485880,
            # A killed broker is fenced after this and can only then rejoin; the default of 9 s makes that slow.
            "broker.session.timeout.ms": 6000,
            "broker.heartbeat.interval.ms": 1000,
        }
        return properties_text(properties)

    def _format(self, cluster: str, scram: Iterable[Login]) -> None:
        fresh = [node for node in self._nodes if not (self._data(node) / "meta.properties").exists()]
        if not fresh:
            return
        # `ps` shows a command line, and so the passwords, to everyone: Java reads these words from a file.
        words = self.folder / "format"
        added = " ".join(f'--add-scram "{login.scram_credential}"' for login in scram)
        write_whole(words, f"kafka.tools.StorageTool format {added}\n")
        command = [self.java, "-Xmx128m", *_START_FAST, *self.startup, f"@{words}", "-t", cluster, "-c"]
        with ExitStack() as ended:
            ended.callback(words.unlink)
            running = [
                ended.enter_context(
                    subprocess.Popen(
                        [*command, self._file(node)],
                        env=environment(self.jars),
                        umask=0o077,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        text=True,
                    )
                )
                for node in fresh
            ]
            for node, process in zip(fresh, running, strict=True):
                output, _ = process.communicate()
                if process.returncode != 0:
                    raise StackError(f"cannot format the storage of kafka-{node}: {output.strip()}")

    def _service(self, node: int, cluster: str, superuser: Login) -> Service:
        name = f"kafka-{node}"
        port = self.ports[name]

        def ready() -> bool:
            found = request_metadata(HOST, port, superuser)
            return found is not None and found.id == cluster and len(found.brokers) >= self.brokers

        return Service(
            name=name,
            command=(
                str(self.java),
                "-Xmx512m" if self.brokers == 1 else "-Xmx400m",
                *self.startup,
                f"-Dlog4j2.configurationFile={(self.folder / 'log4j2.properties').absolute()}",
                "kafka.Kafka",
                str(self._file(node).absolute()),
            ),
            environment=environment(self.jars),
            log=self.logs / f"{name}.log",
            port=port,
            ready=ready,
            # A controlled shutdown waits for minutes once a majority of the controllers has ended.
            orphan_signal=None if self.brokers == 1 else signal.SIGKILL,
        )


def client_file(folder: Path) -> Path:
    """The configuration with which any Java client connects: `kafka-topics.sh --command-config FILE`."""
    return folder.absolute() / "client.properties"


def admin_file(folder: Path) -> Path:
    """The same for the superuser of a secured Kafka: `kafka-acls.sh --command-config FILE`."""
    return folder.absolute() / "admin.properties"


def failed_storage(log: Path) -> str | None:
    """Why a broker shut down because it could not write its data; None if that is not the reason."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    if "Shutdown broker because all log dirs" not in text:
        return None
    causes = re.findall(r"ERROR LogDirFailureChannel: .*\n(?:[\w.$]+: )?(.+)", text)
    return causes[-1] if causes else "its log directory failed"


def names(brokers: int) -> list[str]:
    """The names of the brokers.

    >>> names(3)
    ['kafka-1', 'kafka-2', 'kafka-3']
    """
    return [f"kafka-{node}" for node in range(1, brokers + 1)]


def port_names(brokers: int) -> list[str]:
    """The names of the ports of this many brokers."""
    return [name for broker in names(brokers) for name in (broker, f"{broker}-controller")]


def brokers_in(folder: Path) -> int | None:
    """The number of brokers with data in this folder; None if there are none yet."""
    return sum((folder / name / "meta.properties").exists() for name in names(3)) or None
