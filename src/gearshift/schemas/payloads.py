"""Encodes values to payloads and decodes them, with functions that are compiled once per type."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from gearshift.errors import DecodeError, EncodeError, SchemaError
from gearshift.schemas import encoding
from gearshift.schemas.avro import reading as avro_reading
from gearshift.schemas.avro.bytes import DEEPEST, whole_payload
from gearshift.schemas.avro.resolution import resolve
from gearshift.schemas.avro.schema import avro_schema
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.json import decoding
from gearshift.schemas.json.schema import json_schema
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
        """The payload of a value; EncodeError names the invalid field."""
        try:
            return self._write(value)
        except Misfit as misfit:
            raise EncodeError(
                f"{self.type.__name__} cannot be encoded: {misfit}", hint="fix the value"
            ) from None

    def decode(self, payload: bytes) -> T:
        """The value of a payload that was written with the same schema."""
        try:
            return self._read(payload)
        except Misfit as misfit:
            raise self.decode_error(misfit) from None

    def reader_of(self, writer_schema: str) -> Decode:
        """A function that decodes payloads of another version of the schema; it raises Misfit."""
        shape = describe(self.type)
        if self.format == "json":
            return _json_reader(shape)
        return avro_reading.reader(resolve(writer_schema, shape), shape)

    def decode_error(self, misfit: Misfit) -> DecodeError:
        """The error for a payload that cannot be decoded."""
        return DecodeError(
            f"the payload cannot be decoded as {self.type.__name__}: {misfit}",
            hint="check which schema the producer uses",
        )


@cache
def codec(value_type: type[T], format: Format = "avro") -> Codec[T]:  # noqa: A002 - the word users know
    """The codec of a value type, created on first use.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Reading:
    ...     load_kw: float
    >>> codec(Reading).decode(codec(Reading).encode(Reading(2.5)))
    Reading(load_kw=2.5)
    """
    return Codec(value_type, format)


def encode(value: Any, format: Format = "avro") -> bytes:  # noqa: A002 - the word users know
    """The payload of a value, without a schema id."""
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
            hint="use None; schemas do not support it",
        ) from None


def _avro_writer(shape: RecordOf) -> Encode:
    import fastavro

    to_datum = encoding.encoder(shape, encoding.AVRO)
    write = cast("Callable[..., None]", fastavro.schemaless_writer)  # pyright: ignore[reportUnknownMemberType]
    # Without logical types: the datum already has the underlying numbers.
    parsed = fastavro.parse_schema(avro_schema(shape, logical=False))

    def encode(value: Any) -> bytes:
        datum = to_datum(value)
        out = BytesIO()
        try:
            write(out, parsed, datum)
        except UnicodeEncodeError:
            raise _invalid_unicode(datum) or Misfit("a text is not valid Unicode") from None
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
            raise _invalid_unicode(datum) or Misfit("a text is not valid Unicode") from None

    return encode


def avro_datum(writer_schema: Any) -> Decode:
    """A function that reads payloads of a writer's schema; it raises Misfit, as this does for a schema it cannot use."""
    import fastavro

    read = cast("Callable[..., Any]", fastavro.schemaless_reader)  # pyright: ignore[reportUnknownMemberType]
    try:
        check = whole_payload(writer_schema)
        writer = fastavro.parse_schema(writer_schema, _ignore_default_error=True)
    except Misfit:
        raise
    except Exception as error:
        # fastavro raises arbitrary exceptions for invalid schemas.
        raise Misfit(f"the writer's schema is not Avro: {str(error) or type(error).__name__}") from None

    def datum_of(payload: bytes) -> Any:
        # fastavro checks neither ranges nor depth: a short record of a recursive schema would crash the process.
        check(payload)
        try:
            return read(BytesIO(payload), writer, None)
        except Exception as error:
            raise Misfit(f"not readable as Avro: {str(error) or type(error).__name__}") from None

    return datum_of


def _json_reader(shape: RecordOf) -> Decode:
    to_value = decoding.decoder(shape, decoding.JSON)
    return lambda payload: to_value(json_datum(payload))


def json_datum(payload: bytes) -> Any:
    """Parse JSON strictly; Misfit if it violates RFC 8259, repeats a name, or is nested too deeply."""
    try:
        written = payload.decode("utf-8")
    except UnicodeDecodeError:
        raise Misfit("not readable as JSON: it is not valid UTF-8") from None
    require_shallow(written)
    try:
        datum = _STRICT.decode(written)
    except ValueError as error:
        raise Misfit(f"not readable as JSON: {error}") from None
    # Only an escape sequence can produce a lone surrogate.
    if b"\\u" in payload and (misfit := _invalid_unicode(datum)) is not None:
        raise misfit
    return datum


def require_shallow(written: str) -> None:
    """Misfit for JSON that is nested so deeply that reading it could exhaust the stack."""
    if written.count("[") + written.count("{") > DEEPEST and _depth(written) > DEEPEST:
        raise Misfit("not readable as JSON: it is nested too deeply")


_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')


def _depth(written: str) -> int:
    depth = deepest = 0
    for found in _BRACKETS.finditer(written):
        if found[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif found[0] in "]}":
            depth -= 1
    return deepest


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not valid JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


_STRICT = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_unique)


def _invalid_unicode(datum: Any) -> Misfit | None:
    """The misfit for the first text with a lone surrogate, which UTF-8 cannot encode."""
    if isinstance(datum, str):
        try:
            datum.encode("utf-8")
        except UnicodeEncodeError:
            return Misfit("is not valid Unicode text")
        return None
    if isinstance(datum, tuple):  # a named branch of a union
        return _invalid_unicode(datum[1])
    entries: Iterable[tuple[Any, Any]] = ()
    if isinstance(datum, dict):
        entries = cast("dict[str, Any]", datum).items()
    elif isinstance(datum, list):
        entries = enumerate(cast("list[Any]", datum))
    for key, item in entries:
        found = _invalid_unicode(key) or _invalid_unicode(item)
        if found is not None:
            step = str(key).encode("utf-8", "backslashreplace").decode("utf-8")
            return found.inside(step if isinstance(key, str) else f"[{step}]")
    return None
