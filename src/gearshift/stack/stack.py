"""The local services as one object: started or found, used, and stopped."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from gearshift.connection import Connection
from gearshift.errors import StackError
from gearshift.settings import Settings
from gearshift.stack.processes import service as processes
from gearshift.stack.processes import state
from gearshift.stack.processes.ports import HOST
from gearshift.stack.processes.service import Pid, Service
from gearshift.stack.processes.state import Running, State
from gearshift.stack.services import accounts, kafka_login, tokens
from gearshift.stack.services.kafka import client_file
from gearshift.storage.shared_files import exclusive

READY_WITHIN = timedelta(minutes=3)
ENDS_WITHIN = timedelta(seconds=15)
LOCK = "lock"
WITH_ACCOUNT = ("cassandra", "mariadb", "connect")
"""The services whose address carries their account; PostgreSQL's address names the file with its password."""


class Stack:
    """The addresses of Kafka, the registry and the optional services; leaving it stops the services it started."""

    def __init__(
        self,
        settings: Settings,
        *,
        bootstrap_servers: str,
        registry_url: str,
        known: State | None = None,
        started: dict[str, tuple[Service, subprocess.Popen[bytes]]] | None = None,
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.registry_url = registry_url
        self._settings = settings
        self._state: State | None = known
        self._started = started or {}

    @property
    def connection(self) -> Connection:
        """What clients need to connect."""
        own = self._settings
        kafka = registry = None
        if own.bootstrap_servers is None:
            kafka = kafka_login.login_of(self.folder / "kafka").client_properties()
        if own.registry_url is None:
            registry = tokens.client_properties(tokens.read_token(self.folder / "registry"))
        return Connection.of(
            own,
            bootstrap_servers=self.bootstrap_servers,
            registry_url=self.registry_url,
            kafka=kafka,
            registry=registry,
        )

    @property
    def superuser(self) -> Connection | None:
        """What the administrator of a secured local Kafka needs to connect; None for any other Kafka."""
        folder = self.folder / "kafka"
        if self._settings.bootstrap_servers is not None or not kafka_login.is_secured(folder):
            return None
        return replace(self.connection, kafka=kafka_login.superuser_of(folder).client_properties())

    def credential_files(self) -> dict[str, Path]:
        """The file with the credentials of each local service; `gearshift up` prints what each holds."""
        found: dict[str, Path] = {}
        if self._settings.bootstrap_servers is None:
            found["kafka"] = client_file(self.folder / "kafka")
        if self._settings.registry_url is None:
            found["registry"] = tokens.token_file(self.folder / "registry")
        return found | {
            service.name: accounts.password_file(self.folder / service.name)
            for service in self.services
            if service.name in WITH_ACCOUNT
        }

    def address(self, name: str) -> str:
        """The address of `kafka`, `registry`, `cassandra`, `postgres`, `mariadb` or `connect`, with its account where it has one."""
        found = {"kafka": self.bootstrap_servers, "registry": self.registry_url}
        found |= {service.name: secret_address(service, self._settings) for service in self.services}
        settings = self._settings
        own = {
            "cassandra": settings.cassandra,
            "postgres": settings.postgres,
            "mariadb": settings.mariadb,
            "connect": settings.connect_url,
        }
        found |= {one: secret.get_secret_value() for one, secret in own.items() if secret is not None}
        if name not in found:
            raise StackError(
                f"this stack has no {name}",
                hint=f"use one of {', '.join(found)}, or start it with gearshift up --with {name}",
            )
        return found[name]

    @property
    def folder(self) -> Path:
        """The folder of its data and logs."""
        return stack_folder(self._settings)

    @property
    def owned(self) -> bool:
        """Whether this process started the services, and so stops them."""
        return bool(self._started)

    @property
    def owner(self) -> Pid | None:
        """The process that started the local services, which end with it; None without any."""
        return self._state.owner if self._state else None

    @property
    def services(self) -> tuple[Running, ...]:
        """The local services; empty where the settings name an external cluster."""
        return self._state.services if self._state else ()

    @property
    def stopping(self) -> bool:
        """Whether this stack was asked to stop."""
        known = state.read(self.folder)
        return known is None or known.stopping or known.owner != (self._state and self._state.owner)

    @property
    def usable(self) -> bool:
        """Whether a broker and the registry are running and not being stopped."""
        return self._state is None or self._state.usable

    def dead(self) -> list[Running]:
        """The services that have ended."""
        for _, process in self._started.values():
            process.poll()  # reaps ended processes
        return [service for service in self.services if not service.ready]

    def exited_with_error(self, name: str) -> bool:
        """Whether a service that this process started exited with an error, and was not killed by a signal."""
        if name not in self._started:
            return False
        return self._started[name][1].poll() == 1

    def stop_service(self, name: str) -> None:
        """Stop one service, for example to restart a broker."""
        self._own(name)
        service, process = self._started[name]
        pid = next(running.pid for running in self.services if running.name == service.name)
        processes.stop([pid])
        process.wait()

    def start_service(self, name: str) -> Running:
        """Start one service that has ended, and wait until it is ready."""
        self._own(name)
        service, process = self._started[name]
        try:
            process.wait(2)  # a process that was just killed takes a moment to end
        except subprocess.TimeoutExpired:
            raise StackError(f"{name} is already running") from None
        running = self._run(service)
        if self._state is not None:
            self._state = self._state.with_service(running)
            self._state.write(self.folder)
        processes.wait_ready([(service, running.pid)], within=READY_WITHIN)
        return running

    def stop(self) -> None:
        """Stop the services that this process started; a stack that it found keeps running."""
        if self.owned:
            with exclusive(self.folder / LOCK):
                self._stop()

    def _stop(self) -> None:
        written = state.read(self.folder)
        # Another process may have stopped this stack and started a new one: the state file is then not ours.
        ours = written is not None and self._state is not None and written.owner == self._state.owner
        if ours and self._state is not None:
            replace(self._state, stopping=True).write(self.folder)
        stop_services(self.services)
        for _, process in self._started.values():
            process.wait()
        self._started = {}
        if ours:
            state.remove(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _own(self, name: str) -> None:
        if name not in self._started:
            raise StackError(f"{name} is not a service that this process started")

    def _run(self, service: Service) -> Running:
        process = processes.start(service)
        self._started[service.name] = (service, process)
        # A process that has already ended has no start time; wait_ready reports it.
        pid = Pid.of(process.pid, stop_signal=service.stop_signal) or Pid(process.pid, "")
        address = service.address or f"{HOST}:{service.port}"
        return Running(name=service.name, pid=pid, port=service.port, log=str(service.log), address=address)

    def start(self, planned: Iterable[Service], progress: Callable[[str], None]) -> None:
        """Start the services in parallel, each as soon as it is planned, and wait until all of them are ready."""
        owner = Pid.of(os.getpid())
        if owner is None:
            raise StackError("cannot read this process in /proc", hint="check that /proc is mounted")
        known = State(
            owner=owner, bootstrap_servers=self.bootstrap_servers, registry_url=self.registry_url, services=()
        )
        running: list[tuple[Service, Pid]] = []
        try:
            for service in planned:
                progress(f"starting {service.name}")
                started = self._run(service)
                running.append((service, started.pid))
                # Written before it is ready, so that a process that starts after a crash finds it.
                self._state = known = replace(known, services=(*known.services, started))
                known.write(self.folder)
            processes.wait_ready(
                running, within=READY_WITHIN, on_ready=lambda service: progress(f"{service.name} is ready")
            )
            self._state = known = replace(known, ready=True)
            known.write(self.folder)
        except BaseException:
            self._stop()
            raise


def stop_services(services: Iterable[Running]) -> None:
    """Stop the services in parallel, but Connect before Kafka, from whose group it leaves."""
    services = list(services)
    for last in (False, True):
        pids = [service.pid for service in services if (service.name != "connect") is last]
        processes.stop([pid for pid in pids if pid.alive], within=ENDS_WITHIN)


def secret_address(service: Running, settings: Settings) -> str:
    """The address of a local service, with its account."""
    if service.name not in WITH_ACCOUNT:
        return service.address
    return accounts.account_of(stack_folder(settings) / service.name).insert_into(service.address)


def stack_folder(settings: Settings) -> Path:
    """The folder of the stack's data, logs and state file."""
    return settings.home / "stack"
