"""The schema registry (`gearshift.registry`) as a service."""

from __future__ import annotations

import http.client
import sys
from dataclasses import dataclass
from pathlib import Path

from gearshift.errors import StackError
from gearshift.stack.artifacts.java import environment
from gearshift.stack.processes.ports import HOST
from gearshift.stack.processes.service import Service
from gearshift.stack.services.tokens import make_token

_SOURCES = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """A registry: its data folder and its port."""

    folder: Path
    logs: Path
    port: int

    @property
    def url(self) -> str:
        """The address of its API."""
        return f"http://{HOST}:{self.port}"

    def services(self) -> list[Service]:
        """The registry, ready to start."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (self.folder / "registry.mv.db").exists() and not (self.folder / "registry.db").exists():
            # Without its schemas the records on the topics could not be read, and their ids would be reused.
            raise StackError(
                f"{self.folder} contains schemas of Apicurio, which Gearshift no longer supports",
                hint="set another home, or delete the stack's folder with its topics",
            )
        token = make_token(self.folder)
        service = Service(
            name="registry",
            command=(sys.executable, "-m", "gearshift.registry", str(self.folder.absolute()), str(self.port)),
            environment=environment() | {"PYTHONPATH": str(_SOURCES), "PYTHONUNBUFFERED": "1"},
            log=self.logs / "registry.log",
            port=self.port,
            ready=lambda: is_ready(self.port, token),
        )
        return [service]


def is_ready(port: int, token: str) -> bool:
    """Whether the registry at this port lists its subjects for this token."""
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", "/subjects", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
