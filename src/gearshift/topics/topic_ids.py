"""Topic ids, which distinguish a topic from an earlier one of the same name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from gearshift.topics.client import UNPOLLED, Client, kafka_error

if TYPE_CHECKING:
    from gearshift.connection import Connection

Answers = Mapping[str, Future[Any]]
_MISSING = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # sixteen zero bytes: the brokers are older than topic ids


class TopicIds:
    """Looks up topic ids."""

    def __init__(self, connection: Connection) -> None:
        self._client = Client(connection, **UNPOLLED)
        self._admin: Any = self._client.open(AdminClient)

    def ask(self, topics: Iterable[str], within: timedelta) -> Answers:
        """Request the ids of topics without waiting for the answers."""
        try:
            return self._admin.describe_topics(
                TopicCollection(sorted(topics)), request_timeout=within.total_seconds()
            )
        except KafkaException as raised:
            raise self._client.translated(raised) from None

    def of(self, answers: Answers) -> dict[str, str | None]:
        """The ids of the topics that exist; None if the brokers have no topic ids."""
        found: dict[str, str | None] = {}
        for topic, answer in answers.items():
            try:
                id_ = str(answer.result().topic_id)
            except KafkaException as raised:
                error = kafka_error(raised)
                if error is None or error.code() not in _MISSING:
                    raise self._client.translated(raised, topic=topic) from None
            else:
                found[topic] = None if id_ == _NO_ID else id_
        return found
