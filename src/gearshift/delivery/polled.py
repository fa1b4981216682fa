"""A record as it was polled."""

from __future__ import annotations

from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from gearshift.record import Record
from gearshift.topics import REPLAY_KEY, REPLAYS, replayed_place

Message = Any  # confluent_kafka.Message, of which the library types nothing


class Polled(Record[Any]):
    """A record as it was polled; what a handler does not ask for is not taken out of the message."""

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
        """As of any record; of a replayed dead letter the key that its first try had."""
        if self.message.topic().endswith(REPLAYS) and (key := self.header(REPLAY_KEY)):
            return key.decode("ascii", "replace")
        return super().idempotency_key

    @property
    def origin(self) -> tuple[str, int, int]:
        """Its place, or for a replayed dead letter the one it had on the topic itself."""
        topic: str = self.message.topic()
        # A header of that name on the topic itself is somebody else's.
        found = replayed_place(self.headers) if topic.endswith(REPLAYS) else None
        return (
            (topic, self.partition, self.offset) if found is None else (topic.removesuffix(REPLAYS), *found)
        )

    if not TYPE_CHECKING:  # to a type checker they are the fields of Record
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

        timestamp = property(lambda self: _instant(*self.message.timestamp()))


def _instant(kind: int, millis: int) -> datetime | None:
    return datetime.fromtimestamp(millis / 1000, UTC) if kind else None


# A frozen class takes no assignment; this is how its own constructor does it, only faster.
_slots: Any = Polled
_set_message = _slots.message.__set__
_set_value = _slots._kept_value.__set__
_set_scope = _slots._kept_scope.__set__
_set_topic_id = _slots._kept_topic_id.__set__
_set_identity = _slots._kept_identity.__set__
