"""Topics and their records: admin, producers, readers, consumer groups, dead letters.

Only this package and `schemas/registry_client.py` import confluent_kafka.
"""

from __future__ import annotations

from gearshift.topics.admin import Admin, TopicState
from gearshift.topics.dead_letters.writer import (
    REASON_HEADERS,
    REPLAY_FOR,
    REPLAY_KEY,
    REPLAY_OF,
    REPLAYS,
    DeadLetter,
    DeadLetters,
    dead_letter_headers,
    replayed_place,
    result_headers,
)
from gearshift.topics.group_consumer import GroupConsumer
from gearshift.topics.groups.back_pressure import Pressure
from gearshift.topics.groups.commit_metadata import Committed, Note
from gearshift.topics.groups.offsets import GroupOffsets
from gearshift.topics.groups.tools import Groups
from gearshift.topics.marks.marked import LatestMarks, MarkedTransactions
from gearshift.topics.marks.marks import Marks
from gearshift.topics.partitioner import partition_of
from gearshift.topics.partitions import Offsets, TopicPartition
from gearshift.topics.producer import Failure, Producer, key_bytes
from gearshift.topics.properties import for_java, for_librdkafka
from gearshift.topics.reader import ConsumedRecord, Tail, read, read_at, tail
from gearshift.topics.topic_ids import TopicIds
from gearshift.topics.transactions import TransactionalProducer

__all__ = [
    "REASON_HEADERS",
    "REPLAYS",
    "REPLAY_FOR",
    "REPLAY_KEY",
    "REPLAY_OF",
    "Admin",
    "Committed",
    "ConsumedRecord",
    "DeadLetter",
    "DeadLetters",
    "Failure",
    "GroupConsumer",
    "GroupOffsets",
    "Groups",
    "LatestMarks",
    "MarkedTransactions",
    "Marks",
    "Note",
    "Offsets",
    "Pressure",
    "Producer",
    "Tail",
    "TopicIds",
    "TopicPartition",
    "TopicState",
    "TransactionalProducer",
    "dead_letter_headers",
    "for_java",
    "for_librdkafka",
    "key_bytes",
    "partition_of",
    "read",
    "read_at",
    "replayed_place",
    "result_headers",
    "tail",
]
