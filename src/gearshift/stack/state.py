"""What is written down about a running stack, so that other processes find it, use it and stop it."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gearshift.settings import KNOWN_SERVICES
from gearshift.stack.files import write_whole
from gearshift.stack.processes import Pid

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
        """Whether its process runs; a stack is written down as ready only after each service answered."""
        return self.pid.alive


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The services, the process that owns them, and whether all of them have answered."""

    owner: Pid
    bootstrap_servers: str
    registry_url: str
    services: tuple[Running, ...]
    ready: bool = False
    stopping: bool = False

    @property
    def living(self) -> list[Pid]:
        """The processes that run still."""
        return [service.pid for service in self.services if service.pid.alive]

    @property
    def usable(self) -> bool:
        """Whether it answered, its owner lives, and a broker and the registry are left; stores are started again."""
        if not self.ready or self.stopping or not self.owner.alive:
            return False
        needed = [service for service in self.services if service.name not in KNOWN_SERVICES]
        kinds = {service.name.partition("-")[0] for service in needed}
        return kinds == {service.name.partition("-")[0] for service in needed if service.ready}

    def with_service(self, running: Running) -> State:
        """This state, with a service in the place of the one of its name."""
        return replace(
            self, services=tuple(running if known.name == running.name else known for known in self.services)
        )

    def write(self, folder: Path) -> None:
        """Write it down."""
        write_whole(folder / FILE, json.dumps(asdict(self), indent=1) + "\n")


def read(folder: Path) -> State | None:
    """What is written down; None if nothing is, or nothing that can be read."""
    try:
        found: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))
        services = tuple(
            Running(
                name=one["name"],
                pid=_pid(one["pid"]),
                port=one["port"],
                log=one["log"],
                address=one.get("address", ""),
            )
            for one in found["services"]
        )
        return State(
            owner=_pid(found["owner"]),
            bootstrap_servers=found["bootstrap_servers"],
            registry_url=found["registry_url"],
            services=services,
            ready=found["ready"],
            stopping=found["stopping"],
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def forget(folder: Path) -> None:
    """Write down that nothing runs."""
    (folder / FILE).unlink(missing_ok=True)


def _pid(found: Mapping[str, Any]) -> Pid:
    return Pid(int(found["number"]), str(found["began"]), int(found.get("ends_on", signal.SIGTERM)))
