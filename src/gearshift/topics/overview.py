"""All topics at a glance, in three requests however many there are."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

from gearshift.topics.admin_requests import AdminRequests
from gearshift.topics.client import ANSWER_WITHIN

if TYPE_CHECKING:
    from gearshift.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSize:
    """A topic, with the records of its partitions that have a leader."""

    name: str
    partitions: int
    records: int


def overview(connection: Connection) -> list[TopicSize]:
    """The topics by name, except Kafka's internal ones."""
    requests = AdminRequests(connection, answer_within=ANSWER_WITHIN)
    try:
        listed = requests.call(lambda: requests.admin.list_topics(timeout=requests.seconds)).topics
        topics = {name: topic for name, topic in sorted(listed.items()) if not name.startswith("__")}
        led = [
            (name, partition.id)
            for name, topic in topics.items()
            for partition in topic.partitions.values()
            if partition.leader >= 0
        ]
        begins = requests.list_offsets(led, OffsetSpec.earliest())
        ends = requests.list_offsets(led, OffsetSpec.latest())
    finally:
        requests.close()
    records: defaultdict[str, int] = defaultdict(int)
    for place, end in ends.items():
        records[place[0]] += end - begins[place]
    return [
        TopicSize(name=name, partitions=len(topic.partitions), records=records[name])
        for name, topic in topics.items()
    ]
