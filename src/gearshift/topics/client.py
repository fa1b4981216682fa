"""The configuration that all librdkafka clients share, and the translation of their errors to ours."""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from gearshift.errors import (
    BrokerUnreachableError,
    EncodeError,
    GearshiftError,
    LoginError,
    SettingsError,
    TopicError,
    TopicMissingError,
)
from gearshift.topics.access.denied import not_authorized
from gearshift.topics.access.principal import principal_of
from gearshift.topics.access.rules import DESCRIBE, READ, WRITE
from gearshift.topics.properties import for_librdkafka

if TYPE_CHECKING:
    from gearshift.connection import Connection

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ANSWER_WITHIN = timedelta(seconds=3)  # for interactive commands
ANSWER_AT_WORK_WITHIN = timedelta(seconds=30)  # where waiting costs less than a restart
# For a client that is never polled. While no broker answers, librdkafka bootstraps again some forty times a second and
# appends an error to a queue that it traverses each time (librdkafka issue 5546: after twenty minutes a few such
# clients used half a core).
UNPOLLED = {"metadata_recovery_strategy": "none"}
LARGEST_RECORD = 64 << 20  # for clients that leave the limit to the topic's max.message.bytes

# librdkafka writes to stderr unless it has a logger. We report an unreachable broker once, as our error;
# librdkafka's messages are available from `logging.getLogger("gearshift.librdkafka")`.
LOG = logging.getLogger("gearshift.librdkafka")
LOG.addHandler(logging.NullHandler())
# librdkafka retries while a coordinator moves or loads, when a connection closes before it is established, and a login
# that the brokers reject, some forty times a second.
_RETRIED = re.compile(
    r"Coordinator (load in progress|not available)|Not coordinator|transport failure \(after \d+ms in state DOWN"
    r"|SASL authentication error|SSL handshake failed|certificate verify failed"
)


def _demote_retried(record: logging.LogRecord) -> bool:
    """Log what librdkafka retries at level DEBUG."""
    if _RETRIED.search(record.getMessage()):
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return LOG.isEnabledFor(logging.DEBUG)
    return True


LOG.addFilter(_demote_retried)

