"""Topics and the records on them: admin, producer, reader, dead letters.

With `schemas/registry.py` the only place that imports confluent_kafka.
"""

from __future__ import annotations

from gearshift.topics.admin import Admin, TopicState
from gearshift.topics.dead_letters import DeadLetter, DeadLetters, dead_letter_headers
from gearshift.topics.groups import GroupOffsets, Offsets
from gearshift.topics.murmur2 import partition_of
from gearshift.topics.producer import Failure, Producer, key_bytes
from gearshift.topics.properties import for_java, for_librdkafka
from gearshift.topics.reader import ConsumedRecord, Tail, read, tail

__all__ = [
    "Admin",
    "ConsumedRecord",
    "DeadLetter",
    "DeadLetters",
    "Failure",
    "GroupOffsets",
    "Offsets",
    "Producer",
    "Tail",
    "TopicState",
    "dead_letter_headers",
    "for_java",
    "for_librdkafka",
    "key_bytes",
    "partition_of",
    "read",
    "tail",
]
