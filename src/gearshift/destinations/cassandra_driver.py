"""Cassandra's driver, which has no types: the one place that configures it."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from gearshift.errors import DefinitionError

_PORT = 9042
_CONNECT_SECONDS = 10
_REQUEST_SECONDS = 10


def load(module: str) -> Any:
    """A module of the driver, or the line that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise DefinitionError(
            "Cassandra's driver is not installed", hint="pip install 'gearshift[cassandra]'"
        ) from None


@dataclass(frozen=True, slots=True)
class ContactPoints:
    """The nodes to ask first, and who asks.

    >>> ContactPoints.read("ann:secret@10.0.0.1:9043,10.0.0.2")
    ContactPoints(nodes=(('10.0.0.1', 9043), ('10.0.0.2', 9042)), user='ann')
    """

    nodes: tuple[tuple[str, int], ...]
    user: str | None = None
    password: str = field(default="", repr=False)

    @classmethod
    def read(cls, text: str) -> ContactPoints:
        """The points in `user:password@host:port,host:port`."""
        login, _, hosts = text.rpartition("@")
        user, _, password = login.partition(":")
        nodes: list[tuple[str, int]] = []
        for point in hosts.split(","):
            host, colon, port = point.strip().rpartition(":")
            if not colon:
                host, port = port, str(_PORT)
            if not host or not port.isdigit():
                raise DefinitionError(
                    "the contact points of Cassandra cannot be read", hint="write host:port,host:port"
                )
            nodes.append((host.strip("[]"), int(port)))
        return cls(tuple(nodes), user or None, password)

    @property
    def place(self) -> str:
        """The nodes in words."""
        return ",".join(f"{host}:{port}" for host, port in self.nodes)


def connect(points: ContactPoints, *, name: str) -> tuple[Any, Any]:
    """The driver's cluster and session."""
    cluster, policies = load("cassandra.cluster"), load("cassandra.policies")
    login = None
    if points.user is not None:
        login = load("cassandra.auth").PlainTextAuthProvider(points.user, points.password)
    profile = cluster.ExecutionProfile(
        load_balancing_policy=policies.TokenAwarePolicy(policies.DCAwareRoundRobinPolicy()),
        # An offset is committed after this: one replica's word is not enough where there are several.
        consistency_level=load("cassandra").ConsistencyLevel.LOCAL_QUORUM,
        request_timeout=_REQUEST_SECONDS,
    )
    made = cluster.Cluster(
        contact_points=list(points.nodes),
        auth_provider=login,
        execution_profiles={cluster.EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=_CONNECT_SECONDS,
        control_connection_timeout=_REQUEST_SECONDS,  # the usual 2 s are short for a node that starts or is busy
        # A node that comes back is used again within seconds; the driver's own patience grows to ten minutes.
        reconnection_policy=policies.ExponentialReconnectionPolicy(0.5, 5.0, max_attempts=None),
        application_name=name,
        # Spoken by every Cassandra since 2.2 and by what imitates it; negotiating fills the log with warnings.
        protocol_version=4,
    )
    try:
        return made, made.connect()
    except BaseException:
        made.shutdown()
        raise
