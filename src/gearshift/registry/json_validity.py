"""Checks that a JSON document is a JSON Schema of any draft: each known keyword has a value of the right type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from gearshift.schemas.json.differences import ALIASES, DECIMAL
from gearshift.schemas.json.documents import TYPES


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: Any) -> bool:
    return _number(value) and value >= 0 and value == int(value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _types(value: Any) -> bool:
    named = cast("list[Any]", value) if isinstance(value, list) else [value]
    return all(_text(each) and each in (*TYPES, "any") for each in named)


def _listed(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(fits, cast("list[Any]", value)))


def _names(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _listed(each, _text) for each in cast("dict[str, Any]", value).values()
    )


def _dependencies(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _listed(each, _text) for each in cast("dict[str, Any]", value).values() if isinstance(each, list)
    )


_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_types, f"one or several of {', '.join(TYPES)}"),
    "enum": (lambda value: isinstance(value, list), "a list"),
    "required": (lambda value: isinstance(value, bool) or _listed(value, _text), "a list of names"),
    "pattern": (_text, "text"),
    "$ref": (_text, "text"),
    "$schema": (_text, "text"),
    "dependencies": (_dependencies, "an object of schemas or lists of names"),
    "dependentRequired": (_names, "an object of lists of names"),
    DECIMAL: (lambda value: _listed(value, _count) and len(value) == 2, "precision and scale"),
    ALIASES: (lambda value: _listed(value, _text), "a list of names"),
    "multipleOf": (lambda value: _number(value) and value > 0, "a number above 0"),
    "exclusiveMinimum": (lambda value: _number(value) or isinstance(value, bool), "a number"),
    "exclusiveMaximum": (lambda value: _number(value) or isinstance(value, bool), "a number"),
    **dict.fromkeys(("minimum", "maximum"), (_number, "a number")),
    **dict.fromkeys(
        (
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "minContains",
            "maxContains",
        ),
        (_count, "a count"),
    ),
}
_SCHEMAS = (
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "additionalItems",
    "unevaluatedItems",
)
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas")


def schema_error(schema: Any, path: str = "#") -> str | None:
    """The first error, with its path; None if the schema is valid."""
    if isinstance(schema, bool):
        return None
    if not isinstance(schema, dict):
        return f"{path} is not an object, true or false"
    inner = cast("dict[str, Any]", schema)
    for keyword, (fits, wanted) in _VALUES.items():
        if keyword in inner and not fits(inner[keyword]):
            return f"{keyword} at {path} is not {wanted}"
    for part, inner_path in _parts(inner, path):
        if part is None:
            return f"{inner_path} has the wrong type for its keyword"
        found = schema_error(part, inner_path)
        if found:
            return found
    return None


def _parts(schema: dict[str, Any], path: str) -> list[tuple[Any, str]]:
    """The nested schemas, with the path of each; None where a keyword's value has the wrong type."""
    found: list[tuple[Any, str]] = [(schema[key], f"{path}/{key}") for key in _SCHEMAS if key in schema]
    items = schema.get("items", True)
    lists = {**{key: schema[key] for key in _LISTS if key in schema}}
    if isinstance(items, list):
        lists["items"] = items
    else:
        found.append((items, f"{path}/items"))
    for key, value in lists.items():
        if isinstance(value, list):
            listed = cast("list[Any]", value)
            found += [(each, f"{path}/{key}/{index}") for index, each in enumerate(listed)]
        else:
            found.append((None, f"{path}/{key}"))
    maps = {key: schema[key] for key in _MAPS if key in schema}
    for key, value in maps.items():
        if isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            found += [(each, f"{path}/{key}/{name}") for name, each in named.items()]
        else:
            found.append((None, f"{path}/{key}"))
    dependencies = schema.get("dependencies")
    if isinstance(dependencies, dict):
        named = cast("dict[str, Any]", dependencies)
        found += [
            (each, f"{path}/dependencies/{name}")
            for name, each in named.items()
            if not isinstance(each, list)
        ]
    return found
