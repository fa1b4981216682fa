"""A metadata request in Kafka's wire protocol, without a client; it takes milliseconds."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
from collections.abc import Generator
from dataclasses import dataclass
from typing import BinaryIO

from gearshift.stack.services.accounts import Account
from gearshift.stack.services.kafka_login import Login

# The API key and version of each request.
_METADATA, _HANDSHAKE, _AUTHENTICATE = (3, 4), (17, 1), (36, 0)
_NO_TOPICS = struct.pack(">i?", 0, False)
_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster's id and its live brokers."""

    id: str | None
    brokers: frozenset[int]


def request_metadata(host: str, port: int, login: Login, *, timeout: float = 1.0) -> Cluster | None:
    """The cluster of the broker at this address; None if it does not answer or rejects the login.

    >>> request_metadata("127.0.0.1", 1, Login(Account("me", "pw"))) is None
    True
    """
    mechanism = login.mechanism.encode()
    try:
        with (
            socket.create_connection((host, port), timeout=timeout) as plain,
            _encrypted(plain, host, login) as connection,
            connection.makefile("rb") as response,
        ):
            name = struct.pack(">h", len(mechanism)) + mechanism
            (error,) = struct.unpack_from(">h", _send(connection, response, _HANDSHAKE, name), 4)
            if error:
                return None
            exchange = _plain(login.account) if login.authority is None else _scram(login.account)
            message = next(exchange)
            while message is not None:
                body = struct.pack(">i", len(message)) + message
                answer = _send(connection, response, _AUTHENTICATE, body)
                (error,) = struct.unpack_from(">h", answer, 4)
                if error:
                    return None
                message = exchange.send(_authentication(answer))
            return _read(_send(connection, response, _METADATA, _NO_TOPICS))
    except (OSError, struct.error, ValueError):
        return None


def _encrypted(connection: socket.socket, host: str, login: Login) -> socket.socket:
    if login.authority is None:
        return connection
    trusting = ssl.create_default_context(cafile=login.authority)
    return trusting.wrap_socket(connection, server_hostname=host)


def _plain(account: Account) -> Generator[bytes | None, bytes]:
    yield f"\0{account.user}\0{account.password}".encode()
    yield None


def _scram(account: Account) -> Generator[bytes | None, bytes]:
    """The client's messages of RFC 5802; the broker has proved its name by its certificate."""
    first = f"n={account.user},r={secrets.token_hex(16)}".encode()
    challenge = yield b"n,," + first
    named = dict(part.split(b"=", 1) for part in challenge.split(b","))
    salt, rounds = base64.b64decode(named[b"s"]), int(named[b"i"])
    salted = hashlib.pbkdf2_hmac("sha512", account.password.encode(), salt, rounds)
    key = hmac.digest(salted, b"Client Key", "sha512")
    last = b"c=biws,r=" + named[b"r"]
    signed = b",".join((first, challenge, last))
    signature = hmac.digest(hashlib.sha512(key).digest(), signed, "sha512")
    proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    yield last + b",p=" + base64.b64encode(proof)
    yield None


def _authentication(body: bytes) -> bytes:
    (length,) = struct.unpack_from(">h", body, 6)  # of the error message, -1 for none
    at = 8 + max(length, 0)
    (size,) = struct.unpack_from(">i", body, at)
    return body[at + 4 : at + 4 + size]


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
