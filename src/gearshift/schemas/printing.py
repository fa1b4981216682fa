"""Shows the bytes of any record, with or without a schema id, as JSON for people."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from gearshift.errors import DecodeError
from gearshift.schemas.avro.to_json import reader
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.payloads import json_datum
from gearshift.schemas.wire import HEAD_SIZE, unpack

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.schemas.registry_client import Registry

How = Literal["avro", "json", "text", "binary"]
_CONTROLS = {*range(32), 127} - {9, 10, 13}


@dataclass(frozen=True, slots=True)
class Shown:
    """A key or a value: decoded by its schema, as JSON without a schema, as text, or as base64 of its bytes."""

    datum: Any
    how: How
    schema_id: int | None = None
    error: str | None = None
    """The reason why the bytes could not be decoded by the schema that they name."""


class Printer:
    """Shows keys and values by the schema id that each carries; the registry is asked once per id."""

    def __init__(self, registry: Callable[[], Registry]) -> None:
        self._registry = registry
        self._readers: dict[int, tuple[How, Callable[[bytes], Any]] | str] = {}

    @classmethod
    @contextmanager
    def of(cls, connection: Connection) -> Generator[Printer]:
        """One whose registry is opened when the first record needs it: a topic without schemas works without one."""
        from gearshift.schemas.registry_client import Registry

        with ExitStack() as opened:
            yield cls(cache(lambda: opened.enter_context(Registry(connection))))

    def show(self, data: bytes) -> Shown:
        """The bytes in the most readable form; RegistryUnreachableError if a schema is not available."""
        if len(data) >= HEAD_SIZE and data[0] == 0:
            return self._by_schema(data)
        return unregistered(data)

    def show_key(self, data: bytes) -> Shown:
        """The same for a key, in which digits are text, as producers of all languages write it."""
        if len(data) >= HEAD_SIZE and data[0] == 0:
            found = self._by_schema(data)
            # Binary keys often begin with a zero, such as a 64-bit number: nothing is wrong with them.
            return found if found.error is None else _binary(data)
        return _text(data)

    def _by_schema(self, data: bytes) -> Shown:
        try:
            schema_id, payload = unpack(data)
        except DecodeError as error:
            return _binary(data, error=error.what)
        if schema_id not in self._readers:
            self._readers[schema_id] = self._reader(schema_id)
        found = self._readers[schema_id]
        if isinstance(found, str):
            return _binary(data, schema_id, found)
        how, read = found
        try:
            return Shown(read(payload), how, schema_id)
        except (Misfit, RecursionError) as error:
            return _binary(data, schema_id, str(error) or "it is nested too deeply")

    def _reader(self, schema_id: int) -> tuple[How, Callable[[bytes], Any]] | str:
        schema = self._registry().schema(schema_id)
        if schema is None:
            return f"schema {schema_id} is not registered"
        if schema.format == "json":
            return "json", _finite_json
        if schema.format != "avro":
            return f"schema {schema_id} is {schema.format.title()}, which is not supported"
        try:
            return "avro", reader(json.loads(schema.text))
        except (Misfit, ValueError, KeyError, TypeError) as error:
            return f"schema {schema_id} cannot be used: {error}"


def unregistered(data: bytes) -> Shown:
    """Bytes without a schema id: JSON if they are JSON, else text, else base64.

    >>> unregistered(b'{"load_kw": 2}').datum, unregistered(b"hello").how, unregistered(bytes([255])).datum
    ({'load_kw': 2}, 'text', '/w==')
    """
    try:
        return Shown(_finite_json(data), "json")
    except (Misfit, RecursionError):
        return _text(data)


def _finite_json(data: bytes) -> Any:
    datum = json_datum(data)
    try:
        json.dumps(datum, allow_nan=False)
    except ValueError:  # 1e999 is a JSON number, but no float
        raise Misfit("not readable as JSON: a number is too large") from None
    return datum


def _text(data: bytes) -> Shown:
    if _CONTROLS.intersection(data):
        return _binary(data)
    try:
        return Shown(data.decode("utf-8"), "text")
    except UnicodeDecodeError:
        return _binary(data)


def _binary(data: bytes, schema_id: int | None = None, error: str | None = None) -> Shown:
    return Shown(base64.b64encode(data).decode("ascii"), "binary", schema_id, error)
