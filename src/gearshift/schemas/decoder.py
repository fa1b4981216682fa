"""Decodes a topic's records, each with the version of the schema that it was written with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gearshift.errors import DecodeError
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.payloads import Decode, codec
from gearshift.schemas.wire import HEAD_SIZE, head, unpack

if TYPE_CHECKING:
    from gearshift.definitions import Topic
    from gearshift.schemas.registry_client import Registry


class Decoder:
    """Decodes the bytes of a topic's records to values of its type."""

    def __init__(self, topic: Topic, registry: Registry) -> None:
        self.topic = topic
        self._registry = registry
        self._codec = codec(topic.value, topic.format)
        self.readers: dict[bytes, Decode] = {}
        """The readers of payloads by the five bytes before them; each raises Misfit."""

    def __call__(self, data: bytes | None) -> Any:
        """Decode a value; DecodeError if that is impossible, RegistryUnreachableError if its schema is not available."""
        try:
            # Looked up by the five bytes before the payload: that is faster than unpacking the schema id.
            reader = self.readers.get(data[:HEAD_SIZE]) if data is not None else None
            if reader is None or data is None:
                schema_id, payload = unpack(data)
                reader = self.readers[head(schema_id)] = self._reader(schema_id)
            else:
                payload = data[HEAD_SIZE:]
            return reader(payload)
        except Misfit as misfit:
            error = self._codec.decode_error(misfit)
            error.topic = self.topic.name
            raise error from None
        except DecodeError as error:
            error.topic = self.topic.name
            raise

    def _reader(self, schema_id: int) -> Decode:
        schema = self._registry.schema(schema_id)
        if schema is None:
            raise DecodeError(
                f"schema {schema_id} is not registered",
                hint="check that producers use the same registry",
            )
        if schema.format != self._codec.format:
            raise DecodeError(
                f"schema {schema_id} is {schema.format}, but the topic is {self._codec.format}",
                hint="check which producer writes it",
            )
        try:
            return self._codec.reader_of(schema.text)
        except Misfit as misfit:
            raise DecodeError(
                f"schema {schema_id} cannot be read as {self.topic.value.__name__}: {misfit}",
                hint="check which producer registered it",
            ) from None
