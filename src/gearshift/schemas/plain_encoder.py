"""Encodes plain JSON with a registered schema, without a declared type."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, cast

from gearshift.errors import SchemaError
from gearshift.schemas.avro.differences import Parsed
from gearshift.schemas.avro.from_json import writer
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.json.documents import Document
from gearshift.schemas.json.validation import validate
from gearshift.schemas.wire import pack

if TYPE_CHECKING:
    from gearshift.schemas.registry_client import Schema


class PlainEncoder:
    """Encodes JSON values with one schema, in the form in which `printing` shows them."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._definition = json.loads(schema.text)
        try:
            self._write = writer(self._definition) if schema.format == "avro" else None
        except (Misfit, KeyError, TypeError) as error:
            raise SchemaError(
                f"schema {schema.id} cannot be used: {error}", hint="send bytes with --raw"
            ) from None

    def encode(self, datum: Any) -> bytes:
        """The bytes of a record's key or value; Misfit names the invalid field."""
        if self._write is not None:
            return pack(self.schema.id, self._write(datum))
        validate(datum, self._definition)
        return pack(self.schema.id, compact(datum))

    def key_of(self, datum: Any, field: str) -> Any:
        """A field's value as a declared topic takes it for the key: text, an integer, bytes or None; else Misfit."""
        if not isinstance(datum, dict) or field not in datum:
            raise Misfit("is missing, but is the key", (field,))
        found: Any = cast("dict[str, Any]", datum)[field]
        if isinstance(found, str) and self._is_bytes(field):
            return base64.b64decode(found)
        if found is None or (isinstance(found, str | int) and not isinstance(found, bool)):
            return found
        raise Misfit(f"is {type(found).__name__}, which cannot be a key", (field,))

    def _is_bytes(self, field: str) -> bool:
        """Whether the schema has bytes in this field, which JSON writes as base64."""
        if self.schema.format == "json":
            part = Document(self._definition).view.named(field).schema
            branches: list[Any] = [part, *part.get("oneOf", ())]
            return any(each.get("contentEncoding") == "base64" for each in branches)
        parsed = Parsed(self._definition)
        for each in parsed.root.get("fields", ()):
            if each["name"] == field:
                branches = cast(
                    "list[Any]", each["type"] if isinstance(each["type"], list) else [each["type"]]
                )
                kinds = [parsed.resolved(branch) for branch in branches]
                return any(kind == "bytes" or _is_plain_bytes(kind) for kind in kinds)
        return False


def _is_plain_bytes(kind: Any) -> bool:
    if not isinstance(kind, dict):
        return False
    parts = cast("dict[str, Any]", kind)
    return parts.get("type") in ("bytes", "fixed") and "logicalType" not in parts


def compact(datum: Any) -> bytes:
    """JSON as topics carry it: UTF-8 without spaces; Misfit for text that is not valid Unicode.

    >>> compact({"load_kw": 2.5})
    b'{"load_kw":2.5}'
    """
    try:
        return json.dumps(datum, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError:
        raise Misfit("a text is not valid Unicode") from None
    except ValueError:
        raise Misfit("a number is too large") from None
