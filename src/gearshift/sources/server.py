"""Uvicorn with limits on what a client may hold: connections, the size of a request's head, and time."""

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

from gearshift.sources.bodies import JSON, Refusal

MOST_CONNECTIONS = 512
LARGEST_HEAD = 16 << 10
REQUEST_WITHIN = timedelta(seconds=30)
"""How long a connection may be idle, and how long the head of a request may take."""
_ANSWERED_WITHIN = timedelta(seconds=70)  # after a stop; longer than Kafka may take

App = Callable[[Any, Any, Any], Awaitable[None]]


class Listener(socket.socket):
    """Accepts connections; when there are too many, the one that has kept us waiting longest makes room.

    This is where connections are counted because a client that does not finish its TLS handshake is known nowhere
    else.
    """

    def __init__(self, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # The protocol is named since asyncio sets TCP_NODELAY only where it is.
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self.waiting: dict[int, socket.socket] = {}
        """By file descriptor, those from which a whole request has not come; the longest first."""
        self.answering: dict[int, socket.socket] = {}
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.bind((host, port))
        except OSError:
            self.close()
            raise

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection."""
        connection, address = super().accept()
        if len(self.waiting) + len(self.answering) >= MOST_CONNECTIONS:
            self.waiting = {fd: each for fd, each in self.waiting.items() if each.fileno() == fd}
        if len(self.waiting) + len(self.answering) >= MOST_CONNECTIONS:
            longest = next(iter(self.waiting), None)
            _hang_up(connection if longest is None else self.waiting.pop(longest))
        self.waiting.pop(connection.fileno(), None)
        self.waiting[connection.fileno()] = connection
        return connection, address

    def wait_for_client(self, fd: int) -> None:
        """A connection has been answered: its client is next."""
        if fd in self.answering:
            self.waiting[fd] = self.answering.pop(fd)

    def answer(self, fd: int) -> None:
        """A connection's request is there: it is our turn."""
        if fd in self.waiting:
            self.answering[fd] = self.waiting.pop(fd)

    def forget(self, fd: int) -> None:
        """A connection has ended."""
        self.waiting.pop(fd, None)
        self.answering.pop(fd, None)

    def close(self) -> None:
        """Accept no more, and hang up on clients that are not owed an answer."""
        for connection in self.waiting.values():
            _hang_up(connection)
        super().close()


def serve_with(app: App, listener: Listener, tls: ssl.SSLContext | None) -> uvicorn.Server:
    """A server of an ASGI app; `run(sockets=[listener])` serves until `should_exit` is set."""
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http=_protocol(listener),
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        log_level="error",  # a client that sends nonsense is no event of ours
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=round(REQUEST_WITHIN.total_seconds()),
        timeout_graceful_shutdown=round(_ANSWERED_WITHIN.total_seconds()),
        h11_max_incomplete_event_size=LARGEST_HEAD,
    )
    if tls is not None:
        config.ssl_context_factory = _always(tls)
    return uvicorn.Server(config)


def tls_context(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """A context with a certificate; OSError (ssl.SSLError is one) if it cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Without a password given, OpenSSL would ask for that of an encrypted key at the terminal.
    context.load_cert_chain(certificate, key, password=lambda: b"")
    return context


def _always(tls: ssl.SSLContext) -> Callable[[uvicorn.Config, Callable[[], ssl.SSLContext]], ssl.SSLContext]:
    def made(_config: uvicorn.Config, _default: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        return tls

    return made


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _protocol(listener: Listener) -> type[asyncio.Protocol]:
    class Protocol(H11Protocol):
        """Uvicorn's own, with a deadline for the head of a request."""

        _fd = -1
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            super().connection_made(transport)
            self._fd = transport.get_extra_info("socket").fileno()
            self._look()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._let_be()
            listener.forget(self._fd)

        def handle_events(self) -> None:
            super().handle_events()
            self._look()

        def on_response_complete(self) -> None:
            if self.conn.their_state is h11.SEND_BODY:
                self.transport.close()  # the rest of the body would be read for nothing
            super().on_response_complete()
            self._look()

        def send_400_response(self, msg: str) -> None:
            """Uvicorn's answer to what is no HTTP: ours is JSON, as every other."""
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

        def _look(self) -> None:
            """Whose turn it is: ours from a request's last byte to the last of the answer."""
            cycle: Any = self.cycle
            if self.transport.is_closing():
                self._let_be()
            elif cycle is None or cycle.response_complete:
                listener.wait_for_client(self._fd)
                if self._deadline is None:
                    self._deadline = self.loop.call_later(
                        REQUEST_WITHIN.total_seconds(), self.transport.close
                    )
            else:
                self._let_be()
                if not cycle.more_body:
                    listener.answer(self._fd)

        def _let_be(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Protocol
