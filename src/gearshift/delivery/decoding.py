"""From a polled message to the record that a handler receives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from gearshift.errors import DecodeError
from gearshift.record import Record
from gearshift.schemas import Decoder
from gearshift.schemas.debezium.avro import AvroReader
from gearshift.schemas.debezium.events import ChangeDecoder
from gearshift.topics import REPLAY_KEY, REPLAYS, replayed_place
from gearshift.topics.reader import record_time

if TYPE_CHECKING:
    from gearshift.definitions import Topic
    from gearshift.schemas import Registry

Message = Any  # confluent_kafka.Message, which has no type hints


class PolledRecord(Record[Any]):
    """A polled record; its fields are read from the message when the handler asks for them."""

    __slots__ = ("_kept_identity", "_kept_scope", "_kept_topic_id", "_kept_value", "message")
    message: Message

    def __init__(
        self, message: Message, value: Any, scope: str, topic_id: str | None, identity: bytes | None = None
    ) -> None:
        _set_message(self, message)
        _set_value(self, value)
        _set_scope(self, scope)
        _set_topic_id(self, topic_id)
        _set_identity(self, identity)

    @property
    def idempotency_key(self) -> str:
        """The record's key; for a replayed dead letter the key of its first attempt."""
        if self.message.topic().endswith(REPLAYS) and (key := self.header(REPLAY_KEY)):
            return key.decode("ascii", "replace")
        return super().idempotency_key

    @property
    def origin(self) -> tuple[str, int, int]:
        """Topic, partition and offset; for a replayed dead letter the original ones."""
        topic: str = self.message.topic()
        # On the topic itself a header with this name was set by another application.
        found = replayed_place(self.headers) if topic.endswith(REPLAYS) else None
        return (
            (topic, self.partition, self.offset) if found is None else (topic.removesuffix(REPLAYS), *found)
        )

    if not TYPE_CHECKING:  # a type checker sees the fields of Record
        value = property(attrgetter("_kept_value"))
        identity = property(attrgetter("_kept_identity"))
        scope = property(attrgetter("_kept_scope"))
        topic_id = property(attrgetter("_kept_topic_id"))
        key = property(lambda self: self.message.key())
        topic = property(lambda self: self.message.topic())
        partition = property(lambda self: self.message.partition())
        offset = property(lambda self: self.message.offset())
        leader_epoch = property(lambda self: self.message.leader_epoch())
        headers = property(lambda self: tuple(self.message.headers() or ()))

        timestamp = property(lambda self: record_time(*self.message.timestamp()))


# A frozen dataclass allows no assignment; its slots are set directly, which is faster than object.__setattr__.
_slots: Any = PolledRecord
_set_message = _slots.message.__set__
_set_value = _slots._kept_value.__set__
_set_scope = _slots._kept_scope.__set__
_set_topic_id = _slots._kept_topic_id.__set__
_set_identity = _slots._kept_identity.__set__


class Decoding(NamedTuple):
    """How a message becomes a value."""

    message: Callable[[Message], Any]
    """Decodes a message; None for a tombstone on a change topic, which carries no change."""
    readers: Mapping[bytes, Callable[[bytes], Any]]
    """Decoders by the first bytes of a value (the schema id), which save calls for every record."""


def decoding(topic: Topic, registry: Registry) -> Decoding:
    """The decoder of a topic's values, or of the changes of a captured table."""
    if topic.envelope is None:
        decoder = Decoder(topic, registry)

        def value_of(message: Message) -> Any:
            return decoder(message.value())

        return Decoding(value_of, decoder.readers)
    changes: ChangeDecoder[Any] = ChangeDecoder(
        topic.value,
        replica_identity_full=topic.before,
        ordered=topic.partitions == 1,
        read=AvroReader(registry) if topic.format == "avro" else None,
    )

    def change_of(message: Message) -> Any:
        try:
            return changes.decode(message.key(), message.value(), _original_offset(message))
        except DecodeError as error:
            error.topic = topic.name
            raise

    return Decoding(change_of, {})


def _original_offset(message: Message) -> int:
    """The offset; for a replayed dead letter the original one, which keeps its order among the changes."""
    found = replayed_place(message.headers() or ())
    offset: int = message.offset()
    return offset if found is None else found[1]
