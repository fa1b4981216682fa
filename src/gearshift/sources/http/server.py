"""Uvicorn with limits on connections, the size of request heads, and time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from gearshift.sources.http.bodies import JSON, Refusal

MAX_CONNECTIONS = 512
MAX_HEAD = 16 << 10
REQUEST_TIMEOUT = timedelta(seconds=30)
"""For an idle connection, and for the head of a request."""
_SHUTDOWN_TIMEOUT = timedelta(seconds=70)  # longer than Kafka may take

App = Callable[[Any, Any, Any], Awaitable[None]]


class Listener(socket.socket):
    """Accepts connections; when there are too many, the one that has been idle longest is closed.

    Connections are counted here because only the socket knows clients that do not finish their TLS handshake.
    """

    def __init__(self, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # The protocol is explicit, since asyncio sets TCP_NODELAY only then.
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self.waiting: dict[int, socket.socket] = {}
        """The connections without a complete request, by file descriptor, longest waiting first."""
        self.answering: dict[int, socket.socket] = {}
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.bind((host, port))
        except OSError:
            self.close()
            raise

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next connection."""
        connection, address = super().accept()
        if len(self.waiting) + len(self.answering) >= MAX_CONNECTIONS:
            self.waiting = {fd: each for fd, each in self.waiting.items() if each.fileno() == fd}
        if len(self.waiting) + len(self.answering) >= MAX_CONNECTIONS:
            longest = next(iter(self.waiting), None)
            _shut_down(connection if longest is None else self.waiting.pop(longest))
        self.waiting.pop(connection.fileno(), None)
        self.waiting[connection.fileno()] = connection
        return connection, address

    def response_complete(self, fd: int) -> None:
        """Mark a connection as answered: it waits for the client."""
        if fd in self.answering:
            self.waiting[fd] = self.answering.pop(fd)

    def request_complete(self, fd: int) -> None:
        """Mark a connection's request as complete: it waits for our response."""
        if fd in self.waiting:
            self.answering[fd] = self.waiting.pop(fd)

    def forget(self, fd: int) -> None:
        """Remove a closed connection."""
        self.waiting.pop(fd, None)
        self.answering.pop(fd, None)

    def close(self) -> None:
        """Stop accepting, and close connections that do not wait for a response."""
        for connection in self.waiting.values():
            _shut_down(connection)
        super().close()


def serve_with(app: App, listener: Listener, tls: ssl.SSLContext | None) -> uvicorn.Server:
    """A server for an ASGI app; `run(sockets=[listener])` serves until `should_exit` is set."""
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http=_protocol(listener),
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        log_level="error",  # invalid requests of a client are not worth logging
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=round(REQUEST_TIMEOUT.total_seconds()),
        timeout_graceful_shutdown=round(_SHUTDOWN_TIMEOUT.total_seconds()),
        h11_max_incomplete_event_size=MAX_HEAD,
    )
    if tls is not None:
        config.ssl_context_factory = _always(tls)
    return uvicorn.Server(config)


def tls_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """A TLS context with a certificate; OSError (including ssl.SSLError) if it cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Without a password, OpenSSL would prompt for that of an encrypted key at the terminal.
    context.load_cert_chain(certificate, key, password=lambda: b"")
    return context


def _always(tls: ssl.SSLContext) -> Callable[[uvicorn.Config, Callable[[], ssl.SSLContext]], ssl.SSLContext]:
    def made(_config: uvicorn.Config, _default: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        return tls

    return made


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _protocol(listener: Listener) -> type[asyncio.Protocol]:
    class Protocol(H11Protocol):
        """Uvicorn's protocol, with a timeout for the head of a request."""

        _fd = -1
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            super().connection_made(transport)
            self._fd = transport.get_extra_info("socket").fileno()
            self._track()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._cancel_deadline()
            listener.forget(self._fd)

        def handle_events(self) -> None:
            super().handle_events()
            self._track()

        def on_response_complete(self) -> None:
            if self.conn.their_state is h11.SEND_BODY:
                self.transport.close()  # the rest of the body is not needed
            super().on_response_complete()
            self._track()

        def send_400_response(self, msg: str) -> None:
            """Respond to invalid HTTP with JSON, as to every other request."""
            raised = sys.exc_info()[1]
            status = getattr(raised, "error_status_hint", 400)
            if str(raised) == "bad Content-Length":
                status = 411
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                text = json.dumps(Refusal(status, str(raised) or msg).as_json()).encode() + b"\n"
                headers = [
                    ("Content-Type", JSON),
                    ("Content-Length", str(len(text))),
                    ("Connection", "close"),
                ]
                for event in (
                    h11.Response(status_code=status, headers=headers),
                    h11.Data(data=text),
                    h11.EndOfMessage(),
                ):
                    self.transport.write(self.conn.send(event) or b"")
            if self.cycle is not None:  # pyright: ignore[reportUnnecessaryComparison]
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            self.transport.close()

        def _track(self) -> None:
            """Track whether the connection waits for the client or for our response."""
            cycle: Any = self.cycle
            if self.transport.is_closing():
                self._cancel_deadline()
            elif cycle is None or cycle.response_complete:
                listener.response_complete(self._fd)
                if self._deadline is None:
                    self._deadline = self.loop.call_later(
                        REQUEST_TIMEOUT.total_seconds(), self.transport.close
                    )
            else:
                self._cancel_deadline()
                if not cycle.more_body:
                    listener.request_complete(self._fd)

        def _cancel_deadline(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Protocol
