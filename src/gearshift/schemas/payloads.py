"""Values to payload bytes and back, compiled once per type: this runs for every record."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from gearshift.errors import DecodeError, EncodeError, SchemaError
from gearshift.schemas import avro_reading, decoding, encoding
from gearshift.schemas.as_avro import avro_schema
from gearshift.schemas.as_json import json_schema
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.shapes import RecordOf, describe

if TYPE_CHECKING:
    from gearshift.definitions import Format

T = TypeVar("T")
Encode = Callable[[Any], bytes]
Decode = Callable[[bytes], Any]


class Codec(Generic[T]):
    """The schema of a value type in one format, with `encode` and `decode` for its payloads."""

    def __init__(self, value_type: type[T], format: Format) -> None:  # noqa: A002 - the word users know
        shape = describe(value_type)
        self.type = value_type
        self.format: Format = format
        self.schema = avro_schema(shape) if format == "avro" else json_schema(shape)
        self.schema_text = _text(self.schema, value_type)
        self._write: Encode = _avro_writer(shape) if format == "avro" else _json_writer(shape)
        self._read: Decode = self.reader_of(self.schema_text)

    def encode(self, value: T) -> bytes:
        """The payload of a value; EncodeError names the field that does not fit."""
        try:
            return self._write(value)
        except Misfit as misfit:
            raise EncodeError(
                f"{self.type.__name__} cannot be encoded: {misfit}", hint="mend the value"
            ) from None

    def decode(self, payload: bytes) -> T:
        """The value of a payload written with this very schema."""
        try:
            return self._read(payload)
        except Misfit as misfit:
            raise self.refused(misfit) from None

    def reader_of(self, writer_schema: str) -> Decode:
        """A function that reads payloads written with another version of the schema; it raises Misfit."""
        if self.format == "json":
            return _json_reader(describe(self.type))
        written = json.loads(writer_schema)
        if written == self.schema:
            return avro_reading.reader(describe(self.type))
        return _avro_reader(describe(self.type), written, self.schema)

    def refused(self, misfit: Misfit) -> DecodeError:
        """The error of a payload that a reader could not make a value of."""
        return DecodeError(
            f"the payload is no {self.type.__name__}: {misfit}",
            hint="was it written with another schema?",
        )


@cache
def codec(value_type: type[T], format: Format = "avro") -> Codec[T]:  # noqa: A002 - the word users know
    """The codec of a value type, made on first use.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Reading:
    ...     load_kw: float
    >>> codec(Reading).decode(codec(Reading).encode(Reading(2.5)))
    Reading(load_kw=2.5)
    """
    return Codec(value_type, format)


def encode(value: Any, format: Format = "avro") -> bytes:  # noqa: A002 - the word users know
    """The payload of a value, without the schema id before it."""
    return codec(cast("type[Any]", type(value)), format).encode(value)


def decode(payload: bytes, value_type: type[T], format: Format = "avro") -> T:  # noqa: A002 - as above
    """The value of a payload."""
    return codec(value_type, format).decode(payload)


def _text(schema: dict[str, Any], value_type: type[Any]) -> str:
    try:
        return json.dumps(schema, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise SchemaError(
            f"a default of {value_type.__name__} is not a finite number",
            hint="schemas cannot say it; use None",
        ) from None


def _avro_writer(shape: RecordOf) -> Encode:
    import fastavro

    to_datum = encoding.encoder(shape, encoding.AVRO)
    write = cast("Callable[..., None]", fastavro.schemaless_writer)  # pyright: ignore[reportUnknownMemberType]
    # Without logical types: the datum already holds the numbers they stand for.
    parsed = fastavro.parse_schema(avro_schema(shape, logical=False))

    def encode(value: Any) -> bytes:
        datum = to_datum(value)
        out = BytesIO()
        try:
            write(out, parsed, datum)
        except UnicodeEncodeError:
            raise _no_unicode(datum) or Misfit("a text is not valid Unicode") from None
        return out.getvalue()

    return encode


def _json_writer(shape: RecordOf) -> Encode:
    to_datum = encoding.encoder(shape, encoding.JSON)
    write = json.JSONEncoder(
        ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
    ).encode

    def encode(value: Any) -> bytes:
        datum = to_datum(value)
        try:
            return write(datum).encode("utf-8")
        except UnicodeEncodeError:
            raise _no_unicode(datum) or Misfit("a text is not valid Unicode") from None

    return encode


def _avro_reader(shape: RecordOf, writer_schema: Any, reader_schema: dict[str, Any]) -> Decode:
    to_value = decoding.decoder(shape, decoding.AVRO)
    datum_of = avro_datum(writer_schema, reader_schema)
    return lambda payload: to_value(datum_of(payload))


def avro_datum(writer_schema: Any, reader_schema: Any = None) -> Decode:
    """A function that reads payloads of a writer's schema, as the reader's has them; it raises Misfit."""
    import fastavro

    read = cast("Callable[..., Any]", fastavro.schemaless_reader)  # pyright: ignore[reportUnknownMemberType]
    # Parsing apart gives each schema names of its own, though both call their records the same.
    writer = fastavro.parse_schema(writer_schema)
    reader = None if reader_schema is None else fastavro.parse_schema(reader_schema)

    def datum_of(payload: bytes) -> Any:
        source = BytesIO(payload)
        try:
            datum = read(source, writer, reader)
        except Exception as error:
            # fastavro meets damaged bytes with whatever the first impossible step raises.
            raise Misfit(f"not readable as Avro: {str(error) or type(error).__name__}") from None
        rest = len(payload) - source.tell()
        if rest:
            raise Misfit(f"{rest} bytes are left after the last field")
        return datum

    return datum_of


def _json_reader(shape: RecordOf) -> Decode:
    to_value = decoding.decoder(shape, decoding.JSON)

    def decode(payload: bytes) -> Any:
        try:
            datum = json.loads(payload.decode("utf-8"))
        except RecursionError:
            raise Misfit("the JSON is nested too deeply") from None
        except ValueError as error:
            raise Misfit(f"not readable as JSON: {error}") from None
        return to_value(datum)

    return decode


def _no_unicode(datum: Any) -> Misfit | None:
    """The misfit of the first text with a lone surrogate, which UTF-8 cannot write."""
    if isinstance(datum, str):
        try:
            datum.encode("utf-8")
        except UnicodeEncodeError:
            return Misfit("is not valid Unicode text")
        return None
    if isinstance(datum, tuple):  # a named branch of a union
        return _no_unicode(datum[1])
    entries: Iterable[tuple[Any, Any]] = ()
    if isinstance(datum, dict):
        entries = cast("dict[str, Any]", datum).items()
    elif isinstance(datum, list):
        entries = enumerate(cast("list[Any]", datum))
    for key, item in entries:
        found = _no_unicode(key) or _no_unicode(item)
        if found is not None:
            step = str(key).encode("utf-8", "backslashreplace").decode("utf-8")
            return found.inside(step if isinstance(key, str) else f"[{step}]")
    return None
