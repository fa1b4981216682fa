"""Apache Cassandra: one node on loopback, run from its jars."""

from __future__ import annotations

import json
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gearshift.errors import JavaError, StackError
from gearshift.stack.artifacts.java import environment, java_version
from gearshift.stack.processes.ports import HOST
from gearshift.stack.processes.service import Service
from gearshift.stack.services import cassandra_cql as cql
from gearshift.stack.services.accounts import Account, account_of
from gearshift.storage.shared_files import write_whole

HEAP = 512 << 20
PORTS = ("cassandra", "cassandra-storage")
_DEFAULT = Account("cassandra", "cassandra")  # the superuser of every new node
_NEWEST_JAVA = 23  # later releases have no security manager, which Cassandra 5.0 requires
_EXPORTED = [
    "java.base/java.lang.ref",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
]
_OPENED = [
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
]
_LOGBACK = """\
<configuration>
  <statusListener class="ch.qos.logback.core.status.NopStatusListener"/>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{ISO8601} %p %c{0}: %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="console"/></root>
</configuration>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cassandra:
    """One node: its data folder and its ports."""

    folder: Path
    logs: Path
    java: Path
    jars: tuple[Path, ...]
    port: int
    storage_port: int

    def services(self) -> list[Service]:
        """The node, configured and ready to start."""
        version = java_version(self.java)
        if version > _NEWEST_JAVA:
            raise JavaError(
                f"{self.java} is Java {version}, but Cassandra 5.0 requires Java 17 to {_NEWEST_JAVA}",
                hint="install JDK 17 or 21 as well and set JAVA_HOME to it",
            )
        cluster = self._cluster_name()
        account = account_of(self.folder, make=True)
        self._make_keys()
        write_whole(self._file("logback.xml"), _LOGBACK)
        # JSON is valid YAML.
        write_whole(self._file("cassandra.yaml"), json.dumps(self._configuration(cluster), indent=1) + "\n")
        service = Service(
            name="cassandra",
            command=(
                str(self.java),
                f"-Xmx{HEAP >> 20}m",
                "-XX:MaxDirectMemorySize=128m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",  # a quarter less CPU time at each start
                "-XX:+ExitOnOutOfMemoryError",
                *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTED),
                *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
                *(["-Djava.security.manager=allow"] if version > 17 else []),
                f"-Dcassandra.config={self._file('cassandra.yaml').as_uri()}",
                f"-Dcassandra.storagedir={self.folder.absolute()}",
                f"-Dlogback.configurationFile={self._file('logback.xml')}",
                # There are no other nodes to gossip with.
                "-Dcassandra.skip_wait_for_gossip_to_settle=0",
                "-Dcassandra.ring_delay_ms=100",
                "-Dcassandra.shutdown_announce_in_ms=0",
                "-Dcassandra.superuser_setup_delay_ms=0",
                "org.apache.cassandra.service.CassandraDaemon",
            ),
            environment=environment(self.jars),
            log=self.logs / "cassandra.log",
            port=self.port,
            ready=lambda: self._is_ready(cluster, account),
        )
        return [service]

    def _is_ready(self, cluster: str, account: Account) -> bool:
        """Whether the node accepts our account; on a new node, replace its default account with ours."""
        if cql.cluster_name(HOST, self.port, account) == cluster:
            return True
        own = f"'{account.password}'"
        roles = (
            f"CREATE ROLE IF NOT EXISTS {account.user} WITH PASSWORD = {own} AND LOGIN = true",
            f"GRANT ALL PERMISSIONS ON ALL KEYSPACES TO {account.user}",
            f"ALTER ROLE {_DEFAULT.user} WITH PASSWORD = '{secrets.token_hex(24)}' AND LOGIN = false",
        )
        return cql.run_queries(HOST, self.port, _DEFAULT, roles) is not None

    def _make_keys(self) -> None:
        """Create the node's TLS key, without which its internode port accepts no connection."""
        store = self._file("keys.p12")
        if store.exists():
            return
        made = store.with_suffix(".new")
        made.unlink(missing_ok=True)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = [self.java.resolve().with_name("keytool"), "-genkeypair", "-alias", "node", "-keyalg", "EC"]
        command += ["-dname", "CN=gearshift", "-validity", "36500", "-storetype", "PKCS12", "-keystore", made]
        done = subprocess.run(
            [*command, "-storepass:env", "PASSWORD"],
            env={**environment(), "PASSWORD": account_of(self.folder).password},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            umask=0o077,
            check=False,
        )
        if done.returncode != 0:
            raise StackError(f"cannot create the keys of Cassandra: {done.stdout.strip()}")
        made.replace(store)

    def _file(self, name: str) -> Path:
        return self.folder.absolute() / name

    def _cluster_name(self) -> str:
        file = self._file("cluster-name")
        if not file.exists():
            write_whole(file, f"gearshift-{secrets.token_hex(8)}")
        return file.read_text(encoding="utf-8").strip()

    def _configuration(self, cluster: str) -> dict[str, object]:
        seeds = [{"seeds": f"{HOST}:{self.storage_port}"}]
        return {
            "cluster_name": cluster,
            "num_tokens": 1,
            "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
            "data_file_directories": [str(self._file("data"))],
            "commitlog_directory": str(self._file("commitlog")),
            "saved_caches_directory": str(self._file("saved_caches")),
            "hints_directory": str(self._file("hints")),
            "cdc_raw_directory": str(self._file("cdc")),
            # An acknowledged write is on disk, since a delivery commits its offset right after it.
            "commitlog_sync": "batch",
            "commitlog_segment_size": "16MiB",
            "commitlog_total_space": "256MiB",
            "listen_address": HOST,
            "rpc_address": HOST,
            "storage_port": self.storage_port,
            "native_transport_port": self.port,
            "start_native_transport": True,
            "authenticator": "PasswordAuthenticator",
            "authorizer": "CassandraAuthorizer",
            "role_manager": "CassandraRoleManager",
            "server_encryption_options": {
                "internode_encryption": "all",
                "require_client_auth": True,
                **{
                    f"{store}{name}": value
                    for store in ("key", "trust")
                    for name, value in (
                        ("store", str(self._file("keys.p12"))),
                        ("store_password", account_of(self.folder).password),
                    )
                },
                "store_type": "PKCS12",
            },
            "endpoint_snitch": "SimpleSnitch",
            "seed_provider": [
                {"class_name": "org.apache.cassandra.locator.SimpleSeedProvider", "parameters": seeds}
            ],
            # Small, as for all local services.
            "memtable_heap_space": "64MiB",
            "memtable_offheap_space": "64MiB",
            "file_cache_size": "32MiB",
            "networking_cache_size": "16MiB",
            "key_cache_size": "8MiB",
            "auto_snapshot": False,
            "hinted_handoff_enabled": False,
        }
