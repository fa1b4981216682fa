"""Encodes values as records of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gearshift.errors import EncodeError
from gearshift.schemas.payloads import codec
from gearshift.schemas.wire import head
from gearshift.topics import key_bytes

if TYPE_CHECKING:
    from gearshift.definitions import Topic
    from gearshift.schemas import Registry

LARGEST = 1_000_000
"""Bytes of a key and a value: the default limit of gs.Producer and of brokers."""


class RecordEncoder:
    """Encodes a topic's values with its registered schema."""

    def __init__(self, topic: Topic, registry: Registry) -> None:
        self.topic = topic
        self._head = head(registry.register(topic))
        self._encode = codec(topic.value, topic.format).encode

    def record(self, value: Any) -> tuple[bytes | None, bytes]:
        """The key and value of a record; EncodeError if the value does not fit the schema or is too large."""
        key = key_bytes(getattr(value, self.topic.key)) if self.topic.key is not None else None
        data = self._head + self._encode(value)
        if len(data) + len(key or b"") > LARGEST:
            raise EncodeError(
                f"the record has {len(data):,} bytes, more than {LARGEST:,}", hint="send a smaller record"
            )
        return key, data
