"""Bringing the local services up, finding them, and taking them down, from any process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gearshift.connection import Connection
from gearshift.errors import StackError
from gearshift.settings import Settings, load
from gearshift.stack import artifacts, kafka, machine, ports, processes, state, stores
from gearshift.stack.files import exclusive
from gearshift.stack.java import require_java
from gearshift.stack.registry import Registry, jar_of
from gearshift.stack.stack import ENDS_WITHIN, LOCK, Stack, end, folder
from gearshift.stack.startup import Archive

_MEMORY = 512 << 20  # a service's heap and what Java takes beside it
_DISK = 1 << 30


def _silent(_: str) -> None:
    return


def up(settings: Settings, *, progress: Callable[[str], None] = _silent, record: Path | None = None) -> Stack:
    """Start the services that the settings do not name an own address for, or find them running.

    With `record`, a folder, each that has an archive of classes to start from writes it there as it ends.
    """
    elsewhere = _elsewhere(settings)
    if elsewhere is not None and not stores.wanted(settings):
        return elsewhere
    place = folder(settings)
    machine.require_writable(settings.home, place)
    with exclusive(place / LOCK):
        found = _running(settings)
        if found is not None:
            _refuse_too_few(settings, found)
            _refuse_lacking(settings, found)
            return found
        _clear(place, progress)
        return _start(settings, progress, record)


def find(settings: Settings) -> Stack | None:
    """The stack that runs, or None; it takes milliseconds."""
    elsewhere = _elsewhere(settings)
    if elsewhere is not None and not stores.wanted(settings):
        return elsewhere
    return _running(settings) or elsewhere


def _elsewhere(settings: Settings) -> Stack | None:
    """Kafka and the registry of the user's own, if the settings name both."""
    if not (settings.bootstrap_servers and settings.registry_url):
        return None
    return Stack(settings, bootstrap_servers=settings.bootstrap_servers, registry_url=settings.registry_url)


def _running(settings: Settings) -> Stack | None:
    known = state.read(folder(settings))
    if known is None or not known.usable:
        return None
    return Stack(
        settings, bootstrap_servers=known.bootstrap_servers, registry_url=known.registry_url, known=known
    )


def connect(settings: Settings | None = None) -> Connection:
    """The connection to the cluster of the settings, or to the local stack that runs in this folder."""
    settings = settings or load()
    found = find(settings)
    if found is None:
        raise StackError(
            f"no stack runs in {settings.home}", hint='start it with "gearshift up" or "gearshift run FILE"'
        )
    return found.connection


def down(settings: Settings) -> bool:
    """Stop the stack, whoever started it; say whether one ran."""
    place = folder(settings)
    if not place.exists():
        return False
    with exclusive(place / LOCK):
        known = state.read(place)
        if known is None:
            return False
        replace(known, stopping=True).write(place)
        living = known.living
        end(known.services)
        state.forget(place)
        return bool(living)


def describe(settings: Settings) -> dict[str, Any]:
    """The stack in words and numbers, as `gearshift status` prints it."""
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


def _refuse_too_few(settings: Settings, found: Stack) -> None:
    running = sum(service.name.startswith("kafka-") for service in found.services)
    if 0 < running < settings.brokers:
        raise StackError(
            f"the running stack has {running} broker, and {settings.brokers} were asked for",
            hint="try gearshift down",
        )


def _refuse_lacking(settings: Settings, found: Stack) -> None:
    running = {service.name for service in found.services}
    lacking = [name for name in stores.wanted(settings) if name not in running]
    if lacking:
        raise StackError(
            f"the running stack has no {' and no '.join(lacking)}",
            hint="try gearshift down, then start it again",
        )


def _clear(place: Path, progress: Callable[[str], None]) -> None:
    """See the processes of an earlier stack off: their owner has ended, or some of them have."""
    known = state.read(place)
    if known is None:
        return
    if known.owner.alive and not known.stopping and known.owner.number != os.getpid() and known.living:
        lost = ", ".join(service.name for service in known.services if not service.ready)
        raise StackError(
            f"the stack of process {known.owner.number} has lost {lost or 'its way'}",
            hint=f"see {place / 'logs'}, then gearshift down and try again",
        )
    if known.living:
        progress("waiting for an earlier stack to end")
        processes.stop(known.living, within=ENDS_WITHIN)
    state.forget(place)


def _brokers(settings: Settings, place: Path) -> int:
    """How many brokers to start: as many as the data were made with, unless another number was asked for."""
    made = kafka.brokers_in(place / "kafka")
    if made is None or made == settings.brokers:
        return settings.brokers
    if "brokers" not in settings.model_fields_set:
        return made
    raise StackError(
        f"the data in {place} belong to {made} broker{'s' if made > 1 else ''}, and {settings.brokers} were asked for",
        hint=f"ask for {made}, set another home, or delete {place}",
    )


def _start(settings: Settings, progress: Callable[[str], None], record: Path | None) -> Stack:
    java = require_java()
    place = folder(settings)
    brokers = 0 if settings.bootstrap_servers else _brokers(settings, place)
    groups = [group for group, own in _own(settings).items() if own is None]
    extra = stores.wanted(settings)
    groups += [group for name in extra for group in stores.GROUPS[name]]
    machine.require_memory(
        _MEMORY * (brokers + (not settings.registry_url)) + sum(stores.MEMORY[name] for name in extra)
    )
    machine.require_disk(place, _DISK)
    if artifacts.missing(*groups, cache=settings.cache):
        machine.require_disk(settings.cache, _DISK)
    artifacts.fetch(*groups, cache=settings.cache)
    names = kafka.port_names(brokers) + ([] if settings.registry_url else ["registry"])
    names += [port for name in extra for port in stores.PORTS[name]]
    claimed = ports.claim(names, file=place / "ports.json")
    bootstrap_servers, registry_url = settings.bootstrap_servers, settings.registry_url

    def store(name: str) -> Callable[[], list[processes.Service]]:
        return stores.plan(
            name, settings=settings, java=java, ports=claimed, bootstrap_servers=bootstrap_servers or ""
        )

    def startup(program: str, classes: Iterable[Path]) -> tuple[str, ...]:
        archive = Archive.of(program, classes, cache=settings.cache)
        return archive.options if record is None else Archive(record / archive.path.name).recording

    # Cassandra takes the longest.
    plans = [store(name) for name in extra if name != "connect"]
    if registry_url is None:
        program = artifacts.folder("registry", cache=settings.cache)
        registry = Registry(
            folder=place / "registry",
            logs=place / "logs",
            java=java,
            program=program,
            port=claimed["registry"],
            startup=startup("registry", [jar_of(program)]),
        )
        registry_url = registry.url
        plans.append(registry.services)
    if bootstrap_servers is None:
        jars = tuple(artifacts.jars("kafka", cache=settings.cache))
        cluster = kafka.Kafka(
            folder=place / "kafka",
            logs=place / "logs",
            java=java,
            jars=jars,
            brokers=brokers,
            ports=claimed,
            startup=startup("kafka", jars),
        )
        bootstrap_servers = cluster.bootstrap_servers
        plans.append(cluster.services)
    if "connect" in extra:
        plans.append(store("connect"))  # last: it looks for Kafka as soon as it runs
    stack = Stack(settings, bootstrap_servers=bootstrap_servers, registry_url=registry_url)
    # The registry comes first: it starts while Kafka formats its storage.
    stack.begin((service for plan in plans for service in plan()), progress)
    return stack


def _own(settings: Settings) -> dict[str, str | None]:
    return {"kafka": settings.bootstrap_servers, "registry": settings.registry_url}
