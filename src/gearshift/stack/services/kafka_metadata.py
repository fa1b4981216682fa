"""A metadata request in Kafka's wire protocol, without a client; it takes milliseconds."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import BinaryIO

from gearshift.stack.services.accounts import Account

# The API key and version of each request.
_METADATA, _HANDSHAKE, _AUTHENTICATE = (3, 4), (17, 1), (36, 0)
_NO_TOPICS = struct.pack(">i?", 0, False)
_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster's id and its live brokers."""

    id: str | None
    brokers: frozenset[int]


def request_metadata(host: str, port: int, account: Account, *, timeout: float = 1.0) -> Cluster | None:
    """The cluster of the broker at this address; None if it does not answer or rejects the account.

    >>> request_metadata("127.0.0.1", 1, Account("me", "pw")) is None
    True
    """
    credentials = f"\0{account.user}\0{account.password}".encode()
    try:
        with (
            socket.create_connection((host, port), timeout=timeout) as connection,
            connection.makefile("rb") as response,
        ):
            for request, body in (
                (_HANDSHAKE, struct.pack(">h", 5) + b"PLAIN"),
                (_AUTHENTICATE, struct.pack(">i", len(credentials)) + credentials),
            ):
                (error,) = struct.unpack_from(">h", _send(connection, response, request, body), 4)
                if error:
                    return None
            return _read(_send(connection, response, _METADATA, _NO_TOPICS))
    except (OSError, struct.error):
        return None


def _send(connection: socket.socket, response: BinaryIO, request: tuple[int, int], body: bytes) -> bytes:
    client = b"gearshift"
    message = struct.pack(">hhih", *request, 1, len(client)) + client + body
    connection.sendall(struct.pack(">i", len(message)) + message)
    (size,) = struct.unpack(">i", response.read(4))
    return response.read(size) if 0 < size < _LONGEST else b""


def _read(body: bytes) -> Cluster:
    (count,) = struct.unpack_from(">i", body, 8)  # after the correlation id and the throttle time
    at = 12
    brokers: set[int] = set()
    for _ in range(count):
        (broker,) = struct.unpack_from(">i", body, at)
        _, at = _string(body, at + 4)  # its host
        _, at = _string(body, at + 4)  # its rack, after its port
        brokers.add(broker)
    identity, _ = _string(body, at)
    return Cluster(identity, frozenset(brokers))


def _string(body: bytes, at: int) -> tuple[str | None, int]:
    (length,) = struct.unpack_from(">h", body, at)
    if length < 0:
        return None, at + 2
    return body[at + 2 : at + 2 + length].decode(), at + 2 + length
