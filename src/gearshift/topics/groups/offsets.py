"""The committed offsets of a consumer group, read and set by a client that is not a member."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

import confluent_kafka
from confluent_kafka import Consumer, KafkaException

from gearshift.errors import GearshiftError, TopicError
from gearshift.topics.client import UNPOLLED, Client, is_denied
from gearshift.topics.partitions import Offsets, TopicPartition

if TYPE_CHECKING:
    from gearshift.connection import Connection

MIRROR = "gearshift mirror"
"""Metadata of the offsets of a pipeline's group, which only show its position: Spark resumes from its checkpoint."""
# The first group of a new cluster waits until its brokers have created the offsets topic.
COORDINATOR_WITHIN = timedelta(seconds=10)


class GroupOffsets:
    """One group's offsets, over one connection.

    This uses a consumer that never subscribes instead of the admin client, which crashes the process when a
    broker answers `OffsetFetch` with NOT_COORDINATOR (librdkafka 2.16): for the first group of a new cluster, or
    after a broker went down.
    """

    def __init__(
        self, connection: Connection, group_id: str, *, answer_within: timedelta = COORDINATOR_WITHIN
    ) -> None:
        self.group_id = group_id
        self.mirrors = False
        """Whether the offsets read last are the mirrored position of a pipeline."""
        self._seconds = answer_within.total_seconds()
        wait = round(answer_within / timedelta(milliseconds=1))
        self._client = Client(
            connection,
            group_id=group_id,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            # A commit has no timeout setting: it waits for the coordinator for the session timeout.
            session_timeout_ms=wait,
            heartbeat_interval_ms=wait // 3,
            socket_timeout_ms=wait,
            **UNPOLLED,
        )
        self._consumer = self._client.open(Consumer)

    def commit(self, offsets: Mapping[TopicPartition, int], *, metadata: str = "") -> None:
        """Set these offsets, with the same metadata for each; TopicError if the group has members."""
        positions = [
            confluent_kafka.TopicPartition(topic, partition, offset, metadata)
            for (topic, partition), offset in offsets.items()
        ]
        try:
            done = self._consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException as raised:
            named = ", ".join(sorted({topic for topic, _ in offsets}))
            raise self._translated(raised, named) from None
        for position in done or ():
            if position.error is not None and is_denied(position.error):
                raise self._client.denied(position.error, topic=position.topic)
            if position.error is not None:
                raise TopicError(
                    f"group {self.group_id} cannot commit offset {position.offset}: {position.error.str()}",
                    hint="stop the members of the group, or use another group",
                    topic=position.topic,
                    partition=position.partition,
                )

    def committed(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The committed offsets of these partitions; those without one are left out."""
        wanted = [confluent_kafka.TopicPartition(*partition) for partition in partitions]
        if not wanted:
            return {}
        try:
            found = self._consumer.committed(wanted, timeout=self._seconds)
        except KafkaException as raised:
            raise self._translated(raised) from None
        self.mirrors = any(position.metadata == MIRROR for position in found)
        return {
            (position.topic, position.partition): position.offset
            for position in found
            if position.offset >= 0
        }

    def _translated(self, raised: Exception, topic: str | None = None) -> GearshiftError:
        # librdkafka looks for the coordinator until the time is over, and returns a denial as a message.
        message = self._consumer.poll(0)
        error = None if message is None else message.error()
        if error is not None and is_denied(error):
            return self._client.denied(error, topic=topic)
        return self._client.translated(raised, topic=topic)

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()
