"""Configuration of the Cassandra driver, which has no type hints."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl

from gearshift.destinations.messages.network import is_loopback
from gearshift.errors import DefinitionError

_PORT = 9042
_CONNECT_SECONDS = 10
_REQUEST_SECONDS = 10


def load(module: str) -> Any:
    """Import a module of the driver; if it is missing, raise an error with the install command."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise DefinitionError(
            "the Cassandra driver is not installed", hint="pip install 'gearshift[cassandra]'"
        ) from None


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files: the trusted certificate authority (default: the system's), the client certificate and its key."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    def context(self) -> ssl.SSLContext:
        """An SSL context that verifies certificates and host names."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            raise DefinitionError(
                f"cannot read the TLS files for Cassandra: {error}",
                hint="set ca=, cert= and key= of the contact points to PEM files",
            ) from None
        return context


def _tls(query: str) -> tuple[Tls | None, bool]:
    """Parse the TLS options of the contact points; also whether TLS is explicitly disabled."""
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        options = {"?": query}
    use = options.pop("tls", None)
    files = {name: options.pop(name, None) or None for name in ("ca", "cert", "key")}
    named = any(files.values())
    if (
        options
        or use not in (None, "true", "false")
        or (use == "false" and named)
        or (files["key"] and not files["cert"])
    ):
        raise DefinitionError(
            "invalid TLS options in the Cassandra contact points: use tls=true, ca=, cert= and key= after the ?",
            hint="write host:port,host:port?ca=FILE&cert=FILE&key=FILE",
        )
    return (Tls(**files) if named or use == "true" else None), use == "false"


@dataclass(frozen=True, slots=True)
class ContactPoints:
    """The nodes to connect to first, the login and the TLS options.

    >>> ContactPoints.read("ann:secret@10.0.0.1:9043,10.0.0.2?ca=ca.pem")
    ContactPoints(nodes=(('10.0.0.1', 9043), ('10.0.0.2', 9042)), user='ann', tls=Tls(ca='ca.pem', cert=None, key=None))
    """

    nodes: tuple[tuple[str, int], ...]
    user: str | None = None
    password: str = field(default="", repr=False)
    tls: Tls | None = None

    @classmethod
    def read(cls, text: str) -> ContactPoints:
        """Parse `user:password@host:port,host:port?ca=FILE&cert=FILE&key=FILE`."""
        login, _, rest = text.rpartition("@")
        user, _, password = login.partition(":")
        hosts, _, query = rest.partition("?")
        tls, unencrypted = _tls(query)
        nodes: list[tuple[str, int]] = []
        for point in hosts.split(","):
            host, colon, port = point.strip().rpartition(":")
            if not colon:
                host, port = port, str(_PORT)
            if not host or not port.isdigit():
                raise DefinitionError("invalid Cassandra contact points", hint="write host:port,host:port")
            nodes.append((host.strip("[]"), int(port)))
        far = next((host for host, _ in nodes if not is_loopback(host)), None)
        if user and tls is None and far is not None and not unencrypted:
            raise DefinitionError(
                f"the Cassandra password would be sent unencrypted to {far}",
                hint="append ?tls=true or ?ca=FILE to the contact points (?tls=false on a trusted network)",
            )
        return cls(tuple(nodes), user or None, password, tls)

    @property
    def place(self) -> str:
        """The addresses of the nodes."""
        return ",".join(f"{host}:{port}" for host, port in self.nodes)


def connect(points: ContactPoints, *, name: str) -> tuple[Any, Any]:
    """Connect; return the driver's cluster and session."""
    cluster, policies = load("cassandra.cluster"), load("cassandra.policies")
    login = None
    if points.user is not None:
        login = load("cassandra.auth").PlainTextAuthProvider(points.user, points.password)
    profile = cluster.ExecutionProfile(
        load_balancing_policy=policies.TokenAwarePolicy(policies.DCAwareRoundRobinPolicy()),
        # Offsets are committed after this: with several replicas one acknowledgement is not enough.
        consistency_level=load("cassandra").ConsistencyLevel.LOCAL_QUORUM,
        request_timeout=_REQUEST_SECONDS,
    )
    made = cluster.Cluster(
        contact_points=list(points.nodes),
        auth_provider=login,
        ssl_context=points.tls.context() if points.tls is not None else None,
        execution_profiles={cluster.EXEC_PROFILE_DEFAULT: profile},
        connect_timeout=_CONNECT_SECONDS,
        control_connection_timeout=_REQUEST_SECONDS,  # the default of 2 s is short for a starting or busy node
        # Reconnect to a restarted node within seconds; the driver's default grows to ten minutes.
        reconnection_policy=policies.ExponentialReconnectionPolicy(0.5, 5.0, max_attempts=None),
        application_name=name,
        # Supported since Cassandra 2.2 and by compatible databases; negotiation fills the log with warnings.
        protocol_version=4,
    )
    try:
        return made, made.connect()
    except BaseException:
        made.shutdown()
        raise


def together(*statements: Any) -> Any:
    """Statements for one partition as one, which is written as a whole."""
    query: Any = load("cassandra.query")
    made = query.BatchStatement(batch_type=query.BatchType.UNLOGGED)
    for statement in statements:
        made.add(statement)
    made.is_idempotent = True
    return made
