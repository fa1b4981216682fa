"""Cassandra's driver, which has no types: the one place that configures it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl

from gearshift.destinations.network import is_loopback
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
class Tls:
    """Files in PEM: of the authority to trust instead of the machine's own, of our certificate, and of its key."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    def context(self) -> ssl.SSLContext:
        """What checks the nodes' certificates, and that they are for the addresses that were asked for."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            raise DefinitionError(
                f"the TLS files for Cassandra cannot be read: {error}",
                hint="name PEM files in ca=, cert= and key= of the contact points",
            ) from None
        return context


def _tls(query: str) -> tuple[Tls | None, bool]:
    """What the contact points say of TLS, and whether they say that it is to be done without."""
    try:
        said = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        said = {"?": query}
    use = said.pop("tls", None)
    files = {name: said.pop(name, None) or None for name in ("ca", "cert", "key")}
    named = any(files.values())
    if (
        said
        or use not in (None, "true", "false")
        or (use == "false" and named)
        or (files["key"] and not files["cert"])
    ):
        raise DefinitionError(
            "the contact points of Cassandra say something else than tls=true, ca=, cert= and key= after the ?",
            hint="write host:port,host:port?ca=FILE&cert=FILE&key=FILE",
        )
    return (Tls(**files) if named or use == "true" else None), use == "false"


@dataclass(frozen=True, slots=True)
class ContactPoints:
    """The nodes to ask first, who asks, and whether over TLS.

    >>> ContactPoints.read("ann:secret@10.0.0.1:9043,10.0.0.2?ca=ca.pem")
    ContactPoints(nodes=(('10.0.0.1', 9043), ('10.0.0.2', 9042)), user='ann', tls=Tls(ca='ca.pem', cert=None, key=None))
    """

    nodes: tuple[tuple[str, int], ...]
    user: str | None = None
    password: str = field(default="", repr=False)
    tls: Tls | None = None

    @classmethod
    def read(cls, text: str) -> ContactPoints:
        """The points in `user:password@host:port,host:port?ca=FILE&cert=FILE&key=FILE`."""
        login, _, rest = text.rpartition("@")
        user, _, password = login.partition(":")
        hosts, _, query = rest.partition("?")
        tls, in_the_clear = _tls(query)
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
        far = next((host for host, _ in nodes if not is_loopback(host)), None)
        if user and tls is None and far is not None and not in_the_clear:
            raise DefinitionError(
                f"Cassandra's password would be readable on its way to {far}",
                hint="put ?tls=true or ?ca=FILE behind the contact points (?tls=false if nobody else is on that network)",
            )
        return cls(tuple(nodes), user or None, password, tls)

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
        ssl_context=points.tls.context() if points.tls is not None else None,
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
