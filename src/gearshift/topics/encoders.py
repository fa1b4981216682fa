"""Encodes plain JSON to records of a topic, with its latest registered schemas."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from gearshift.errors import EncodeError, SchemaError
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.plain_encoder import PlainEncoder, compact
from gearshift.schemas.registry_client import Registry
from gearshift.topics.producer import key_bytes

if TYPE_CHECKING:
    from gearshift.connection import Connection

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Record:
    """An encoded record."""

    value: bytes | None
    key: bytes | None = None
    headers: list[Header] = field(default_factory=list[Header])

    def require_at_most(self, largest: int) -> None:
        """Raise EncodeError if key and value have more bytes than a topic takes."""
        size = len(self.key or b"") + len(self.value or b"")
        if size > largest:
            raise EncodeError(
                f"the record has {size:,} bytes, but the topic takes {largest:,}",
                hint="send a smaller record, or raise the topic's max.message.bytes",
            )


@dataclass(frozen=True, slots=True)
class Encoders:
    """The encoders of a topic's latest schemas; without a value's schema, values are sent as they are."""

    value: PlainEncoder | None = None
    key: PlainEncoder | None = None

    @classmethod
    def of(cls, connection: Connection, topic: str) -> Encoders:
        """Those of a topic; SchemaError if it has no schema."""
        with Registry(connection) as registry:
            values, keys = registry.numbered(f"{topic}-value"), registry.numbered(f"{topic}-key")
        if not values:
            raise SchemaError(
                "the topic has no registered schema",
                hint="start its app with gearshift run, or send lines as they are with --raw",
                topic=topic,
            )
        return cls(PlainEncoder(values[max(values)]), PlainEncoder(keys[max(keys)]) if keys else None)

    def encoded(self, datum: Any) -> bytes:
        """The bytes of a value; Misfit names the field that does not fit."""
        if self.value is None:
            return compact(datum)
        try:
            return self.value.encode(datum)
        except RecursionError:
            raise Misfit("is nested too deeply") from None

    def encoded_key(self, datum: Any) -> bytes:
        """The bytes of a key, in JSON if the topic has no schema for keys."""
        return compact(datum) if self.key is None else self.key.encode(datum)

    def key_of(self, datum: Any, field: str) -> bytes | None:
        """The bytes of the key that is a field of the value."""
        if self.value is not None:
            found = self.value.key_of(datum, field)
        else:
            found = cast("dict[str, Any]", datum).get(field) if isinstance(datum, dict) else None
            if isinstance(found, bool) or not isinstance(found, str | int):
                raise Misfit("is missing or cannot be a key", (field,))
        if self.key is not None:
            return self.key.encode(cast("dict[str, Any]", datum)[field])
        return key_bytes(found)
