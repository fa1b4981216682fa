"""A minimal CQL client, without a driver: reads the cluster name and creates the roles of a new node."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from typing import BinaryIO

from gearshift.stack.services.accounts import Account

_VERSION = 4
_STARTUP, _AUTHENTICATE, _QUERY, _RESULT = 0x01, 0x03, 0x07, 0x08
_AUTH_RESPONSE, _AUTH_SUCCESS = 0x0F, 0x10
_ONE = 0x0001
_ROWS = 2
_LONGEST = 1 << 20


def cluster_name(host: str, port: int, account: Account, *, timeout: float = 5.0) -> str | None:
    """The cluster name of the node at this address; None if it does not answer or rejects the account.

    >>> cluster_name("127.0.0.1", 1, Account("me", "pw")) is None
    True
    """
    results = run_queries(host, port, account, ["SELECT cluster_name FROM system.local"], timeout=timeout)
    return _only_value(results[0]) if results else None


def run_queries(
    host: str, port: int, account: Account, queries: Iterable[str], *, timeout: float = 5.0
) -> list[bytes] | None:
    """The result of each query; None if the node does not answer, or rejects the account or a query."""
    credentials = f"\0{account.user}\0{account.password}".encode()
    try:
        with (
            socket.create_connection((host, port), timeout=timeout) as connection,
            connection.makefile("rb") as response,
        ):
            connection.sendall(_frame(_STARTUP, struct.pack(">H", 1) + _text("CQL_VERSION") + _text("3.0.0")))
            if _read(response)[0] != _AUTHENTICATE:
                return None
            connection.sendall(_frame(_AUTH_RESPONSE, struct.pack(">i", len(credentials)) + credentials))
            if _read(response)[0] != _AUTH_SUCCESS:
                return None
            found: list[bytes] = []
            for query in queries:
                text = query.encode()
                connection.sendall(
                    _frame(_QUERY, struct.pack(">i", len(text)) + text + struct.pack(">HB", _ONE, 0))
                )
                kind, body = _read(response)
                if kind != _RESULT:
                    return None
                found.append(body)
            return found
    except (OSError, struct.error, ValueError):
        return None


def _frame(kind: int, body: bytes) -> bytes:
    return struct.pack(">BBhBi", _VERSION, 0, 0, kind, len(body)) + body


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _read(response: BinaryIO) -> tuple[int, bytes]:
    _, _, _, kind, size = struct.unpack(">BBhBi", response.read(9))
    if not 0 <= size < _LONGEST:
        raise ValueError(size)
    return kind, response.read(size)


def _only_value(body: bytes) -> str | None:
    """The value of a result with one row and one column."""
    kind, _, columns = struct.unpack_from(">iii", body)
    if kind != _ROWS or columns != 1:
        return None
    at = 12
    for _ in range(3):  # the keyspace, the table and the column's name
        (length,) = struct.unpack_from(">H", body, at)
        at += 2 + length
    _, rows, size = struct.unpack_from(">Hii", body, at)  # the column's type comes first
    return body[at + 10 : at + 10 + size].decode() if rows == 1 and size >= 0 else None
