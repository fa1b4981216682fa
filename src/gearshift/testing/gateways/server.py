"""What the gateways share: a server that goes down and comes up again on the same port."""

from __future__ import annotations

import socket
import socketserver
import ssl
import sys
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, Self


class Server(socketserver.ThreadingTCPServer):
    """A TCP server that knows its open connections, so that it can break them off."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler: type[socketserver.StreamRequestHandler], gateway: Gateway) -> None:
        self.gateway = gateway
        self._open: dict[socket.socket, int] = {}
        self.connections = 0
        self._lock = Lock()
        super().__init__(("127.0.0.1", gateway.port), handler)
        if gateway.listens_with is not None:
            self.socket = gateway.listens_with.wrap_socket(self.socket, server_side=True)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Count the connection, and handle it."""
        with self._lock:
            self.connections += 1
            self._open[request] = self.connections
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection, and close it."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def number_of(self, request: Any) -> int:
        """The number of a connection, counted from 1."""
        return self._open.get(request, 0)

    def hang_up(self) -> None:
        """Break off all open connections."""
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report mistakes of a gateway; a client that goes away is none."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Gateway:
    """A server on one port of this machine; it runs inside its context, and may go down and up in between."""

    handler: type[socketserver.StreamRequestHandler]

    def __init__(self, *, listens_with: ssl.SSLContext | None = None) -> None:
        self.port = 0
        self.listens_with = listens_with
        self._lock = Lock()
        self._server: Server | None = None
        self._thread: Thread | None = None
        self._connections = 0

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    @property
    def connections(self) -> int:
        """How many connections were made so far."""
        return self._connections + (self._server.connections if self._server else 0)

    def up(self) -> None:
        """Listen, on the same port as before."""
        self._server = Server(self.handler, self)
        self.port = self._server.server_address[1]
        # How often it looks whether to stop: with the default of half a second every test would wait that long.
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def down(self) -> None:
        """Refuse connections, and break off those that are open."""
        server, self._server = self._server, None
        if server is None or self._thread is None:
            return
        self._connections += server.connections
        server.shutdown()
        server.server_close()
        server.hang_up()
        self._thread.join()

    def hang_up(self) -> None:
        """Break off the open connections, as servers do with idle ones; new ones are accepted."""
        if self._server is not None:
            self._server.hang_up()
