"""What every librdkafka client of ours is told, and how its complaints become our errors."""

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
    SettingsError,
    TopicError,
    TopicMissingError,
)
from gearshift.topics.properties import for_librdkafka

if TYPE_CHECKING:
    from gearshift.connection import Connection

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ANSWER_WITHIN = timedelta(seconds=3)  # for whoever sits in front of a terminal
ANSWER_AT_WORK_WITHIN = timedelta(seconds=30)  # where it is better to wait than to begin again
# For a client that nobody polls. While no broker answers, librdkafka begins anew at the bootstrap servers and keeps
# an error each time, some forty a second, in a queue it walks through to its end, with ever more to do
# (its issue 5546; after twenty minutes a few such clients took half a core).
UNPOLLED = {"metadata_recovery_strategy": "none"}
LARGEST_RECORD = 64 << 20  # for clients that leave it to the topic's own max.message.bytes

# librdkafka writes to stderr unless it is given a logger. A broker that is away is told once, as our error;
# its own lines are for those who ask: `logging.getLogger("gearshift.librdkafka")`.
LOG = logging.getLogger("gearshift.librdkafka")
LOG.addHandler(logging.NullHandler())
# A coordinator that moves or loads, and a connection that closes before it was up, are states that librdkafka retries.
_RETRIED = re.compile(
    r"Coordinator (load in progress|not available)|Not coordinator|transport failure \(after \d+ms in state DOWN"
)


def _demote_retried(record: logging.LogRecord) -> bool:
    """Let a line about a state that is retried through as debug only."""
    if _RETRIED.search(record.getMessage()):
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return LOG.isEnabledFor(logging.DEBUG)
    return True


LOG.addFilter(_demote_retried)

_AWAY = {
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
}
_NO_COORDINATOR = {
    KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
}
_REFUSED = {
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._SSL,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}


class Client:
    """The configuration of one librdkafka client, and the last thing it complained of."""

    def __init__(self, connection: Connection, **properties: Any) -> None:
        """`properties` are librdkafka's, with `_` for `.`."""
        self.servers = connection.bootstrap_servers
        self.refusal: KafkaError | None = None
        self._given = connection.kafka
        self.properties: dict[str, Any] = {
            "bootstrap.servers": connection.bootstrap_servers,
            "client.id": "gearshift",
            "socket.connection.setup.timeout.ms": 3000,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1000,
            "allow.auto.create.topics": False,
            # An admin client waits for the controller it knows; this often it learns that another one took over.
            "topic.metadata.refresh.interval.ms": 5000,
            "log.connection.close": False,
            **({"broker.address.family": "v4"} if is_loopback(connection.bootstrap_servers) else {}),
            **for_librdkafka(connection.kafka),
            **{name.replace("_", "."): value for name, value in properties.items()},
            "error_cb": self._heard,
        }

    def open(self, kind: Callable[..., T]) -> T:
        """A librdkafka client of this kind; SettingsError if a property is not one it knows."""
        try:
            return kind(self.properties, logger=LOG)
        except KafkaException as raised:
            error = kafka_error(raised)
            words = error.str() if error is not None else "unknown"
            for secret in self._given.values():
                words = words.replace(secret, "***") if secret else words
            raise SettingsError(
                f"a client property is refused: {words}", hint="see [kafka] in gearshift.toml"
            ) from None

    def _heard(self, error: KafkaError) -> None:
        LOG.info("%s", error.str())
        if error.code() in _REFUSED:
            self.refusal = error

    def unreachable(self) -> GearshiftError:
        """The error of a broker that did not answer, or that did not want to."""
        if self.refusal is not None:
            return self.refused(self.refusal)
        hint = (
            'try "gearshift up"' if is_loopback(self.servers) else "check bootstrap_servers in gearshift.toml"
        )
        return BrokerUnreachableError(f"no broker answers at {self.servers}", hint=hint)

    def refused(self, error: KafkaError) -> GearshiftError:
        """The error of credentials or certificates that do not open the broker."""
        return SettingsError(
            f"the broker at {self.servers} refuses us: {error.name()}", hint="see [kafka] in gearshift.toml"
        )

    def translated(
        self, raised: Exception, *, topic: str | None = None, partition: int | None = None
    ) -> GearshiftError:
        """Our error for one of librdkafka's."""
        error = kafka_error(raised)
        if error is None or error.code() in _AWAY:
            return self.unreachable()
        if error.code() in _NO_COORDINATOR:
            return BrokerUnreachableError(
                f"no broker at {self.servers} coordinates the group", hint="try again; it takes seconds"
            )
        if error.code() in _REFUSED:
            return self.refused(error)
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return missing(topic or "?")
        return TopicError(error.str(), topic=topic, partition=partition)


def millis(instant: datetime) -> int:
    """An instant as Kafka's clients take it.

    >>> millis(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000
    """
    if instant.tzinfo is None:
        raise EncodeError(
            "a record's timestamp is a naive datetime", hint="say which zone it means: tzinfo=UTC"
        )
    return (instant - _EPOCH) // timedelta(milliseconds=1)


def missing(topic: str) -> TopicMissingError:
    """The error of a topic that does not exist."""
    return TopicMissingError(
        "the topic does not exist", hint="gearshift run creates the topics of an app", topic=topic
    )


def kafka_error(raised: Exception) -> KafkaError | None:
    """The KafkaError inside an exception, if it holds one."""
    if isinstance(raised, KafkaException) and raised.args and isinstance(raised.args[0], KafkaError):
        return raised.args[0]
    return None


def is_loopback(servers: str) -> bool:
    """Whether every one of these servers is on this machine.

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
