"""What Kafka's Java client raises inside Spark when brokers reject a login or do not permit an operation."""

from __future__ import annotations

import re

from gearshift.connection import Connection
from gearshift.definitions import Pipeline, Topic
from gearshift.errors import GearshiftError, LoginError
from gearshift.topics.access.denied import not_authorized
from gearshift.topics.access.principal import principal_of
from gearshift.topics.access.rules import READ, WRITE

_TOPICS = re.compile(r"TopicAuthorizationException: Not authorized to access topics: \[([^\],]+)")
_SOME_TOPIC = re.compile("TopicAuthorizationException: Topic authorization failed")
_GROUP = re.compile(r"GroupAuthorizationException: Not authorized to access group: (\S+)")
_CLUSTER = re.compile(r"ClusterAuthorizationException")
_REJECTED = re.compile(r"(SaslAuthenticationException|SslAuthenticationException): ([^\n]+)")


def explain_denial(text: str, pipeline: Pipeline, connection: Connection) -> GearshiftError | None:
    """The error for Spark's text; None if it is about something else."""
    principal = principal_of(connection.kafka)
    target = pipeline.target.name if isinstance(pipeline.target, Topic) else None
    if found := _TOPICS.search(text):
        topic = found[1].strip()
        reads = any(topic == source.name for source in pipeline.topics.values())
        return not_authorized(principal, READ if reads else WRITE, "topic", topic)
    if _SOME_TOPIC.search(text) and pipeline.topics:
        # Kafka's admin client does not say which; Spark looks up the offsets of what it reads with it.
        return not_authorized(principal, READ, "topic", next(iter(pipeline.topics.values())).name)
    if found := _GROUP.search(text):
        return not_authorized(principal, READ, "group", found[1])
    if _CLUSTER.search(text) and target is not None:
        # Brokers let a client that may write to some topic use an idempotent producer.
        return not_authorized(principal, WRITE, "topic", target)
    if found := _REJECTED.search(text):
        return LoginError(
            f"the brokers at {connection.bootstrap_servers} reject the login: {found[2]}",
            hint="check [kafka] in gearshift.toml",
            pipeline=pipeline.name,
        )
    return None
