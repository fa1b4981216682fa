"""From a polled message to the value that a handler gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gearshift.errors import DecodeError
from gearshift.schemas import Decoder
from gearshift.schemas.debezium import ChangeDecoder

if TYPE_CHECKING:
    from gearshift.definitions import Topic
    from gearshift.schemas import Registry

Message = Any


def decoding(topic: Topic, registry: Registry) -> Callable[[Message], Any]:
    """The values of a topic, or the changes of a captured table's; None for a tombstone, which tells nothing new."""
    if topic.envelope is None:
        decode = Decoder(topic, registry)
        return lambda message: decode(message.value())
    changes: ChangeDecoder[Any] = ChangeDecoder(topic.value, replica_identity_full=topic.before)

    def change_of(message: Message) -> Any:
        try:
            return changes.decode(message.key(), message.value())
        except DecodeError as error:
            error.topic = topic.name
            raise

    return change_of
