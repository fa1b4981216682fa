"""The optional services: which there are, how each is started, and where it answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import SecretStr

from gearshift.errors import StackError
from gearshift.settings import Settings, load
from gearshift.stack import accounts, artifacts, cassandra, connect_worker, postgres, state
from gearshift.stack.processes import Service
from gearshift.stack.stack import folder, secret_address

PORTS = {"cassandra": cassandra.PORTS, "postgres": ("postgres",), "connect": ("connect",)}
GROUPS = {"cassandra": ("cassandra",), "postgres": (), "connect": connect_worker.GROUPS}
MEMORY = {
    "cassandra": cassandra.HEAP + (384 << 20),
    "postgres": 192 << 20,
    "connect": connect_worker.HEAP + (192 << 20),
}

_SETTING = {"connect": "connect_url"}  # the others have the service's own name


def wanted(settings: Settings) -> list[str]:
    """The services to start here: those asked for, without the ones that the settings name an own address for."""
    return [name for name in settings.services if _own(name, settings) is None]


def plan(
    name: str, *, settings: Settings, java: Path, ports: dict[str, int], bootstrap_servers: str
) -> Callable[[], list[Service]]:
    """What makes the service ready to start."""
    place, logs = folder(settings) / name, folder(settings) / "logs"
    if name == "connect":
        local = settings.bootstrap_servers is None
        kafka = accounts.account_of(folder(settings) / "kafka", make=True) if local else None
        return connect_worker.plan(
            settings,
            place=place,
            logs=logs,
            java=java,
            bootstrap_servers=bootstrap_servers,
            kafka=accounts.java_properties(kafka) if kafka else {},
            port=ports["connect"],
        ).services
    if name == "postgres":
        programs = postgres.require_programs()
        return postgres.Postgres(folder=place, logs=logs, programs=programs, port=ports["postgres"]).services
    return cassandra.Cassandra(
        folder=place,
        logs=logs,
        java=java,
        jars=tuple(artifacts.jars("cassandra", cache=settings.cache)),
        port=ports["cassandra"],
        storage_port=ports["cassandra-storage"],
    ).services


def find_service(name: str, settings: Settings | None = None) -> SecretStr:
    """Where the service of this name answers: the user's own by the settings, or that of the running local stack."""
    settings = settings or load()
    own = _own(name, settings)
    if own is not None:
        return own
    known = state.read(folder(settings))
    for service in known.services if known and known.owner.alive and not known.stopping else ():
        if service.name == name:
            return SecretStr(secret_address(service, settings))
    raise StackError(
        f"no {name} runs in {settings.home}",
        hint=f'start it with "gearshift up --with {name}", or set {_SETTING.get(name, name)} to where yours answers',
    )


def _own(name: str, settings: Settings) -> SecretStr | None:
    own: SecretStr | None = getattr(settings, _SETTING.get(name, name))
    return own
