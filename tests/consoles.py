"""A console for tests: the real server on a running app that a test makes up, or on none."""

from __future__ import annotations

import http.client
import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gearshift.app import App
from gearshift.connection import Connection
from gearshift.console.console import Console, Emit, Running
from gearshift.console.live import Live
from gearshift.console.server import ConsoleServer
from gearshift.settings import Settings, load

NOWHERE = Connection(bootstrap_servers="127.0.0.1:1", registry_url="http://127.0.0.1:1")


@dataclass(frozen=True)
class Reply:
    """A response: its HTTP status and its JSON."""

    status: int
    data: Any

    @property
    def error(self) -> dict[str, Any]:
        """What went wrong."""
        return self.data["error"]


class Client:
    """Asks a console with its token."""

    def __init__(self, server: ConsoleServer) -> None:
        self.port = server.port
        self.token = server.access.token
        self._headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}

    def get(self, path: str) -> Reply:
        return self.ask("GET", path)

    def post(self, path: str, data: Any = None) -> Reply:
        return self.ask("POST", path, json.dumps(data))

    def ask(self, method: str, path: str, body: str | None = None) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body=body, headers=self._headers)
            response = connection.getresponse()
            return Reply(response.status, json.loads(response.read()))
        finally:
            connection.close()

    @contextmanager
    def events(self, path: str) -> Generator[Iterator[tuple[str, Any]]]:
        """The events of a stream as they arrive, by name; leaving the context closes it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path, headers=self._headers)
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield _events(response)
        finally:
            connection.close()


class FakeRun:
    """A running app that only says what a test puts into it."""

    def __init__(self, app: App, **status: Any) -> None:
        self.app = app
        self.given = status

    def status(self) -> dict[str, Any]:
        return {"app": self.app.name, **self.given}

    def waiting_for(self) -> list[str]:
        return []

    def details(self, pipeline: str) -> dict[str, Any]:
        return {"name": pipeline}

    def run_interval(self, pipeline: str, start: Any) -> dict[str, Any]:
        raise AssertionError(f"{pipeline} {start}")

    def why(self, pipeline: str) -> dict[str, Any]:
        raise AssertionError(pipeline)

    def shift_for(self, pipeline: str, gear: str, now: bool, emit: Emit, hold: str | None = None) -> None:
        raise AssertionError(f"{pipeline} {gear} {now} {emit}")

    def scale_for(self, pipeline: str, partitions: int, emit: Emit) -> None:
        raise AssertionError(f"{pipeline} {partitions} {emit}")


@contextmanager
def open_console(
    home: Path,
    running: Running | None = None,
    *,
    connection: Connection = NOWHERE,
    settings: Settings | None = None,
    **given: Any,
) -> Generator[Client]:
    """A console of this home; it stops with the context."""
    own = settings or load({"home": home, **given}, folder=home, environ={})
    live = Live(running.status if running is not None else dict)
    server = ConsoleServer(Console(settings=own, connection=connection, live=live, running=running))
    server.open()
    try:
        yield Client(server)
    finally:
        server.close()


def _events(response: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    name = ""
    while line := response.readline().decode():
        field, _, value = line.rstrip("\n").partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)
