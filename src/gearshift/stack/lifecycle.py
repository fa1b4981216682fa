"""Starts, finds and stops the local services, from any process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gearshift.connection import Connection
from gearshift.errors import StackError
from gearshift.settings import Settings, load
from gearshift.stack import machine
from gearshift.stack.artifacts import artifacts
from gearshift.stack.artifacts.class_archive import Archive
from gearshift.stack.artifacts.java import require_java
from gearshift.stack.processes import ports, state
from gearshift.stack.processes import service as processes
from gearshift.stack.services import kafka, kafka_login
from gearshift.stack.services import optional as stores
from gearshift.stack.services.registry import Registry
from gearshift.stack.stack import ENDS_WITHIN, LOCK, Stack, stack_folder, stop_services
from gearshift.storage.shared_files import exclusive

_MEMORY = 512 << 20  # a service's heap and Java's own overhead
_DISK = 1 << 30


def _silent(_: str) -> None:
    return


def up(settings: Settings, *, progress: Callable[[str], None] = _silent, record: Path | None = None) -> Stack:
    """Start the services for which the settings name no external address, or find them running.

    `record` is a folder; each service that can start from a class archive writes its archive there on exit.
    """
    external = _external(settings)
    if external is not None and not stores.local_services(settings):
        return external
    folder = stack_folder(settings)
    machine.require_writable(settings.home, folder)
    with exclusive(folder / LOCK):
        found = _running(settings)
        if found is not None:
            _require_kafka(settings, found)
            _require_services(settings, found)
            return found
        _stop_leftovers(folder, progress)
        return _start(settings, progress, record)


def find(settings: Settings) -> Stack | None:
    """The running stack, or None; takes milliseconds."""
    external = _external(settings)
    if external is not None and not stores.local_services(settings):
        return external
    return _running(settings) or external


def _external(settings: Settings) -> Stack | None:
    """The user's external Kafka and registry, if the settings name both."""
    if not (settings.bootstrap_servers and settings.registry_url):
        return None
    return Stack(settings, bootstrap_servers=settings.bootstrap_servers, registry_url=settings.registry_url)


def _running(settings: Settings) -> Stack | None:
    known = state.read(stack_folder(settings))
    if known is None or not known.usable:
        return None
    return Stack(
        settings, bootstrap_servers=known.bootstrap_servers, registry_url=known.registry_url, known=known
    )


def connect(settings: Settings | None = None) -> Connection:
    """The connection to the configured cluster, or to the local stack running in this folder."""
    settings = settings or load()
    found = find(settings)
    if found is None:
        raise StackError(
            f"no stack is running in {settings.home}",
            hint='start it with "gearshift up" or "gearshift run FILE"',
        )
    return found.connection


def down(settings: Settings) -> bool:
    """Stop the stack, even if another process started it; True if one was running."""
    folder = stack_folder(settings)
    if not folder.exists():
        return False
    with exclusive(folder / LOCK):
        known = state.read(folder)
        if known is None:
            return False
        replace(known, stopping=True).write(folder)
        living = known.living
        stop_services(known.services)
        state.remove(folder)
        return bool(living)


def describe(settings: Settings) -> dict[str, Any]:
    """The stack as plain data, as printed by `gearshift status`."""
    found = find(settings)
    if found is None:
        return {"running": False, "services": []}
    services = [
        {
            "name": service.name,
            "pid": service.pid.number,
            "port": service.port,
            "address": service.address,
            "log": service.log,
            "ready": service.ready,
        }
        for service in found.services
    ]
    return {
        "running": True,
        "bootstrap_servers": found.bootstrap_servers,
        "registry_url": found.registry_url,
        "services": services,
    }


def _require_kafka(settings: Settings, found: Stack) -> None:
    secured = found.superuser is not None
    if settings.bootstrap_servers is None and settings.secure and not secured:
        raise StackError(
            "the running stack has a Kafka that is not secured",
            hint="run gearshift down, then start it in another home",
        )
    running = sum(service.name.startswith("kafka-") for service in found.services)
    if 0 < running < settings.brokers:
        raise StackError(
            f"the running stack has {running} broker, but {settings.brokers} were requested",
            hint="run gearshift down, then start it again",
        )


def _require_services(settings: Settings, found: Stack) -> None:
    running = {service.name for service in found.services}
    missing = [name for name in stores.local_services(settings) if name not in running]
    if missing:
        raise StackError(
            f"the running stack has no {' and no '.join(missing)}",
            hint="run gearshift down, then start it again",
        )


