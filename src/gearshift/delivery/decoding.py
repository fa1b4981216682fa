"""From a polled message to the value that a handler gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gearshift.errors import DecodeError
from gearshift.schemas import Decoder
from gearshift.schemas.debezium import ChangeDecoder
from gearshift.schemas.debezium_avro import AvroReader

if TYPE_CHECKING:
    from gearshift.definitions import Topic
    from gearshift.schemas import Registry

Message = Any


class Decoding(NamedTuple):
    """How a message becomes a value."""

    message: Callable[[Message], Any]
    """None for a tombstone among changes, which tells nothing new."""
    readers: Mapping[bytes, Callable[[bytes], Any]]
    """The same for values that begin with one of these heads, which saves calls for every record."""


def decoding(topic: Topic, registry: Registry) -> Decoding:
    """The values of a topic, or the changes of a captured table's."""
    if topic.envelope is None:
        decoder = Decoder(topic, registry)

        def value_of(message: Message) -> Any:
            return decoder(message.value())

        return Decoding(value_of, decoder.readers)
    changes: ChangeDecoder[Any] = ChangeDecoder(
        topic.value,
        replica_identity_full=topic.before,
        read=AvroReader(registry) if topic.format == "avro" else None,
    )

    def change_of(message: Message) -> Any:
        try:
            return changes.decode(message.key(), message.value())
        except DecodeError as error:
            error.topic = topic.name
            raise

    return Decoding(change_of, {})
