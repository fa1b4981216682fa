"""Threads between Python and Spark's Java process.

py4j binds a thread on each side to one on the other, with a connection that outlives them: a query's Java thread that
once called a listener here leaves a Python thread waiting for ever, and a Python thread that called Spark a Java one.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from pyspark import SparkContext


def current_connection() -> Any:
    """py4j's connection of this thread; None if it has not called Spark and was not called by it."""
    client = _client()
    return client.get_thread_connection() if client is not None else None


def close_connection(connection: Any) -> None:
    """End the Python thread that waits on the connection of a Java thread."""
    if connection is not None and connection.socket is not None:
        # Closing it would wait for the reader; the end of input ends the reader, which closes it.
        with contextlib.suppress(OSError):
            connection.socket.shutdown(socket.SHUT_RDWR)


def leave_java() -> None:
    """End the Java thread of this Python thread, which is about to end; a later call would make a new one."""
    connection = current_connection()
    if connection is not None:
        with contextlib.suppress(ValueError):
            _client().deque.remove(connection)
        connection.close()


def _client() -> Any:
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    return gateway._gateway_client if gateway is not None else None