def _stop_leftovers(folder: Path, progress: Callable[[str], None]) -> None:
    """Stop the remaining processes of an earlier stack whose owner, or some of whose services, have ended."""
    known = state.read(folder)
    if known is None:
        return
    if known.owner.alive and not known.stopping and known.owner.number != os.getpid() and known.living:
        dead = ", ".join(service.name for service in known.services if not service.ready)
        raise StackError(
            f"the stack of process {known.owner.number} is not usable" + (f": {dead} ended" if dead else ""),
            hint=f"see the logs in {folder / 'logs'}, then run gearshift down and try again",
        )
    if known.living:
        progress("waiting for an earlier stack to stop")
        processes.stop(known.living, within=ENDS_WITHIN)
    state.remove(folder)


def _brokers(settings: Settings, folder: Path) -> int:
    """The number of brokers to start: as many as the existing data has, unless the settings name a number."""
    made = kafka.brokers_in(folder / "kafka")
    if made is None or made == settings.brokers:
        return settings.brokers
    if "brokers" not in settings.model_fields_set:
        return made
    raise StackError(
        f"the data in {folder} belongs to {made} broker{'s' if made > 1 else ''}, but {settings.brokers} were requested",
        hint=f"request {made}, set another home, or delete {folder}",
    )


def secured(settings: Settings, folder: Path) -> bool:
    """Whether to start a secured Kafka: as the existing data has it, unless the settings say otherwise."""
    if kafka.brokers_in(folder / "kafka") is None:
        return settings.secure
    made = kafka_login.is_secured(folder / "kafka")
    if made != settings.secure and "secure" in settings.model_fields_set:
        raise StackError(
            f"the data in {folder} belongs to a Kafka that is {'' if made else 'not '}secured",
            hint=f"set secure = {str(made).lower()}, set another home, or delete {folder}",
        )
    return made


def _start(settings: Settings, progress: Callable[[str], None], record: Path | None) -> Stack:
    java = require_java()
    folder = stack_folder(settings)
    brokers = 0 if settings.bootstrap_servers else _brokers(settings, folder)
    if brokers:
        kafka_login.secure(folder / "kafka", secured(settings, folder))
    groups = [] if settings.bootstrap_servers else ["kafka"]
    extra = stores.local_services(settings)
    groups += [group for name in extra for group in stores.GROUPS[name]]
    machine.require_memory(_MEMORY * brokers + sum(stores.MEMORY[name] for name in extra))
    machine.require_disk(folder, _DISK)
    if artifacts.missing(*groups, cache=settings.cache):
        machine.require_disk(settings.cache, _DISK)
    artifacts.fetch(*groups, cache=settings.cache)
    names = kafka.port_names(brokers) + ([] if settings.registry_url else ["registry"])
    names += [port for name in extra for port in stores.PORTS[name]]
    claimed = ports.claim(names, file=folder / "ports.json")
    bootstrap_servers, registry_url = settings.bootstrap_servers, settings.registry_url

    def store(name: str) -> Callable[[], list[processes.Service]]:
        return stores.plan(
            name, settings=settings, java=java, ports=claimed, bootstrap_servers=bootstrap_servers or ""
        )

    def startup(program: str, classes: Iterable[Path]) -> tuple[str, ...]:
        archive = Archive.of(program, classes, cache=settings.cache)
        return archive.options if record is None else Archive(record / archive.path.name).recording

    # Cassandra takes the longest to start, so it comes first.
    plans = [store(name) for name in extra if name != "connect"]
    if registry_url is None:
        registry = Registry(folder=folder / "registry", logs=folder / "logs", port=claimed["registry"])
        registry_url = registry.url
        plans.append(registry.services)
    if bootstrap_servers is None:
        jars = tuple(artifacts.jars("kafka", cache=settings.cache))
        cluster = kafka.Kafka(
            folder=folder / "kafka",
            logs=folder / "logs",
            java=java,
            jars=jars,
            brokers=brokers,
            ports=claimed,
            startup=startup("kafka", jars),
        )
        bootstrap_servers = cluster.bootstrap_servers
        plans.append(cluster.services)
    if "connect" in extra:
        plans.append(store("connect"))  # last: it connects to Kafka as soon as it runs
    stack = Stack(settings, bootstrap_servers=bootstrap_servers, registry_url=registry_url)
    stack.start((service for plan in plans for service in plan()), progress)
    return stack
