"""Checks that a schema is valid, and that it is compatible with earlier versions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from gearshift.registry.json_validity import schema_error
from gearshift.schemas.avro.differences import unreadable
from gearshift.schemas.avro.writer import Writer
from gearshift.schemas.differences import as_changes
from gearshift.schemas.json.differences import json_unreadable
from gearshift.schemas.json.documents import Document

LEVELS = (
    "NONE",
    *(f"{way}{reach}" for way in ("BACKWARD", "FORWARD", "FULL") for reach in ("", "_TRANSITIVE")),
)
KINDS = ("AVRO", "JSON")
Known = Mapping[str, str]
"""The texts of the referenced schemas by reference name, innermost first."""


class InvalidSchemaError(Exception):
    """A text that is not a valid schema of its type, and why."""


def canonical(kind: str, text: str, known: Known) -> str:
    """The schema without insignificant whitespace; InvalidSchemaError if it is not valid."""
    try:
        schema = _loaded(text) if kind == "JSON" else _avro(text)
        _check(kind, schema, known)
        written = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        written.encode()  # fails for half of a surrogate pair, which an escape can say
        return written
    except UnicodeEncodeError:
        raise InvalidSchemaError("a text is not valid Unicode") from None
    except RecursionError:
        raise InvalidSchemaError("the schema is nested too deeply") from None


def conflicts(kind: str, level: str, old: tuple[str, str, Known], new: tuple[str, Known]) -> list[str]:
    """The changes between two schemas that this compatibility level forbids."""
    if level == "NONE":
        return []
    old_kind, old_text, old_known = old
    if old_kind != kind:
        return [f"the schema type changed from {old_kind} to {kind}; keep {old_kind}"]
    before, after = json.loads(old_text), json.loads(new[0])
    try:
        if kind == "AVRO":
            names = {**{name: json.loads(each) for name, each in {**old_known, **new[1]}.items()}}
            changes = as_changes(
                unreadable(after, before, strict=False, known=names),
                unreadable(before, after, strict=False, known=names),
            )
        else:
            documents = _document(before, old_known), _document(after, new[1])
            changes = as_changes(json_unreadable(*reversed(documents)), json_unreadable(*documents))
    except RecursionError:
        return ["the schemas are nested too deeply to compare"]
    return [str(change) for change in changes if change.breaks(level)]


def _check(kind: str, schema: Any, known: Known) -> None:
    if kind == "JSON":
        reason = schema_error(schema) or _document(schema, known).dangling()
        if reason:
            raise InvalidSchemaError(reason)
        return
    import fastavro

    named: dict[str, Any] = {}
    others = [json.loads(text) for text in known.values()]
    try:
        for other in others:
            fastavro.parse_schema(other, named_schemas=named, _ignore_default_error=True)
        fastavro.parse_schema(schema, named_schemas=named, _ignore_default_error=True)
        writer = Writer(schema, known=others)
        writer.skip(writer.root)  # finds what fastavro accepts: a record without fields, for example
    except RecursionError:
        raise
    except Exception as error:  # fastavro raises various types
        raise InvalidSchemaError(str(error) or type(error).__name__) from None


def _document(schema: Any, known: Known) -> Document:
    return Document(schema, {name: json.loads(text) for name, text in known.items()})


def _avro(text: str) -> Any:
    """Parse an Avro schema; a primitive type may be written without quotes."""
    try:
        return _loaded(text)
    except InvalidSchemaError:
        if text.strip().isidentifier():
            return text.strip()
        raise


def _loaded(text: str) -> Any:
    def refuse(constant: str) -> Any:
        raise InvalidSchemaError(f"{constant} is not a finite number")

    def finite(written: str) -> float:
        number = float(written)
        return number if math.isfinite(number) else refuse(written)

    try:
        return json.loads(text, parse_constant=refuse, parse_float=finite)
    except ValueError as error:
        raise InvalidSchemaError(f"not valid JSON: {error}") from None
