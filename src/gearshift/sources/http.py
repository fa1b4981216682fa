"""HTTP ingest: POST /topics/NAME puts records on a topic, and answers when they are there."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from gearshift.errors import GearshiftError, PortInUseError, SettingsError
from gearshift.schemas import Registry
from gearshift.sources.bodies import JSON, Body, Refusal
from gearshift.sources.encoded import Encoded
from gearshift.sources.headers import idempotency_key, is_lines, length_of, let_in
from gearshift.sources.requests import Request, Requests, Written
from gearshift.topics import Pressure

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import HttpSource, Topic

log = logging.getLogger(__name__)

_MOST_CONNECTIONS = 64  # each is a thread, and may hold a body
_MOST_READING = 4
_IDLE_AFTER = 30.0  # seconds; sockets want a number
_DRAINED_WITHIN = timedelta(seconds=30)
_SWALLOWED = 256 << 20
_SWALLOWED_WITHIN = 2.0


class Http:
    """Serves one port until it is closed; then it answers what it has taken, and ends."""

    def __init__(
        self, source: HttpSource, connection: Connection, environ: Mapping[str, str] = os.environ
    ) -> None:
        self.source = source
        self.token = self._token(environ)
        self.answers: Counter[int] = Counter()
        self._connection = connection
        self._bodies: dict[str, Body] = {}
        self._pressure = Pressure(connection)
        self._requests = Requests(connection, source.marks)
        self._lock = threading.Lock()
        self._busy = 0
        self._idle = threading.Condition(self._lock)
        self._closing = False
        # JSON takes many times its size in memory, and more threads would not read it faster.
        self._reading = threading.BoundedSemaphore(_MOST_READING)
        self._slots = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        try:
            self._server = _Server(self)
        except OSError as error:
            raise PortInUseError(
                f"port {source.port} of http {source.name}: {error.strerror}",
                hint="choose another port",
                file=source.defined_at.file,
                line=source.defined_at.line,
            ) from None
        self.port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name=f"http {source.name}", daemon=True
        )

    def open(self) -> None:
        """Begin to answer."""
        self._requests.open()
        self._thread.start()

    def close(self) -> None:
        """Take no more requests, answer those under way, then end."""
        if self._thread.is_alive():
            self._server.shutdown()
        with self._idle:
            self._closing = True
            self._idle.wait_for(lambda: not self._busy, _DRAINED_WITHIN.total_seconds())
        self._requests.close()
        self._server.hang_up()
        self._server.server_close()
        self._pressure.close()

    @property
    def running(self) -> bool:
        """Whether it answers."""
        return self._thread.is_alive()

    def status(self) -> dict[str, Any]:
        """How it is, as plain data."""
        return {
            "name": self.source.name,
            "kind": "http",
            "at": f"http://{self.source.host}:{self.port}",
            "topic": ", ".join(self.source.topics),
            "sent": self._requests.sent,
            "failed": 0,
            "requests": sum(self.answers.values()),
            "refused": sum(count for status, count in self.answers.items() if status != 200),
            "running": self.running,
            "error": self._requests.error,
        }

    def begin(self) -> None:
        """Count a request in, unless we are to end."""
        with self._lock:
            if self._closing:
                raise Refusal(503, "the app is stopping", hint="send it again", retry_after=5)
            self._busy += 1

    def done(self, status: int) -> None:
        """Count its answer."""
        with self._idle:
            self.answers[status] += 1
            self._busy -= 1
            self._idle.notify_all()

    def topic(self, path: str) -> Topic:
        """The topic that a path names."""
        parts = urlsplit(path).path.split("/")
        name = unquote(parts[2]) if len(parts) == 3 and parts[:2] == ["", "topics"] else None
        if name is None or name not in self.source.topics:
            what = "there is nothing here" if name is None else f"there is no topic {name[:100]}"
            known = ", ".join(f"/topics/{each}" for each in self.source.topics)
            raise Refusal(404, what, hint=f"there are {known}")
        return self.source.topics[name]

    def refuse_under_pressure(self, topic: Topic) -> None:
        """While a reader of the topic is further behind than it may be, senders have to wait."""
        if self._pressure.presses(topic):
            group, behind = self._pressure.slowest(topic.name) or ("?", 0)
            raise Refusal(
                429,
                f"group {group} is {behind} records behind, more than the {topic.max_lag} of topic {topic.name}",
                hint="send it again later",
                retry_after=1,
            )

    def take(self, topic: Topic, body: bytes, *, lines: bool, key: str | None) -> Written:
        """Check a body and write its records; Refusal says why not."""
        with self._reading:
            records = self._body(topic).records(body, lines=lines)
        if not records:
            return Written(0)
        return self._requests.write(Request.of(topic.name, records, key, body))

    def _body(self, topic: Topic) -> Body:
        with self._lock:
            found = self._bodies.get(topic.name)
        if found is None:
            try:
                with Registry(self._connection) as registry:
                    found = Body(Encoded(topic, registry))
            except GearshiftError as error:
                raise Refusal(503, str(error), retry_after=5) from None
            with self._lock:
                self._bodies[topic.name] = found
        return found

    def _token(self, environ: Mapping[str, str]) -> str | None:
        variable = self.source.token_variable
        if variable is None:
            return None
        if not environ.get(variable):
            raise SettingsError(
                f"http {self.source.name} takes its token from {variable}, which is not set",
                hint=f"export {variable}=…",
                file=self.source.defined_at.file,
                line=self.source.defined_at.line,
            )
        return environ[variable]

    def enter(self) -> bool:
        """Take one of the places that there are for connections."""
        return self._slots.acquire(blocking=False)

    def leave(self) -> None:
        """Give the place back."""
        self._slots.release()


class _Server(ThreadingHTTPServer):
    """A thread a connection, and no more than there are places for."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, http: Http) -> None:
        self._http = http
        self._open: set[Any] = set()
        if ":" in http.source.host:
            self.address_family = socket.AF_INET6
        super().__init__((http.source.host, http.source.port), _handler(http))

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._http.enter():
            with contextlib.suppress(OSError):
                request.sendall(
                    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
                    b"Connection: close\r\n\r\n"
                )
            self.shutdown_request(request)
            return
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End the connections that clients keep open for later."""
        for request in list(self._open):
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._http.leave()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a connection ended", exc_info=True)  # a client that went away is no error of ours


def _handler(http: Http) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _IDLE_AFTER
        server_version, sys_version = "gearshift", ""
        wbufsize = -1  # an answer in one packet
        disable_nagle_algorithm = True
        _unread = False
        """Whether the request is answered before its body was read."""

        def do_POST(self) -> None:
            status = 500
            try:
                http.begin()
            except Refusal as refusal:
                self._unread = True
                self._answer(refusal)
                return
            try:
                status = self._answer(self._written())
            except Refusal as refusal:
                status = self._answer(refusal)
            except OSError:
                raise  # the client went away
            except Exception:
                log.exception("http %s raised", http.source.name)
                status = self._answer(Refusal(500, "this is our fault", hint="see the log of the app"))
            finally:
                http.done(status)

        def do_GET(self) -> None:
            self._unread = self.headers.get("Content-Length", "0") != "0"
            try:
                http.topic(self.path)
                raise Refusal(405, "records are sent with POST", hint="curl --json '{…}' …")
            except Refusal as refusal:
                self._answer(refusal)

        do_PUT = do_GET  # noqa: N815
        do_DELETE = do_GET  # noqa: N815

        def handle_expect_100(self) -> bool:
            """A client that asks first is told before it sends."""
            try:
                length_of(self.headers)
            except Refusal as refusal:
                self._unread = True
                self._answer(refusal)
                return False
            return super().handle_expect_100()

        def _written(self) -> Written:
            self._unread = True
            length = length_of(self.headers)
            # Before any other refusal: what is not read would be taken for the next request.
            body = self.rfile.read(length)
            self._unread = False
            if len(body) < length:
                self.close_connection = True
                raise Refusal(400, "the body is shorter than its Content-Length")
            let_in(self.headers, http.token)
            topic = http.topic(self.path)
            lines, key = is_lines(self.headers), idempotency_key(self.headers)
            http.refuse_under_pressure(topic)
            return http.take(topic, body, lines=lines, key=key)

        def _answer(self, said: Written | Refusal) -> int:
            status = said.status if isinstance(said, Refusal) else 200
            text = json.dumps(said.as_json()).encode() + b"\n"
            self.send_response(status)
            self.send_header("Content-Type", JSON)
            self.send_header("Content-Length", str(len(text)))
            for name, value in said.headers.items() if isinstance(said, Refusal) else ():
                self.send_header(name, value)
            if self._unread:
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            self.wfile.write(text)
            self.wfile.flush()
            if self._unread:
                self._swallow()
            return status

        def _swallow(self) -> None:
            """Let a client that is still sending finish: a connection closed under it would take our answer along."""
            left = _SWALLOWED
            self.connection.settimeout(_SWALLOWED_WITHIN)
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_WR)
                while left > 0 and (read := len(self.rfile.read1(65_536))):
                    left -= read

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Handler
