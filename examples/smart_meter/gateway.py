"""An SMS gateway on loopback with Twilio's API, for the smart-meter example.

As a script it prints every text message; `with Gateway() as gateway` gives a program `gateway.url` and
`gateway.messages`. Repeated requests with the same Idempotency-Key are one message.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import NamedTuple, Self
from urllib.parse import parse_qs


class Message(NamedTuple):
    to: str
    text: str
    received_at: datetime


class Gateway:
    """Accepts text messages until it is closed, with any account and token."""

    def __init__(self, port: int = 0, on_message: Callable[[Message], None] | None = None) -> None:
        self._on_message = on_message
        self._lock = Lock()
        self._messages: list[Message] = []
        self._keys: set[str] = set()
        self._repeats = 0
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.gateway = self
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), name="sms-gateway", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The address for `gs.destinations.Sms(url=…)`."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def messages(self) -> list[Message]:
        """The messages so far."""
        with self._lock:
            return list(self._messages)

    @property
    def repeats(self) -> int:
        """The number of repeated requests, which are not delivered again."""
        with self._lock:
            return self._repeats

    def take(self, to: str, text: str, key: str | None) -> None:
        """Accept a message, once per key."""
        message = Message(to, text, datetime.now(UTC))
        with self._lock:
            if key is not None and key in self._keys:
                self._repeats += 1
                return
            if key is not None:
                self._keys.add(key)
            self._messages.append(message)
        if self._on_message is not None:
            self._on_message(message)


class _Server(ThreadingHTTPServer):
    gateway: Gateway
    daemon_threads = True
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        form = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        if not (self.path.startswith("/2010-04-01/Accounts/") and self.path.endswith("/Messages.json")):
            self._answer(404, {"code": 20404, "message": "The requested resource was not found"})
        elif not self.headers.get("Authorization", "").startswith("Basic "):
            self._answer(401, {"code": 20003, "message": "Authenticate"})
        elif missing := [name for name in ("To", "From", "Body") if name not in form]:
            self._answer(400, {"code": 21600, "message": f"{missing[0]} is required"})
        else:
            key = self.headers.get("Idempotency-Key")
            self.server.gateway.take(form["To"], form["Body"], key)
            sid = "SM" + hashlib.blake2b((key or "").encode() + body, digest_size=16).hexdigest()
            self._answer(201, {"sid": sid, "status": "queued", "to": form["To"], "body": form["Body"]})

    def _answer(self, status: int, document: dict[str, object]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: the messages are the output."""


if __name__ == "__main__":

    def show(message: Message) -> None:
        print(f"{message.received_at:%H:%M:%S}  {message.to}  {message.text}", flush=True)

    with Gateway(8025, show) as running:
        print(f"SMS gateway on {running.url}; press Ctrl-C to stop")
        try:
            Event().wait()
        except KeyboardInterrupt:
            print(f"{len(running.messages)} text messages")
