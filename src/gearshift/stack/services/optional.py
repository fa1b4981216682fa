"""The optional services: their ports, jars and memory, how each is started, and its address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import SecretStr

from gearshift.errors import StackError
from gearshift.settings import Settings, load
from gearshift.stack.artifacts import artifacts
from gearshift.stack.processes import state
from gearshift.stack.processes.service import Service
from gearshift.stack.services import cassandra, hdfs, kafka_login, mariadb, postgres
from gearshift.stack.services import connect as connect_worker
from gearshift.stack.stack import secret_address, stack_folder

PORTS = {
    "cassandra": cassandra.PORTS,
    "postgres": ("postgres",),
    "mariadb": ("mariadb",),
    "connect": ("connect",),
    "hdfs": hdfs.PORTS,
}
GROUPS = {
    "cassandra": ("cassandra",),
    "postgres": (),
    "mariadb": mariadb.GROUPS,
    "connect": connect_worker.GROUPS,
    "hdfs": hdfs.GROUPS,
}
MEMORY = {
    "cassandra": cassandra.HEAP + (384 << 20),
    "postgres": 192 << 20,
    "mariadb": 256 << 20,
    "connect": connect_worker.HEAP + (192 << 20),
    "hdfs": 2 * (hdfs.HEAP + (128 << 20)),
}

_SETTING = {"connect": "connect_url"}  # the setting of each other service has the service's name


def local_services(settings: Settings) -> list[str]:
    """The requested services to start locally: those for which the settings name no external address."""
    return [name for name in settings.services if _external(name, settings) is None]


def plan(
    name: str, *, settings: Settings, java: Path, ports: dict[str, int], bootstrap_servers: str
) -> Callable[[], list[Service]]:
    """A function that configures the service and returns it ready to start."""
    folder, logs = stack_folder(settings) / name, stack_folder(settings) / "logs"
    if name == "connect":
        local = settings.bootstrap_servers is None
        kafka = kafka_login.superuser_of(stack_folder(settings) / "kafka", make=True) if local else None
        return connect_worker.plan(
            settings,
            folder=folder,
            logs=logs,
            java=java,
            bootstrap_servers=bootstrap_servers,
            kafka=kafka.java_properties() if kafka else {},
            port=ports["connect"],
        ).services
    if name == "postgres":
        programs = postgres.require_programs()
        return postgres.Postgres(folder=folder, logs=logs, programs=programs, port=ports["postgres"]).services
    if name == "mariadb":
        programs = mariadb.require_programs(settings.cache)
        return mariadb.MariaDB(folder=folder, logs=logs, programs=programs, port=ports["mariadb"]).services
    if name == "hdfs":
        return hdfs.Hdfs(
            folder=folder,
            logs=logs,
            java=java,
            jars=tuple(artifacts.jars("hdfs", cache=settings.cache)),
            ports={each: ports[each] for each in hdfs.PORTS},
        ).services
    return cassandra.Cassandra(
        folder=folder,
        logs=logs,
        java=java,
        jars=tuple(artifacts.jars("cassandra", cache=settings.cache)),
        port=ports["cassandra"],
        storage_port=ports["cassandra-storage"],
    ).services


def find_service(name: str, settings: Settings | None = None) -> SecretStr:
    """The address of a service: the external one from the settings, or that of the running local stack."""
    settings = settings or load()
    external = _external(name, settings)
    if external is not None:
        return external
    known = state.read(stack_folder(settings))
    for service in known.services if known and known.owner.alive and not known.stopping else ():
        if service.name == name:
            return SecretStr(secret_address(service, settings))
    raise StackError(
        f"no {name} is running in {settings.home}",
        hint=f'start it with "gearshift up --with {name}", or set {_SETTING.get(name, name)} to the address of yours',
    )


def _external(name: str, settings: Settings) -> SecretStr | None:
    if name == "hdfs":
        return None  # a URI names the cluster: the local one is an addition
    address: SecretStr | None = getattr(settings, _SETTING.get(name, name))
    return address
