"""Topics and the records on them: admin, producer, reader, dead letters.

With `schemas/registry.py` the only place that imports confluent_kafka.
"""

from __future__ import annotations

from gearshift.topics.admin import Admin, TopicState
from gearshift.topics.consumer import GroupConsumer
from gearshift.topics.dead_letters import (
    REPLAY_FOR,
    REPLAY_KEY,
    REPLAY_OF,
    REPLAYS,
    DeadLetter,
    DeadLetters,
    dead_letter_headers,
    replayed_place,
)
from gearshift.topics.group_tools import Groups
from gearshift.topics.groups import GroupOffsets, Offsets
from gearshift.topics.marked import LatestMarks, MarkedTransactions
from gearshift.topics.marks import Marks
from gearshift.topics.murmur2 import partition_of
from gearshift.topics.pressure import Pressure
from gearshift.topics.producer import Failure, Producer, key_bytes
from gearshift.topics.properties import for_java, for_librdkafka
from gearshift.topics.reader import ConsumedRecord, Tail, read, tail
from gearshift.topics.transactions import TransactionalProducer

__all__ = [
    "REPLAYS",
    "REPLAY_FOR",
    "REPLAY_KEY",
    "REPLAY_OF",
    "Admin",
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
    "Offsets",
    "Pressure",
    "Producer",
    "Tail",
    "TopicState",
    "TransactionalProducer",
    "dead_letter_headers",
    "for_java",
    "for_librdkafka",
    "key_bytes",
    "partition_of",
    "read",
    "replayed_place",
    "tail",
]
