"""The one way tests wait."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from gearshift.connection import Connection
from gearshift.topics import for_librdkafka

T = TypeVar("T")

# Brokers delete what was written a week ago, by the time that the record says, and look every five minutes.
LATELY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=4)
"""A midnight whose records a broker keeps for as long as tests take."""


def eventually(check: Callable[[], T], *, within: timedelta | float = 240, every: float = 0.05) -> T:
    """The first truthy answer of `check`; fails with the last one when the time is over.

    The time is long, since other tests run beside this one: it ends what stands still, and measures nothing. For the
    same reason a check that takes long is made less often.

    >>> eventually(lambda: 7)
    7
    """
    seconds = within.total_seconds() if isinstance(within, timedelta) else within
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if found := check():
            return found
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"not within {seconds:g} s; the last answer was {found!r}")
        time.sleep(max(every, 3 * (now - began)))


def librdkafka(connection: Connection) -> dict[str, Any]:
    """What a librdkafka client of a test's own needs to reach and open Kafka."""
    return {"bootstrap.servers": connection.bootstrap_servers, **for_librdkafka(connection.kafka)}


def registry_client(connection: Connection) -> dict[str, Any]:
    """What a `SchemaRegistryClient` of a test's own needs to reach and open the registry."""
    return {"url": connection.registry_url, **connection.registry}


def cluster(connection: Connection) -> dict[str, Any]:
    """The settings of a user whose own cluster this is."""
    return {
        "bootstrap_servers": connection.bootstrap_servers,
        "registry_url": connection.registry_url,
        "kafka": dict(connection.kafka),
        "registry": dict(connection.registry),
    }


def cluster_environ(connection: Connection) -> dict[str, str]:
    """The same as environment variables."""
    tables = {"kafka": connection.kafka, "registry": connection.registry}
    return {
        "GEARSHIFT_BOOTSTRAP_SERVERS": connection.bootstrap_servers,
        "GEARSHIFT_REGISTRY_URL": connection.registry_url,
        **{
            f"GEARSHIFT_{table}__{name.replace('.', '_')}".upper(): value
            for table, entries in tables.items()
            for name, value in entries.items()
        },
    }


def closed_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    """Whether somebody on this machine takes connections on a port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
