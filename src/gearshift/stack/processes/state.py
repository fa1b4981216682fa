"""The state file of a running stack, through which other processes find, use and stop it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gearshift.settings import OPTIONAL_PROCESSES
from gearshift.stack.processes.service import Pid
from gearshift.storage.shared_files import write_whole

FILE = "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A service that was started."""

    name: str
    pid: Pid
    port: int
    log: str
    address: str = ""

    @property
    def ready(self) -> bool:
        """Whether its process is running; a stack is marked ready only after each service was."""
        return self.pid.alive


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The services, the process that owns them, and whether all of them are ready."""

    owner: Pid
    bootstrap_servers: str
    registry_url: str
    services: tuple[Running, ...]
    ready: bool = False
    stopping: bool = False

    @property
    def living(self) -> list[Pid]:
        """The processes that are still running."""
        return [service.pid for service in self.services if service.pid.alive]

    @property
    def usable(self) -> bool:
        """Whether it was ready, its owner is alive, and a broker and the registry run; optional services restart."""
        if not self.ready or self.stopping or not self.owner.alive:
            return False
        needed = [service for service in self.services if service.name not in OPTIONAL_PROCESSES]
        kinds = {service.name.partition("-")[0] for service in needed}
        return kinds == {service.name.partition("-")[0] for service in needed if service.ready}

    def with_service(self, running: Running) -> State:
        """This state, with the service of that name replaced."""
        return replace(
            self, services=tuple(running if known.name == running.name else known for known in self.services)
        )

    def write(self, folder: Path) -> None:
        """Write the state file."""
        write_whole(folder / FILE, json.dumps(asdict(self), indent=1) + "\n")


def read(folder: Path) -> State | None:
    """The state file; None if it is missing or cannot be read."""
    try:
        found: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))
        services = tuple(
            Running(
                name=one["name"],
                pid=Pid.from_json(one["pid"]),
                port=one["port"],
                log=one["log"],
                address=one.get("address", ""),
            )
            for one in found["services"]
        )
        return State(
            owner=Pid.from_json(found["owner"]),
            bootstrap_servers=found["bootstrap_servers"],
            registry_url=found["registry_url"],
            services=services,
            ready=found["ready"],
            stopping=found["stopping"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove(folder: Path) -> None:
    """Remove the state file: nothing is running."""
    (folder / FILE).unlink(missing_ok=True)
