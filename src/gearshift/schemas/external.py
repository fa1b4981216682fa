"""Schemas of external topics: whether a value type can read them, and which of them it can write."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from gearshift.schemas.avro.differences import Parsed, unreadable, word
from gearshift.schemas.avro.resolution import resolve
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.json.differences import DECIMAL, json_unreadable
from gearshift.schemas.json.documents import Document
from gearshift.schemas.payloads import codec
from gearshift.schemas.shapes import describe

if TYPE_CHECKING:
    from gearshift.definitions import Format, Topic

# The meaning of a text is checked when a record is read, and readers ignore unknown fields.
_UNSEEN = ("additionalProperties", "format", "contentEncoding", DECIMAL, "enum")


def readable(topic: Topic, writer_format: Format, writer_schema: str) -> str | None:
    """The reason why records of a writer's schema cannot be read as the topic's values; None if they can."""
    if writer_format != topic.format:
        return f"it is {writer_format}, but the topic is declared as {topic.format}"
    ours, theirs = codec(topic.value, topic.format).schema, json.loads(writer_schema)
    if topic.format == "avro":
        try:
            resolve(writer_schema, describe(topic.value))
        except Misfit as misfit:
            return str(misfit)
        # A field that may be null can be read until it is null; report that when the app starts.
        found = unreadable(ours, theirs, strict=False, names=False)
        problems = [each for each in found if each.kind == "null"]
    else:
        found = json_unreadable(Document(_as_reader(ours)), Document(theirs))
        problems = [each for each in found if each.kind not in ("unknown", "open")]
    return "; ".join(map(str, problems)) or None


def writable(topic: Topic, schemas: Iterable[tuple[int, Format, str]]) -> int | None:
    """The id of the newest of these schemas, given oldest first, that matches the topic's encoded values exactly."""
    ours = codec(topic.value, topic.format).schema
    for id_, format_, text in reversed(list(schemas)):
        if format_ != topic.format:
            continue
        theirs = json.loads(text)
        if topic.format == "avro":
            parsed, other = Parsed(ours), Parsed(theirs)
            alike = _layout(parsed, parsed.root) == _layout(other, other.root)
        else:
            alike = not json_unreadable(Document(theirs), Document(ours))
        if alike:
            return id_
    return None


def unlike(topic: Topic, schema_format: Format, schema: str) -> str:
    """How the topic's values differ from a schema."""
    if schema_format != topic.format:
        return f"it is {schema_format}, but the topic is declared as {topic.format}"
    ours, theirs = codec(topic.value, topic.format).schema, json.loads(schema)
    if topic.format == "json":
        return "; ".join(map(str, json_unreadable(Document(theirs), Document(ours))))
    fields = [_fields(each) for each in (theirs, ours)]
    if fields[0] != fields[1]:
        return (
            f"it has the fields {', '.join(fields[0])}, but {topic.value.__name__} has {', '.join(fields[1])}"
        )
    return "; ".join(map(str, unreadable(theirs, ours, names=False))) or "it has other types"


def _fields(schema: Any) -> list[str]:
    parts = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    return [field["name"] for field in parts["fields"]] if parts.get("type") == "record" else []


def _as_reader(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_as_reader(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    parts = cast("dict[str, Any]", schema)
    closed = parts.get("additionalProperties") is False
    return {
        key: _as_reader(part)
        for key, part in parts.items()
        if key not in _UNSEEN or (key == "additionalProperties" and not closed)
    }


def _layout(parsed: Parsed, schema: Any, above: tuple[str, ...] = ()) -> Any:
    """The parts of a schema that determine the bytes and their meaning: not record names or defaults."""
    found = parsed.resolved(schema)
    if isinstance(found, list):
        return [_layout(parsed, branch, above) for branch in cast("list[Any]", found)]
    if not isinstance(found, dict):
        return found
    parts = cast("dict[str, Any]", found)
    kind = parts["type"]
    if kind == "record":
        if parts["name"] in above:
            return "again", above.index(parts["name"])
        inside = (*above, parts["name"])
        return [(field["name"], _layout(parsed, field["type"], inside)) for field in parts["fields"]]
    if kind in ("array", "map"):
        return kind, _layout(parsed, parts["items" if kind == "array" else "values"], above)
    meaning = word({"type": kind, **{key: parts[key] for key in _MEANING if key in parts}})
    return (kind, parts.get("symbols"), parts.get("size"), meaning) if kind in ("enum", "fixed") else meaning


_MEANING = ("logicalType", "precision", "scale")
