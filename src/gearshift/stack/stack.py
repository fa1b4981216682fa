"""The local services together: started or found, used, and stopped."""

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
from gearshift.stack import accounts, processes, state, tokens
from gearshift.stack.files import exclusive
from gearshift.stack.kafka import client_file
from gearshift.stack.ports import HOST
from gearshift.stack.processes import Pid, Service
from gearshift.stack.state import Running, State

READY_WITHIN = timedelta(minutes=3)
ENDS_WITHIN = timedelta(seconds=15)
LOCK = "lock"
LOCKED = ("cassandra", "connect")
"""The services whose account belongs into their address; PostgreSQL's address names the file with its password."""


class Stack:
    """Where Kafka, the registry and what else was asked for answer, and the local services behind them, if any; leaving it stops what it owns."""

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
    def _folder(self) -> Path:
        return folder(self._settings)

    @property
    def connection(self) -> Connection:
        """What clients need to connect."""
        own = self._settings
        kafka = registry = None
        if own.bootstrap_servers is None:
            kafka = accounts.client_properties(accounts.account_of(self._folder / "kafka"))
        if own.registry_url is None:
            registry = tokens.client_properties(tokens.read_token(self._folder / "registry"))
        return Connection.of(
            own,
            bootstrap_servers=self.bootstrap_servers,
            registry_url=self.registry_url,
            kafka=kafka,
            registry=registry,
        )

    def keys(self) -> dict[str, Path]:
        """The files with which other clients open the local services; what is in each, `up` says."""
        found: dict[str, Path] = {}
        if self._settings.bootstrap_servers is None:
            found["kafka"] = client_file(self._folder / "kafka")
        if self._settings.registry_url is None:
            found["registry"] = tokens.token_file(self._folder / "registry")
        return found | {
            service.name: accounts.password_file(self._folder / service.name)
            for service in self.services
            if service.name in LOCKED
        }

    def address(self, name: str) -> str:
        """Where `kafka`, `registry`, `cassandra`, `postgres` or `connect` answers, with the password where one belongs into it."""
        found = {"kafka": self.bootstrap_servers, "registry": self.registry_url}
        found |= {service.name: secret_address(service, self._settings) for service in self.services}
        settings = self._settings
        own = {
            "cassandra": settings.cassandra,
            "postgres": settings.postgres,
            "connect": settings.connect_url,
        }
        found |= {one: secret.get_secret_value() for one, secret in own.items() if secret is not None}
        if name not in found:
            raise StackError(
                f"this stack has no {name}",
                hint=f"it has {', '.join(found)}; start others with gearshift up --with {name}",
            )
        return found[name]

    @property
    def folder(self) -> Path:
        """Where its data and its logs are."""
        return folder(self._settings)

    @property
    def owned(self) -> bool:
        """Whether this process started the services, and so stops them."""
        return bool(self._started)

    @property
    def services(self) -> tuple[Running, ...]:
        """The local services; none where the settings name a cluster of the user's."""
        return self._state.services if self._state else ()

    @property
    def stopping(self) -> bool:
        """Whether somebody has asked for the end of this stack."""
        known = state.read(folder(self._settings))
        return known is None or known.stopping or known.owner != (self._state and self._state.owner)

    @property
    def usable(self) -> bool:
        """Whether a broker and the registry are left, and nobody is taking them down."""
        return self._state is None or self._state.usable

    def dead(self) -> list[Running]:
        """The services that have ended."""
        for _, process in self._started.values():
            process.poll()  # takes the ended ones off the process table
        return [service for service in self.services if not service.ready]

    def ended_itself(self, name: str) -> bool:
        """Whether a service that this process started has given up, and was not ended by a signal."""
        if name not in self._started:
            return False
        return self._started[name][1].poll() == 1

    def stop_service(self, name: str) -> None:
        """Stop one service, as a restart of a broker needs it."""
        self._own(name)
        service, process = self._started[name]
        pid = next(running.pid for running in self.services if running.name == service.name)
        processes.stop([pid])
        process.wait()

    def start_service(self, name: str) -> Running:
        """Start one service that has ended, and wait until it answers."""
        self._own(name)
        service, process = self._started[name]
        try:
            process.wait(2)  # one that was just killed takes a moment to end
        except subprocess.TimeoutExpired:
            raise StackError(f"{name} runs already") from None
        running = self._run(service)
        if self._state is not None:
            self._state = self._state.with_service(running)
            self._state.write(folder(self._settings))
        processes.wait_ready([(service, running.pid)], within=READY_WITHIN)
        return running

    def stop(self) -> None:
        """Stop the services this process started; a stack that was found goes on."""
        if self.owned:
            with exclusive(folder(self._settings) / LOCK):
                self._end()

    def _end(self) -> None:
        place = folder(self._settings)
        written = state.read(place)
        # Somebody may have taken this stack down and started another: what is written is then not about this one.
        ours = written is not None and self._state is not None and written.owner == self._state.owner
        if ours and self._state is not None:
            replace(self._state, stopping=True).write(place)
        end(self.services)
        for _, process in self._started.values():
            process.wait()
        self._started = {}
        if ours:
            state.forget(place)

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
        # A process that has ended already has no beginning to ask for; waiting for it to be ready reports it.
        pid = Pid.of(process.pid, ends_on=service.ends_on) or Pid(process.pid, "")
        address = service.address or f"{HOST}:{service.port}"
        return Running(name=service.name, pid=pid, port=service.port, log=str(service.log), address=address)

    def begin(self, planned: Iterable[Service], progress: Callable[[str], None]) -> None:
        """Start the services side by side, each as soon as it is planned, and wait until all of them answer."""
        place = folder(self._settings)
        owner = Pid.of(os.getpid())
        if owner is None:
            raise StackError("this process cannot see itself", hint="is /proc mounted?")
        known = State(
            owner=owner, bootstrap_servers=self.bootstrap_servers, registry_url=self.registry_url, services=()
        )
        running: list[tuple[Service, Pid]] = []
        try:
            for service in planned:
                progress(f"{service.name} starts")
                started = self._run(service)
                running.append((service, started.pid))
                # Written before it answers, so that whoever comes after a crash knows of it.
                self._state = known = replace(known, services=(*known.services, started))
                known.write(place)
            processes.wait_ready(
                running, within=READY_WITHIN, said=lambda service: progress(f"{service.name} answers")
            )
            self._state = known = replace(known, ready=True)
            known.write(place)
        except BaseException:
            self._end()
            raise


def end(services: Iterable[Running]) -> None:
    """Stop the services side by side, but Connect before the Kafka that it says goodbye to."""
    services = list(services)
    for last in (False, True):
        pids = [service.pid for service in services if (service.name != "connect") is last]
        processes.stop([pid for pid in pids if pid.alive], within=ENDS_WITHIN)


def secret_address(service: Running, settings: Settings) -> str:
    """Where a local service answers, with its account."""
    if service.name not in LOCKED:
        return service.address
    return accounts.account_of(folder(settings) / service.name).within(service.address)


def folder(settings: Settings) -> Path:
    """Where the stack keeps its data, its logs and what is written down about it."""
    return settings.home / "stack"
