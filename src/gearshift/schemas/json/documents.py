"""A uniform view of JSON Schemas of all drafts, with references resolved. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, cast
from urllib.parse import unquote, urljoin

TYPES: tuple[str, ...] = ("null", "boolean", "integer", "number", "string", "array", "object")
_ANNOTATIONS = {
    "$schema",
    "$id",
    "id",
    "$anchor",
    "$comment",
    "$defs",
    "$vocabulary",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
}
# Nested repetitions such as (a+)+ can take a time that doubles with every letter.
_REPEATED = re.compile(r"\)[*+{]")
_LONGEST_REPEATED = 20
# Before 2019-09, keywords next to a $ref are ignored.
_OLD = re.compile(r"draft-0[3-7]")


class Document:
    """A schema with the others that it refers to, by name."""

    def __init__(self, root: Any, known: Mapping[str, Any] | None = None) -> None:
        self.root = root
        self._keywords = cast("dict[str, Any]", root) if isinstance(root, dict) else {}
        declared = self._keywords.get("$schema")
        # Without a $schema, registries assume draft 7, in which newer keywords have no other meaning.
        self.ignores_siblings_of_ref = not declared or bool(_OLD.search(str(declared)))
        self._known = dict(known or {})

    @property
    def view(self) -> View:
        """The whole document."""
        return View(self.root, self)

    @cached_property
    def _named(self) -> dict[str, Any]:
        """The parts with an id or an anchor, and the referenced documents, by address."""
        found: dict[str, Any] = {}

        def walk(part: Any, base: str) -> None:
            if isinstance(part, dict):
                inner = cast("dict[str, Any]", part)
                id_ = inner.get("$id", inner.get("id"))
                if isinstance(id_, str):
                    base = _joined(base, id_)
                    found.setdefault(base.rstrip("#"), inner)
                for key in ("$anchor", "$dynamicAnchor"):
                    if isinstance(inner.get(key), str):
                        found.setdefault(f"{base.rstrip('#')}#{inner[key]}", inner)
                for each in inner.values():
                    walk(each, base)
            elif isinstance(part, list):
                for each in cast("list[Any]", part):
                    walk(each, base)

        for name, other in self._known.items():
            found[name.rstrip("#")] = other
            walk(other, name)
        walk(self.root, "")
        return found

    def target(self, reference: str) -> Any:
        """The target of a reference; None if it does not exist."""
        if reference == "#":
            return self.root
        address, _, fragment = reference.partition("#")
        if not address and fragment.startswith("/"):
            return _pointed(self.root, fragment)
        base = str(self._keywords.get("$id", self._keywords.get("id", "")))
        for full in (reference, _joined(base, reference)):
            if full.rstrip("#") in self._named:
                return self._named[full.rstrip("#")]
        for full in (address, _joined(base, address)):
            if full in self._named:
                return _pointed(self._named[full], fragment) if fragment else self._named[full]
        return None

    def dangling(self) -> str | None:
        """The first reference within the document whose target does not exist."""

        def walk(part: Any) -> Iterator[str]:
            if isinstance(part, dict):
                inner = cast("dict[str, Any]", part)
                reference = inner.get("$ref")
                if (
                    isinstance(reference, str)
                    and reference.startswith("#")
                    and self.target(reference) is None
                ):
                    yield reference
                for key, each in inner.items():
                    if key not in ("enum", "const", "default", "examples"):
                        yield from walk(each)
            elif isinstance(part, list):
                for each in cast("list[Any]", part):
                    yield from walk(each)

        return next(walk(self.root), None)


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:  # not a URL
        return reference


def _pointed(root: Any, pointer: str) -> Any:
    found = root
    for step in pointer.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = cast("dict[str, Any]", found)[key]
        elif isinstance(found, list) and key.isdigit() and int(key) < len(cast("list[Any]", found)):
            found = cast("list[Any]", found)[int(key)]
        else:
            return None
    return found  # pyright: ignore[reportUnknownVariableType]


class View:
    """A schema inside a document as a dict of keywords, with its `$ref` resolved."""

    def __init__(self, part: Any, document: Document) -> None:
        self.part = part
        self.document = document

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Its keywords, without annotations."""
        return _keywords(self.part, self.document, ())

    @property
    def nothing(self) -> bool:
        """Whether no value is valid."""
        schema = self.schema
        return schema.get("not") == {} or schema.get("not") is True or schema.get("type") == []

    @property
    def anything(self) -> bool:
        """Whether every value is valid."""
        return not self.schema

    def at(self, part: Any) -> View:
        """Another schema of the same document."""
        return View(part, self.document)

    def all_of(self, parts: list[Any]) -> View:
        """The schema of values that are valid by each of these."""
        return self.at(parts[0] if len(parts) == 1 else {"allOf": parts})

    @property
    def types(self) -> set[str]:
        """The types that a value may have; number implies integer."""
        schema = self.schema
        values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else None
        declared = schema.get("type", TYPES)
        named: set[str] = {declared} if isinstance(declared, str) else set(declared)
        if "number" in named:
            named.add("integer")
        if values is not None:
            named &= {_type_of(value) for value in values}
        return named

    def named(self, name: str) -> View:
        """The schema of a property: by name, by patterns, or that of additional properties."""
        schema = self.schema
        found = [schema["properties"][name]] if name in schema.get("properties", {}) else []
        found += [
            part for pattern, part in schema.get("patternProperties", {}).items() if matches(pattern, name)
        ]
        return self.all_of(found) if found else self.additional

    @property
    def additional(self) -> View:
        """The schema of properties that match neither a name nor a pattern."""
        schema = self.schema
        return self.at(schema.get("additionalProperties", schema.get("unevaluatedProperties", True)))

    @property
    def prefix(self) -> list[Any]:
        """The schemas of the first items, one by one."""
        schema = self.schema
        items = schema.get("prefixItems", schema.get("items"))
        return cast("list[Any]", items) if isinstance(items, list) else []

    @property
    def rest(self) -> View:
        """The schema of the items after the first ones."""
        schema = self.schema
        unevaluated = schema.get("unevaluatedItems", True)
        if isinstance(schema.get("items", []), list):
            return self.at(schema.get("additionalItems", unevaluated))
        return self.at(schema.get("items", unevaluated))


def _keywords(part: Any, document: Document, above: tuple[str, ...]) -> dict[str, Any]:
    if part is True:
        return {}
    if not isinstance(part, dict):
        return {"not": {}}
    schema = cast("dict[str, Any]", part)
    reference = schema.get("$ref", schema.get("$dynamicRef", schema.get("$recursiveRef")))
    rest = {key: value for key, value in schema.items() if key not in _ANNOTATIONS and "Ref" not in key}
    if not isinstance(reference, str) or reference in above:
        return {key: value for key, value in rest.items() if key != "$ref"}
    target = document.target(reference)
    if target is None:
        return {"$ref": reference}  # unresolved: equal only to itself
    rest.pop("$ref", None)
    followed = _keywords(target, document, (*above, reference))
    return followed if document.ignores_siblings_of_ref or not rest else {"allOf": [target, rest]}


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern matches a part of a name."""
    if len(name) > _LONGEST_REPEATED and _REPEATED.search(pattern):
        return False
    try:
        return re.search(pattern, name) is not None
    except re.error:  # a pattern of another regex dialect: better too strict than too lax
        return False
