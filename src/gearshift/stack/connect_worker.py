"""Kafka Connect: one worker on loopback, from its jars, with Debezium's connector for PostgreSQL."""

from __future__ import annotations

import base64
import http.client
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gearshift.errors import StackError
from gearshift.settings import Settings
from gearshift.stack import artifacts
from gearshift.stack.accounts import Account, account_of
from gearshift.stack.files import write_whole
from gearshift.stack.java import environment, properties_text
from gearshift.stack.kafka import LOG4J
from gearshift.stack.ports import HOST
from gearshift.stack.processes import Service

HEAP = 384 << 20
GROUPS = ("connect", "debezium")
_LOGIN = """\
KafkaConnect {{
  org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required file="{file}";
}};
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """A worker: which Kafka it works for, where its connectors' secrets are, and on which port it answers."""

    folder: Path
    logs: Path
    java: Path
    jars: tuple[Path, ...]
    plugins: Path
    bootstrap_servers: str
    port: int
    kafka: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The properties that open Kafka, in the words of its Java client."""

    @property
    def url(self) -> str:
        """Where its REST API answers."""
        return f"http://{HOST}:{self.port}"

    def services(self) -> list[Service]:
        """The worker, configured and ready to start."""
        account = account_of(self.folder, make=True)
        secrets_folder(self.folder).mkdir(mode=0o700, exist_ok=True)
        write_whole(self._file("users.properties"), f"{account.user}={account.password}\n")
        write_whole(self._file("login.conf"), _LOGIN.format(file=_escaped(self._file("users.properties"))))
        write_whole(self._file("log4j2.properties"), LOG4J)
        write_whole(self._file("connect.properties"), self._properties())
        service = Service(
            name="connect",
            command=(
                str(self.java),
                f"-Xmx{HEAP >> 20}m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",  # it mostly waits: starting in little time matters more
                "-XX:+ExitOnOutOfMemoryError",
                f"-Dlog4j2.configurationFile={self._file('log4j2.properties')}",
                f"-Djava.security.auth.login.config={self._file('login.conf')}",
                "org.apache.kafka.connect.cli.ConnectDistributed",
                str(self._file("connect.properties")),
            ),
            environment=environment(self.jars),
            log=self.logs / "connect.log",
            port=self.port,
            address=self.url,
            ready=lambda: answers(self.port, account),
        )
        return [service]

    def _file(self, name: str) -> Path:
        return self.folder.absolute() / name

    def _properties(self) -> str:
        converter = "org.apache.kafka.connect.json.JsonConverter"
        properties: dict[str, object] = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": "gearshift-connect",
            # The worker, and the clients that it makes for its connectors.
            **{
                f"{client}{name}": value
                for client in ("", "producer.", "consumer.", "admin.")
                for name, value in self.kafka.items()
            },
            "listeners": self.url,
            "rest.extension.classes": (
                "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
            ),
            "plugin.path": self.plugins.absolute(),
            "plugin.discovery": "service_load",
            "key.converter": converter,
            "value.converter": converter,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            # A connector's configuration names a line of a file here and never holds the secret itself.
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "config.providers.file.param.allowed.paths": secrets_folder(self.folder),
            # -1 is the broker's own default: as many copies as the local cluster has brokers.
            **{
                name: value
                for topic in ("config", "offset", "status")
                for name, value in (
                    (f"{topic}.storage.topic", f"gearshift-connect-{topic}"),
                    (f"{topic}.storage.replication.factor", -1),
                )
            },
            # The usual 25 and 5 partitions are for hundreds of connectors.
            "offset.storage.partitions": 1,
            "status.storage.partitions": 1,
            # What is read twice after a crash is what came since the last flush.
            "offset.flush.interval.ms": 2000,
            # A worker that was killed is given up soon, and its tasks go at once to the one that comes back.
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 2000,
            "scheduled.rebalance.max.delay.ms": 0,
            "task.shutdown.graceful.timeout.ms": 3000,
        }
        return properties_text(properties)


def plan(
    settings: Settings,
    *,
    place: Path,
    logs: Path,
    java: Path,
    bootstrap_servers: str,
    kafka: Mapping[str, str],
    port: int,
) -> Connect:
    """The worker for this Kafka, its jars and its plugin fetched."""
    if settings.kafka and settings.bootstrap_servers:
        raise StackError(
            "a local Connect does not know how to open a Kafka of your own that asks for a password or TLS",
            hint="run Connect beside that Kafka and set connect_url to it",
        )
    return Connect(
        folder=place,
        logs=logs,
        java=java,
        jars=tuple(artifacts.jars("connect", cache=settings.cache)),
        plugins=artifacts.folder("debezium", cache=settings.cache),
        bootstrap_servers=bootstrap_servers,
        kafka=kafka,
        port=port,
    )


def secrets_folder(folder: Path) -> Path:
    """Where the local worker, and nobody else, finds its connectors' secrets."""
    return folder.absolute() / "secrets"


def answers(port: int, account: Account) -> bool:
    """Whether the worker at this port has joined its group and lists its connectors."""
    words = base64.b64encode(f"{account.user}:{account.password}".encode()).decode()
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", "/connectors", headers={"Authorization": f"Basic {words}"})
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _escaped(value: object) -> str:
    # In a properties file a backslash begins an escape.
    return str(value).replace("\\", "\\\\")
