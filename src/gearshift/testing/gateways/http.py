"""An HTTP server that answers as an SMS provider or a receiver of webhooks does."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import Any
from urllib.parse import parse_qs

from gearshift.testing.gateways.server import Gateway, Server


@dataclass(frozen=True, slots=True)
class Request:
    """A request, also a refused one, and the status of its answer."""

    path: str
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    received_at: datetime
    connection: int
    """The number of its connection."""
    status: int
    repeated: bool
    """Whether its idempotency key was accepted before."""

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, str]:
        """The body as a form."""
        return {name: values[0] for name, values in parse_qs(self.body.decode(), strict_parsing=True).items()}

    @property
    def key(self) -> str | None:
        """The idempotency key."""
        return self.headers.get("idempotency-key")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class HttpHandler(BaseHTTPRequestHandler):
    """One connection: each POST goes to the gateway, which answers it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two packets; the second must not wait for the first
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        """Read a request, and answer it."""
        gateway = self.server.gateway
        assert isinstance(gateway, HttpGateway)
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:  # the client broke off, or the gateway went down
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = gateway.take(self.path, headers, body, self.server.number_of(self.connection))
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (http.server's name)
        """Print nothing."""


class HttpGateway(Gateway):
    """Takes any POST; with `accounts` (token by account) as an SMS provider, with `secret` as a receiver of webhooks.

    With `deduplicate` a repeated Idempotency-Key gets the first answer again, and is not accepted a second time.
    """

    handler = HttpHandler

    def __init__(
        self,
        *,
        accounts: Mapping[str, str] | None = None,
        secret: str | None = None,
        deduplicate: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(listens_with=tls)
        self.accounts = accounts
        """The token of each account that may send messages."""
        self.secret = secret
        """The secret with which webhooks are signed."""
        self._deduplicate = deduplicate
        self._answered: dict[str, Answer] = {}
        self._orders: deque[Answer | None] = deque()
        self._requests: list[Request] = []
        self._delay = timedelta(0)
        self._quick = 0
        self._stopped = Event()

    def __exit__(self, *exit_: object) -> None:
        self._stopped.set()
        super().__exit__(*exit_)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http{'s' if self.listens_with else ''}://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Request]:
        """All requests, in order."""
        with self._lock:
            return list(self._requests)

    @property
    def accepted(self) -> list[Request]:
        """The requests that were answered with 2xx; with `deduplicate`, each idempotency key once."""
        return [request for request in self.requests if 200 <= request.status < 300 and not request.repeated]

    def fail(
        self,
        times: int = 1,
        *,
        status: int = 503,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Answer the next requests with this status."""
        with self._lock:
            self._orders.extend([Answer(status, body, headers or {})] * times)

    def lose_answers(self, times: int = 1) -> None:
        """Accept the next requests, and break off the connection instead of answering."""
        with self._lock:
            self._orders.extend([None] * times)

    def be_slow(self, delay: timedelta, *, after: int = 0) -> None:
        """Wait this long before every answer, after a number of quick ones."""
        with self._lock:
            self._delay = delay
            self._quick = after

    def take(self, path: str, headers: Mapping[str, str], body: bytes, connection: int) -> Answer:
        """Take a request, and return its answer; raises ConnectionAbortedError if it gets none."""
        with self._lock:
            quick, self._quick = self._quick > 0, max(0, self._quick - 1)
        if self._delay and not quick:
            self._stopped.wait(self._delay.total_seconds())
        key = headers.get("idempotency-key")
        with self._lock:
            order = self._orders.popleft() if self._orders else Answer(0)
            first = self._answered.get(key) if self._deduplicate and key else None
            answer = order if order and order.status else (first or self._judge(path, headers, body))
            if key and not (order and order.status) and 200 <= answer.status < 300:
                self._answered[key] = answer
            self._requests.append(
                Request(path, headers, body, datetime.now(UTC), connection, answer.status, first is not None)
            )
        if order is None:
            raise ConnectionAbortedError
        return answer

    def _judge(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if self.accounts is not None:
            return self._judge_message(path, headers, body)
        if self.secret is not None and not self._is_signed(headers, body):
            return Answer(401, b"bad signature")
        return Answer(204)

    def _judge_message(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        kind, _, login = headers.get("authorization", "").partition(" ")
        account, _, token = (
            base64.b64decode(login).decode().partition(":") if kind == "Basic" else ("", "", "")
        )
        if not account or (self.accounts or {}).get(account) != token:
            return _problem(401, 20003, "Authenticate")
        if path != f"/2010-04-01/Accounts/{account}/Messages.json":
            return _problem(404, 20404, "The requested resource was not found")
        form = parse_qs(body.decode(), strict_parsing=True)
        for name, code in (("To", 21604), ("From", 21603), ("Body", 21602)):
            if not form.get(name):
                return _problem(400, code, f"A '{name}' is required.")
        sid = "SM" + hashlib.md5(body + headers.get("idempotency-key", "").encode()).hexdigest()
        return Answer(201, json.dumps({"sid": sid, "status": "queued", "to": form["To"][0]}).encode())

    def _is_signed(self, headers: Mapping[str, str], body: bytes) -> bool:
        """The check of Standard Webhooks, written from its text and not with the code under test."""
        secret = base64.b64decode((self.secret or "").removeprefix("whsec_"))
        timestamp = headers.get("webhook-timestamp", "0")
        signed = b".".join((headers.get("webhook-id", "").encode(), timestamp.encode(), body))
        right = base64.b64encode(hmac.new(secret, signed, "sha256").digest()).decode()
        recent = abs(time.time() - int(timestamp)) < 300
        return recent and f"v1,{right}" in headers.get("webhook-signature", "").split(" ")


def _problem(status: int, code: int, message: str) -> Answer:
    return Answer(status, json.dumps({"code": code, "message": message, "status": status}).encode())
