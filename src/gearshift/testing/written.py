"""What a run left on topics: the decoded values of the target, and the reasons of dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gearshift.connection import Connection
from gearshift.definitions import Topic
from gearshift.schemas import Decoder, Registry
from gearshift.topics import Admin, read
from gearshift.topics.dead_letters.letters import DeadLetterTopic


def values_on(connection: Connection, registry: Registry, topic: Topic) -> list[Any]:
    """The values of a topic, in the order of each partition."""
    decode = Decoder(topic, registry)
    return [decode(record.value) for record in read(connection, topic.name)]


def reasons_on(connection: Connection, admin: Admin, names: Iterable[str]) -> list[str]:
    """The reasons of the dead letters on these topics, as far as they exist."""
    return [
        letter.reason
        for name in sorted(admin.describe(dict.fromkeys(names)))
        for letter in DeadLetterTopic(connection, name).open_letters()
    ]
