"""Kafka Connect's REST API for tests: connectors with a state, and what was asked of them."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote


class FakeConnect:
    """Connectors by name, each with the states of itself and of its only task."""

    def __init__(self, **states: str) -> None:
        self.states = dict(states)
        self.tasks = dict(states)
        self.asked: list[str] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def changes(self) -> list[str]:
        """What was asked for that is no reading."""
        return [each for each in self.asked if not each.startswith("GET")]

    def answer(self, method: str, path: str) -> tuple[int, Any]:
        self.asked.append(f"{method} {path}")
        parts = [unquote(part) for part in path.partition("?")[0].strip("/").split("/")]
        if parts == ["connectors"]:
            return 200, list(self.states)
        name, *action = parts[1:]
        if name not in self.states:
            return 404, {"message": f"no connector {name}"}
        match action:
            case ["status"]:
                connector = {"state": self.states[name], "trace": "E: no connector"}
                tasks = [{"id": 0, "state": self.tasks[name], "trace": "E: no task"}]
                return 200, {"connector": connector, "tasks": tasks}
            case ["pause"]:
                self.states[name] = self.tasks[name] = "PAUSED"
            case ["resume"] | ["restart"]:
                self.states[name] = self.tasks[name] = "RUNNING"
            case _:
                return 404, {"message": "no such path"}
        return 202, None


@contextmanager
def fake_connect(**states: str) -> Generator[FakeConnect]:
    """A Connect with these connectors, until the context ends."""
    fake = FakeConnect(**states)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, found = fake.answer(self.command, self.path)
            body = json.dumps(found).encode() if found is not None else b""
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        fake.port = server.server_port
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()
