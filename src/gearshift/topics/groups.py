"""The committed offsets of a consumer group, read and set from outside of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

from gearshift.errors import TopicError
from gearshift.topics.client import UNPOLLED, Client

if TYPE_CHECKING:
    from gearshift.connection import Connection

MIRROR = "gearshift mirror"
"""Said with each offset of a pipeline's group: Spark reads by its own checkpoint, and this only shows where it is."""
Offsets = dict[tuple[str, int], int]
# The first group of a new cluster waits until its brokers have made the topic that keeps the offsets.
COORDINATOR_WITHIN = timedelta(seconds=10)


class GroupOffsets:
    """One group's offsets, over one connection.

    A consumer that never subscribes, rather than the admin calls made for this: librdkafka's admin client
    crashes the process when a coordinator answers that it no longer is one (librdkafka 2.16, `OffsetFetch`
    with NOT_COORDINATOR: the first group of a new cluster, or a broker that went down).
    """

    def __init__(
        self, connection: Connection, group_id: str, *, answer_within: timedelta = COORDINATOR_WITHIN
    ) -> None:
        self.group_id = group_id
        self.mirrors = False
        """Whether the offsets last read only show where a pipeline is."""
        self._seconds = answer_within.total_seconds()
        wait = round(answer_within / timedelta(milliseconds=1))
        self._client = Client(
            connection,
            group_id=group_id,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            # A commit has no time limit of its own: it waits for the coordinator as long as a session lasts.
            session_timeout_ms=wait,
            heartbeat_interval_ms=wait // 3,
            socket_timeout_ms=wait,
            **UNPOLLED,
        )
        self._consumer = self._client.open(Consumer)

    def commit(self, offsets: Mapping[tuple[str, int], int], *, said: str | None = None) -> None:
        """Set these offsets, with a word that is kept beside them; TopicError if the group has members of its own."""
        places = [
            TopicPartition(topic, partition, offset, said or "")
            for (topic, partition), offset in offsets.items()
        ]
        try:
            done = self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as raised:
            named = ", ".join(sorted({topic for topic, _ in offsets}))
            raise self._client.translated(raised, topic=named) from None
        for place in done or ():
            if place.error is not None:
                raise TopicError(
                    f"group {self.group_id} cannot commit offset {place.offset}: {place.error.str()}",
                    hint="stop the members of the group, or mirror into another one",
                    topic=place.topic,
                    partition=place.partition,
                )

    def committed(self, places: Iterable[tuple[str, int]]) -> Offsets:
        """The committed offsets of those of these partitions that have one."""
        wanted = [TopicPartition(topic, partition) for topic, partition in places]
        if not wanted:
            return {}
        try:
            found = self._consumer.committed(wanted, timeout=self._seconds)
        except KafkaException as raised:
            raise self._client.translated(raised) from None
        self.mirrors = any(place.metadata == MIRROR for place in found)
        return {(place.topic, place.partition): place.offset for place in found if place.offset >= 0}

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()
