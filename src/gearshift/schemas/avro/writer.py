"""Reads Avro writers' schemas: names resolved, invalid logical types ignored, and how to skip each value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from gearshift.schemas.encoding import Misfit

Plan = dict[str, Any]

EMPTY_ITEMS = "its items take no bytes, so a short record could claim any number of them"
UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_DEEPEST = 200  # types within types; Python's stack ends at a thousand calls
_LARGEST_SIZE = 2**31 - 1  # Java's longest array
_ON_LONG = {
    *(f"{kind}-{unit}" for kind in ("timestamp", "local-timestamp") for unit in UNITS),
    "time-micros",
}


class Type:
    """A type of the writer's schema, with its attributes and its logical type if that is valid."""

    def __init__(self, kind: str, written: Mapping[str, Any], namespace: str) -> None:
        self.kind = kind
        self.written = written
        self.namespace = namespace
        self.logical = self._logical()

    @property
    def size(self) -> int:
        return int(self.written["size"])

    def _logical(self) -> str | None:
        """The logical type; Avro requires that an invalid one is ignored."""
        name = self.written.get("logicalType")
        if not isinstance(name, str):
            return None
        if name == "decimal" and self.kind in ("bytes", "fixed"):
            precision, scale = self.written.get("precision"), self.written.get("scale", 0)
            fits = type(precision) is int and type(scale) is int and 0 <= scale <= precision and precision > 0
            return "decimal" if fits else None
        if name == "uuid" and (self.kind == "string" or (self.kind == "fixed" and self.size == 16)):
            return "uuid"
        if name in ("date", "time-millis") and self.kind == "int":
            return name
        return name if name in _ON_LONG and self.kind == "long" else None

    def __str__(self) -> str:
        return self.logical or self.kind


