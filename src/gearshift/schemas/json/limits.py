"""Compares the limits of two JSON Schemas: lengths, ranges, patterns and uniqueness. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from gearshift.schemas.differences import Problem
from gearshift.schemas.json.documents import matches

_AT_LEAST = {"string": "minLength", "array": "minItems", "object": "minProperties"}
_AT_MOST = {"string": "maxLength", "array": "maxItems", "object": "maxProperties"}


def limits(reader: dict[str, Any], writer: dict[str, Any], types: set[str], path: str) -> Iterator[Problem]:
    """The limits in which the reader is stricter than the writer, for values of these types."""
    implied = _implied(writer)
    for type_, keyword in _AT_LEAST.items():
        if type_ in types and reader.get(keyword, 0) > implied.get(keyword, 0):
            yield _stricter(keyword, writer, reader, path)
    for type_, keyword in _AT_MOST.items():
        if type_ in types and keyword in reader and reader[keyword] < implied.get(keyword, float("inf")):
            yield _stricter(keyword, writer, reader, path)
    if "string" in types and "pattern" in reader and not _alike(reader["pattern"], writer):
        yield _stricter("pattern", writer, reader, path)
    if "array" in types and reader.get("uniqueItems") is True and writer.get("uniqueItems") is not True:
        yield _stricter("uniqueItems", writer, reader, path)
    if types & {"integer", "number"}:
        yield from _numbers(reader, implied, path)


def _alike(pattern: str, writer: dict[str, Any]) -> bool:
    if pattern == writer.get("pattern"):
        return True
    values = writer.get("enum", [writer["const"]] if "const" in writer else None)
    texts = None if values is None else [value for value in values if isinstance(value, str)]
    return texts is not None and all(matches(pattern, text) for text in texts)


def _numbers(reader: dict[str, Any], writer: dict[str, Any], path: str) -> Iterator[Problem]:
    for keyword, exclusive, sign in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
        wanted, written = (_bound(schema, keyword, exclusive, sign) for schema in (reader, writer))
        if wanted is not None and (written is None or wanted > written):
            yield _stricter(keyword if keyword in reader else exclusive, writer, reader, path)
    if "multipleOf" in reader:
        step = writer.get("multipleOf", 1 if writer.get("type") == "integer" else None)
        if step is None or Fraction(str(step)) % Fraction(str(reader["multipleOf"])):
            yield _stricter("multipleOf", writer, reader, path)


def _bound(schema: dict[str, Any], keyword: str, exclusive: str, sign: int) -> tuple[float, bool] | None:
    """The bound of a number; a larger one is stricter. In draft 4 exclusiveMinimum is a boolean, later a number."""
    found: list[tuple[float, bool]] = []
    if keyword in schema:
        found.append((sign * schema[keyword], schema.get(exclusive) is True))
    if exclusive in schema and not isinstance(schema[exclusive], bool):
        found.append((sign * schema[exclusive], True))
    return max(found, default=None)


def _implied(writer: dict[str, Any]) -> dict[str, Any]:
    """The writer's limits, including those implied by its list of values or its required properties."""
    values = writer.get("enum", [writer["const"]] if "const" in writer else [])
    texts = [len(value) for value in values if isinstance(value, str)]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    found = dict(writer)
    if texts:
        found |= {"minLength": min(texts), "maxLength": max(texts)}
    if numbers:
        found |= {"minimum": min(numbers), "maximum": max(numbers)}
    required = writer.get("required")
    if isinstance(required, list):
        found["minProperties"] = max(writer.get("minProperties", 0), len(required))  # pyright: ignore
    return found


def _stricter(keyword: str, writer: dict[str, Any], reader: dict[str, Any], path: str) -> Problem:
    before = f"{keyword} {writer[keyword]}" if keyword in writer else f"no {keyword}"
    return Problem("rule", path, before, f"{keyword} {reader[keyword]}")