_UNREACHABLE = {
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
}
_TIMED_OUT = re.compile("timed out|timeout|transport failure|disconnected", re.IGNORECASE)
_NO_COORDINATOR = {
    KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
}
_REJECTED = {
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError._SSL,
}
_UNAUTHORIZED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Client:
    """The configuration of one librdkafka client, and why the brokers rejected it last."""

    def __init__(self, connection: Connection, **properties: Any) -> None:
        """`properties` are librdkafka's, with `_` for `.`."""
        self.servers = connection.bootstrap_servers
        self.unauthorized: KafkaError | None = None
        self._given = connection.kafka
        self.properties: dict[str, Any] = {
            "bootstrap.servers": connection.bootstrap_servers,
            "client.id": "gearshift",
            "socket.connection.setup.timeout.ms": 3000,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1000,
            "allow.auto.create.topics": False,
            # An admin client waits for the controller that it knows; it learns of a new one at this interval.
            "topic.metadata.refresh.interval.ms": 5000,
            "log.connection.close": False,
            **({"broker.address.family": "v4"} if is_loopback(connection.bootstrap_servers) else {}),
            **for_librdkafka(connection.kafka),
            **{name.replace("_", "."): value for name, value in properties.items()},
            "error_cb": self._on_error,
        }

    def open(self, kind: Callable[..., T]) -> T:
        """A librdkafka client of this class; SettingsError if it rejects a property."""
        try:
            return kind(self.properties, logger=LOG)
        except KafkaException as raised:
            error = kafka_error(raised)
            reason = error.str() if error is not None else "unknown"
            for secret in self._given.values():
                reason = reason.replace(secret, "***") if secret else reason
            raise SettingsError(
                f"invalid client property: {reason}", hint="check [kafka] in gearshift.toml"
            ) from None

    def _on_error(self, error: KafkaError) -> None:
        LOG.info("%s", error.str())
        # A broker that stands still ends a login too, with the code of a rejected one.
        if error.code() in _REJECTED | _UNAUTHORIZED and _TIMED_OUT.search(error.str()) is None:
            self.unauthorized = error

    def forgive(self) -> None:
        """Forget why the brokers rejected it, before it tries again."""
        self.unauthorized = None

    @property
    def rejection(self) -> LoginError | None:
        """The error if the brokers rejected the login, or their certificate is not trusted."""
        error = self.unauthorized
        return None if error is None or error.code() not in _REJECTED else self._rejected(error)

    def unreachable(self) -> GearshiftError:
        """The error for a broker that did not answer, or that rejected the client."""
        if self.unauthorized is not None:
            return self.denied(self.unauthorized)
        hint = (
            'try "gearshift up"' if is_loopback(self.servers) else "check bootstrap_servers in gearshift.toml"
        )
        return BrokerUnreachableError(f"no broker answers at {self.servers}", hint=hint)

    def denied(
        self,
        error: KafkaError,
        *,
        topic: str | None = None,
        group: str | None = None,
        operation: str | None = None,
    ) -> GearshiftError:
        """The error for a login that the broker rejects, or an operation that its rules do not permit."""
        if error.code() in _REJECTED:
            return self._rejected(error)
        principal, wanted = principal_of(self._given), operation or self._operation
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            named = group or self.properties.get("group.id")
            return not_authorized(
                principal, READ if "group.id" in self.properties else wanted, "group", named
            )
        if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return not_authorized(
                principal, WRITE, "transactional-id", self.properties.get("transactional.id")
            )
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED or (topic and wanted == WRITE):
            return not_authorized(principal, wanted, "topic", topic)
        # Brokers let a client that may write to some topic use an idempotent producer.
        return not_authorized(principal, "IdempotentWrite" if wanted == WRITE else wanted, "cluster")

    @property
    def _operation(self) -> str:
        """What a client of this kind does with topics."""
        if "group.id" in self.properties:
            return READ
        return WRITE if "delivery.timeout.ms" in self.properties else DESCRIBE

    def _rejected(self, error: KafkaError) -> LoginError:
        if error.code() == KafkaError._SSL:
            given = for_librdkafka(self._given)
            trusted = given.get("ssl.ca.location") or "the machine's own authorities"
            return LoginError(
                f"TLS to the broker at {self.servers} failed: its certificate is not trusted by {trusted}",
                hint="set ssl.ca.location in [kafka] to the PEM file of the brokers' authority",
            )
        who = principal_of(self._given).removeprefix("User:")
        return LoginError(
            f"authentication to the broker at {self.servers} failed for user {who}",
            hint="check sasl.username, sasl.password and sasl.mechanism in [kafka] of gearshift.toml",
        )

    def translated(
        self,
        raised: Exception,
        *,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        operation: str | None = None,
    ) -> GearshiftError:
        """Our error for one of librdkafka's; `operation` if it is another one than clients of this kind do."""
        error = kafka_error(raised)
        if error is None or error.code() in _UNREACHABLE:
            return self.unreachable()
        if error.code() in _NO_COORDINATOR:
            if self.unauthorized is not None:
                return self.denied(self.unauthorized)
            return BrokerUnreachableError(
                f"no broker at {self.servers} coordinates the group yet", hint="try again in a few seconds"
            )
        if is_denied(error):
            return self.denied(error, topic=topic, group=group, operation=operation)
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return missing(topic or "?")
        return TopicError(error.str(), topic=topic, partition=partition)


def is_denied(error: KafkaError) -> bool:
    """Whether the brokers rejected the login, or their rules do not permit the operation."""
    return error.code() in _REJECTED | _UNAUTHORIZED


def millis(instant: datetime) -> int:
    """A time in milliseconds since the epoch, as Kafka's clients expect it.

    >>> millis(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000
    """
    if instant.tzinfo is None:
        raise EncodeError("a record's timestamp is a naive datetime", hint="add a time zone: tzinfo=UTC")
    return (instant - _EPOCH) // timedelta(milliseconds=1)


def missing(topic: str) -> TopicMissingError:
    """The error for a topic that does not exist."""
    return TopicMissingError(
        "the topic does not exist", hint="create it, or start its app with gearshift run", topic=topic
    )


def kafka_error(raised: Exception) -> KafkaError | None:
    """The KafkaError inside an exception, if it holds one."""
    if isinstance(raised, KafkaException) and raised.args and isinstance(raised.args[0], KafkaError):
        return raised.args[0]
    return None


def is_loopback(servers: str) -> bool:
    """Whether all of these servers are on this machine.

    >>> is_loopback("127.0.0.1:9092,localhost:9093"), is_loopback("kafka.example:9092")
    (True, False)
    """
    return all(
        _local(server.strip().rpartition("://")[2].rpartition(":")[0]) for server in servers.split(",")
    )


def _local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