class Writer:
    """The writer's schema with its names resolved, and the plans to skip its named records."""

    def __init__(self, schema: Any, *, checks_texts: bool = False, known: Iterable[Any] = ()) -> None:
        """With `checks_texts`, skipping a text checks its UTF-8; `known` are other schemas that it refers to."""
        self._texts = "text" if checks_texts else "bytes"
        self._named: dict[str, Type] = {}
        self._takes_bytes: dict[str, bool] = {}
        self.recursive = False
        """Whether a record that was skipped contains itself."""
        self.skips: dict[str, Plan] = {}
        self.root: Any = (schema, "")
        for each in (*known, schema):
            self._announce((each, ""))

    def type_of(self, part: tuple[Any, str]) -> Type | list[tuple[Any, str]]:
        """A type, or the branches of a union."""
        schema, namespace = part
        if isinstance(schema, list):
            return [(branch, namespace) for branch in cast("list[Any]", schema)]
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        if not isinstance(schema, dict):
            raise Misfit("the writer's schema is not Avro")
        written = cast("dict[str, Any]", schema)
        kind = written.get("type")
        if isinstance(kind, dict | list):
            return self.type_of((cast("Any", kind), namespace))
        if kind in _PRIMITIVES:
            return Type(str(kind), written, namespace)
        if kind in ("array", "map"):
            if ("items" if kind == "array" else "values") not in written:
                raise Misfit(f"the writer's schema has a {kind} without a type for its items")
            return Type(str(kind), written, namespace)
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(written, namespace)
        return self._by_name(str(kind), namespace)

    def _define(self, written: Mapping[str, Any], namespace: str) -> Type:
        name = written.get("name")
        if not isinstance(name, str) or not name:
            raise Misfit("the writer's schema has a type without a name")
        _require_aliases(written)
        given = written.get("namespace")
        space = name.rpartition(".")[0] if "." in name else namespace if given is None else str(given)
        kind = "record" if written["type"] == "error" else str(written["type"])
        part, expected = {"record": ("fields", list), "enum": ("symbols", list), "fixed": ("size", int)}[kind]
        if not isinstance(written.get(part), expected):
            raise Misfit(f"the writer's schema has a {kind} without its {part}")
        if kind == "fixed" and not (type(written[part]) is int and 0 <= written[part] <= _LARGEST_SIZE):
            raise Misfit("the writer's schema has a fixed of an invalid size")
        made = self._named.setdefault(_full(name, space), Type(kind, written, space))
        if made.written is not written and made.written != written:
            raise Misfit(f"the writer's schema defines {_full(name, space)} twice")
        return made

    def _by_name(self, name: str, namespace: str) -> Type:
        if name in _PRIMITIVES:
            return Type(name, {}, namespace)
        found = self._named.get(_full(name, namespace)) or self._named.get(name)
        if found is None:
            raise Misfit(f"the writer's schema has no type {name!r}")
        return found

    def fields(self, record: Type) -> list[tuple[str, tuple[Any, str]]]:
        """The names of a record's fields, and their types."""
        found: list[tuple[str, tuple[Any, str]]] = []
        for field in record.written["fields"]:
            if not isinstance(field, dict) or "name" not in field or "type" not in field:
                raise Misfit("the writer's schema has a field without a name or a type")
            named = cast("dict[str, Any]", field)
            if not isinstance(named["name"], str):
                raise Misfit("the writer's schema has a field whose name is not text")
            _require_aliases(named)
            found.append((named["name"], (named["type"], record.namespace)))
        return found

    def _announce(self, part: tuple[Any, str], depth: int = 0) -> None:
        """Register the names that are defined within a type: others refer to them, also where it is not read."""
        if depth > _DEEPEST:
            raise Misfit("the writer's schema is nested too deeply")
        if isinstance(part[0], str):
            return
        try:
            found = self.type_of(part)
            within = found if isinstance(found, list) else self._parts(found)
        except Misfit:
            return  # raised again where the type is read or skipped
        for each in within:
            self._announce(each, depth + 1)

    def _parts(self, found: Type) -> list[tuple[Any, str]]:
        if found.kind == "record":
            return [type_ for _, type_ in self.fields(found)]
        return [inner(found)] if found.kind in ("array", "map") else []

    def skip(self, part: tuple[Any, str]) -> Plan:
        """The plan to skip a value. Skipped records may be recursive, so they are referred to by name."""
        found = self.type_of(part)
        if isinstance(found, list):
            return {"skip": "union", "branches": [self.skip(branch) for branch in found]}
        match found.kind:
            case "record":
                name = _full(str(found.written["name"]), found.namespace)
                self.recursive |= self.skips.get(name) == {}
                if name not in self.skips:
                    self.skips[name] = {}  # so that the record may contain itself
                    fields = [self.skip(type_) for _, type_ in self.fields(found)]
                    self.skips[name] = {"skip": "fields", "fields": fields}
                return {"skip": "record", "name": name}
            case "array" | "map":
                items = inner(found)
                return {
                    "skip": found.kind,
                    "items": self.skip(items),
                    "empty": not self.takes_bytes(items),
                }
            case "enum":
                return {"skip": "enum", "symbols": len(found.written["symbols"])}
            case "fixed":
                return {"skip": "fixed", "size": found.size}
            case "string":
                return {"skip": self._texts}
            case kind:
                return {"skip": kind}

    def whole(self) -> Plan:
        """The plan to check a whole payload; Misfit if a short one could claim any number of items."""
        plan = {**self.skip(self.root), "skips": self.skips}
        if '"empty": true' in json.dumps(plan["skips"]) + json.dumps(plan):
            raise Misfit(EMPTY_ITEMS)
        return plan

    def takes_bytes(self, part: tuple[Any, str]) -> bool:
        """Whether every value of a type takes at least one byte, which bounds the number of items."""
        found = self.type_of(part)
        if isinstance(found, list):
            return True
        if found.kind == "record":
            name = _full(str(found.written["name"]), found.namespace)
            if name not in self._takes_bytes:
                self._takes_bytes[name] = True  # a record that always contains itself has no values
                self._takes_bytes[name] = any(self.takes_bytes(type_) for _, type_ in self.fields(found))
            return self._takes_bytes[name]
        return found.kind != "null" and not (found.kind == "fixed" and found.size == 0)


def inner(found: Type) -> tuple[Any, str]:
    return (found.written["items" if found.kind == "array" else "values"], found.namespace)


def _require_aliases(written: Mapping[str, Any]) -> None:
    aliases: Any = written.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(each, str) for each in cast("list[Any]", aliases)):
        raise Misfit("the writer's schema has aliases that are not a list of names")


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
