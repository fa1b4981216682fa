"""The values of a topic's records, whichever version of the schema each was written with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gearshift.errors import DecodeError
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.payloads import Decode, codec
from gearshift.schemas.wire import HEAD_SIZE, head, unpack

if TYPE_CHECKING:
    from gearshift.definitions import Topic
    from gearshift.schemas.registry import Registry


class Decoder:
    """Turns the bytes of a topic's records into values of its type."""

    def __init__(self, topic: Topic, registry: Registry) -> None:
        self.topic = topic
        self._registry = registry
        self._codec = codec(topic.value, topic.format)
        self.readers: dict[bytes, Decode] = {}
        """Of the payloads after each of the heads that were met so far; each raises Misfit."""

    def __call__(self, data: bytes | None) -> Any:
        """The value; DecodeError says why there is none, RegistryUnreachableError that it is not known yet."""
        try:
            # By the five bytes before the payload: taking the id out of them costs more than finding them.
            reader = self.readers.get(data[:HEAD_SIZE]) if data is not None else None
            if reader is None or data is None:
                schema_id, payload = unpack(data)
                reader = self.readers[head(schema_id)] = self._reader(schema_id)
            else:
                payload = data[HEAD_SIZE:]
            return reader(payload)
        except Misfit as misfit:
            error = self._codec.refused(misfit)
            error.topic = self.topic.name
            raise error from None
        except DecodeError as error:
            error.topic = self.topic.name
            raise

    def _reader(self, schema_id: int) -> Decode:
        schema = self._registry.schema(schema_id)
        if schema is None:
            raise DecodeError(
                f"schema {schema_id} is not registered", hint="was the record written with another registry?"
            )
        if schema.format != self._codec.format:
            raise DecodeError(
                f"schema {schema_id} is {schema.format}, the topic is {self._codec.format}",
                hint="see who writes it",
            )
        try:
            return self._codec.reader_of(schema.text)
        except ValueError as error:  # fastavro's and json's complaints alike
            raise DecodeError(
                f"schema {schema_id} cannot be used: {error}", hint="see who registered it"
            ) from None
