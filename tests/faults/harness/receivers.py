"""An HTTP receiver that misbehaves as receivers do: refuses the login, answers late, half or never."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Any

from tests.faults.harness.app import ANSWER_WITHIN
from tests.gateways.http import Answer, HttpGateway, _Http

HOW = ("refuses the login", "times out before the effect", "times out after the effect", "half an answer")


class _Handler(_Http):
    def do_POST(self) -> None:  # noqa: N802 (http.server's name)
        receiver = self.server.gateway
        assert isinstance(receiver, Receiver)
        if receiver.fault != "half an answer":
            super().do_POST()
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        receiver.take(self.path, headers, body, 0)
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(b"half")
        self.close_connection = True


class Receiver(HttpGateway):
    """Accepts a POST unless it was told otherwise; `unknown` counts the effects that nobody was told of."""

    handler = _Handler

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.fault: str | None = None
        self.unknown = 0
        self._over = Event()

    def __exit__(self, *exit_: object) -> None:
        self._over.set()
        super().__exit__(*exit_)

    def take(self, path: str, headers: Mapping[str, str], body: bytes, connection: int) -> Answer:
        fault = self.fault
        if fault == "refuses the login":
            return Answer(401, b"who are you?")
        if fault == "times out before the effect":
            self._hang()
        answer = super().take(path, headers, body, connection)
        if fault == "times out after the effect":
            self.unknown += 1
            self._hang()
        return answer

    def _hang(self) -> None:
        """Keep the client waiting until it has given up."""
        self._over.wait(ANSWER_WITHIN.total_seconds() + 0.5)
        raise ConnectionAbortedError
