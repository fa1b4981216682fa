"""Kafka Connect: one worker on loopback, with Debezium's connectors for PostgreSQL and, if requested, MariaDB."""

from __future__ import annotations

import base64
import http.client
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gearshift.errors import StackError
from gearshift.settings import Settings
from gearshift.stack.artifacts import artifacts
from gearshift.stack.artifacts.java import environment, properties_text
from gearshift.stack.processes.ports import HOST
from gearshift.stack.processes.service import Service
from gearshift.stack.services.accounts import Account, account_of
from gearshift.stack.services.kafka import LOG4J
from gearshift.storage.shared_files import write_whole

HEAP = 384 << 20
GROUPS = ("connect", "debezium")
_LOGIN = """\
KafkaConnect {{
  org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required file="{file}";
}};
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """One worker: its Kafka, its folder with the connectors' secrets, and its port."""

    folder: Path
    logs: Path
    java: Path
    jars: tuple[Path, ...]
    plugins: tuple[Path, ...]
    bootstrap_servers: str
    port: int
    kafka: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The Java client properties that connect to Kafka."""

    @property
    def url(self) -> str:
        """The address of its REST API."""
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
                "-XX:TieredStopAtLevel=1",  # it is mostly idle: a fast start matters more
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
            ready=lambda: is_ready(self.port, account),
        )
        return [service]

    def _file(self, name: str) -> Path:
        return self.folder.absolute() / name

    def _properties(self) -> str:
        converter = "org.apache.kafka.connect.json.JsonConverter"
        properties: dict[str, object] = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": "gearshift-connect",
            # For the worker and for the clients that it creates for its connectors.
            **{
                f"{client}{name}": value
                for client in ("", "producer.", "consumer.", "admin.")
                for name, value in self.kafka.items()
            },
            "listeners": self.url,
            "rest.extension.classes": (
                "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
            ),
            "plugin.path": ",".join(str(plugin.absolute()) for plugin in self.plugins),
            "plugin.discovery": "service_load",
            "key.converter": converter,
            "value.converter": converter,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            # A connector's configuration refers to a line of a file here and never contains the secret itself.
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "config.providers.file.param.allowed.paths": secrets_folder(self.folder),
            # -1 is the broker's default: as many replicas as the local cluster has brokers.
            **{
                name: value
                for topic in ("config", "offset", "status")
                for name, value in (
                    (f"{topic}.storage.topic", f"gearshift-connect-{topic}"),
                    (f"{topic}.storage.replication.factor", -1),
                )
            },
            # Records and source offsets are committed in one transaction, so that a crash repeats no record.
            "exactly.once.source.support": "enabled",
            # The defaults of 25 and 5 partitions are meant for hundreds of connectors.
            "offset.storage.partitions": 1,
            "status.storage.partitions": 1,
            # After a crash, records since the last flush are read again.
            "offset.flush.interval.ms": 2000,
            # A killed worker is detected soon, and its tasks are reassigned at once when it returns.
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 2000,
            "scheduled.rebalance.max.delay.ms": 0,
            "task.shutdown.graceful.timeout.ms": 3000,
        }
        return properties_text(properties)


def plan(
    settings: Settings,
    *,
    folder: Path,
    logs: Path,
    java: Path,
    bootstrap_servers: str,
    kafka: Mapping[str, str],
    port: int,
) -> Connect:
    """The worker for this Kafka, with its jars and plugins downloaded."""
    if settings.kafka and settings.bootstrap_servers:
        raise StackError(
            "the local Connect cannot connect to an external Kafka that requires a password or TLS",
            hint="run Connect next to that Kafka and set connect_url to its address",
        )
    plugins = ["debezium"]
    if "mariadb" in settings.services or settings.mariadb is not None:
        plugins.append("debezium-mariadb")
    return Connect(
        folder=folder,
        logs=logs,
        java=java,
        jars=tuple(artifacts.jars("connect", cache=settings.cache)),
        plugins=tuple(artifacts.folder(plugin, cache=settings.cache) for plugin in plugins),
        bootstrap_servers=bootstrap_servers,
        kafka=kafka,
        port=port,
    )


def secrets_folder(folder: Path) -> Path:
    """The folder of the connectors' secrets, which only the local worker reads."""
    return folder.absolute() / "secrets"


def is_ready(port: int, account: Account) -> bool:
    """Whether the worker at this port has joined its group and lists its connectors."""
    credentials = base64.b64encode(f"{account.user}:{account.password}".encode()).decode()
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", "/connectors", headers={"Authorization": f"Basic {credentials}"})
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _escaped(value: object) -> str:
    # A backslash starts an escape in a properties file.
    return str(value).replace("\\", "\\\\")
