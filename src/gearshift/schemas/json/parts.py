"""Operations on parts of JSON Schemas: merging, listing values, comparing. Pure."""

from __future__ import annotations

from typing import Any, cast

from gearshift.schemas.json.documents import TYPES, View


def merged(writer: View, parts: list[Any]) -> dict[str, Any]:
    """One schema for the values that are valid by all of these; it may allow more than they do together."""
    views = [view for part in parts for view in _flat(writer.at(part))]
    found: dict[str, Any] = {}
    for view in views:
        found = {**view.schema, **found}
    types = set(TYPES)
    for view in views:
        types &= view.types
    if types != set(TYPES):
        found["type"] = sorted(outer(types))
    required = {name for view in views for name in listed(view.schema.get("required"))}
    if required:
        found["required"] = sorted(required)
    names = dict.fromkeys(name for view in views for name in view.schema.get("properties", {}))
    if names:
        found["properties"] = {
            name: _combined(writer, [view.named(name) for view in views]) for name in names
        }
    if any(not view.additional.anything for view in views):
        found["additionalProperties"] = _combined(writer, [view.additional for view in views])
    return found


def _flat(view: View) -> list[View]:
    """The parts of a schema's `allOf`, flattened."""
    inner = view.schema.get("allOf")
    if inner is None:
        return [view]
    rest = {key: value for key, value in view.schema.items() if key != "allOf"}
    return [each for part in inner for each in _flat(view.at(part))] + ([view.at(rest)] if rest else [])


def _combined(writer: View, views: list[View]) -> Any:
    return writer.all_of([view.part for view in views if not view.anything] or [True]).part


def outer(types: set[str]) -> set[str]:
    """The types without integer where number includes it."""
    return types - {"integer"} if "number" in types else types


def finite(schema: dict[str, Any]) -> list[Any] | None:
    """The valid values, if they can be listed."""
    if "enum" in schema:
        return cast("list[Any]", schema["enum"])
    if "const" in schema:
        return [schema["const"]]
    only: dict[Any, list[Any]] = {"null": [None], "boolean": [True, False]}
    declared = schema.get("type")
    return only.get(declared) if isinstance(declared, str) else None


def dependent(schema: dict[str, Any]) -> dict[str, Any]:
    """The names or schema that a property requires, by the property."""
    found: dict[str, Any] = {}
    for keyword in ("dependencies", "dependentSchemas", "dependentRequired"):
        found |= schema.get(keyword, {})
    return found


def listed(value: Any) -> list[str]:
    """A list of names; empty if it is something else, as `required` was in draft 3."""
    return cast("list[str]", value) if isinstance(value, list) else []


def refers(part: Any) -> bool:
    """Whether a part contains a reference, whose meaning depends on its document."""
    if isinstance(part, dict):
        return any("Ref" in key or key == "$ref" or refers(each) for key, each in part.items())  # pyright: ignore
    return isinstance(part, list) and any(map(refers, part))  # pyright: ignore


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal in JSON, where true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)  # pyright: ignore
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))  # pyright: ignore
    return bool(one == other)
