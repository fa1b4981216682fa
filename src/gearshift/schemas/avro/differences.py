"""Compares Avro schemas by the rules of Avro's schema resolution. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from gearshift.schemas.differences import Change, Problem, as_changes

MEMBERS = "gearshift.members"
"""The members of an Enum, which is written as a string: with Avro's enum, new members break old readers."""
# The reader's types that can read a writer's type (Avro 1.12, schema resolution).
_PROMOTIONS = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_NAMED = ("record", "error", "enum", "fixed")


def changes(old: Any, new: Any) -> list[Change]:
    """The changes from one schema to the next.

    >>> before = {"type": "record", "name": "Reading", "fields": [{"name": "load_kw", "type": "double"}]}
    >>> after = {"type": "record", "name": "Reading", "fields": [{"name": "load_kw", "type": "string"}]}
    >>> print(*changes(before, after))
    field load_kw changed from double to string; keep double, or add a new field with a default
    """
    return as_changes(unreadable(new, old), unreadable(old, new))


def unreadable(
    reader: Any,
    writer: Any,
    *,
    strict: bool = True,
    names: bool = True,
    known: Mapping[str, Any] | None = None,
) -> list[Problem]:
    """What a writer's schema allows and a reader's cannot read; `known` are the named types that both refer to.

    Without `names`, records match whatever their names are.
    Registries ignore logical types, so that a decimal(12, 2) is read as decimal(12, 4), a hundredth of the value. A
    strict comparison checks them, and the members of an Enum.
    """
    wanted, written = Parsed(reader, known), Parsed(writer, known)
    return list(_Comparison(wanted, written, strict, names).compare(wanted.root, written.root, ""))


class Parsed:
    """A schema with fully qualified names, and its named types by name."""

    def __init__(self, schema: Any, known: Mapping[str, Any] | None = None) -> None:
        self.named: dict[str, dict[str, Any]] = {}
        for other in (known or {}).values():
            self._walk(other, "")
        self.root = self._walk(schema, "")

    def resolved(self, schema: Any) -> Any:
        """The type behind a name."""
        return self.named.get(schema, schema) if isinstance(schema, str) else schema

    def _walk(self, part: Any, space: str) -> Any:
        if isinstance(part, list):
            return [self._walk(branch, space) for branch in cast("list[Any]", part)]
        if not isinstance(part, dict):
            full = _full(str(part), space)
            return full if full in self.named else str(part)
        schema = cast("dict[str, Any]", part)
        type_ = schema["type"]
        if isinstance(type_, dict | list):
            return self._walk(type_, space)
        if type_ in _NAMED:
            return self._named_type(schema, space)
        for key in ("items", "values"):
            if type_ in ("array", "map") and key in schema:
                return {**schema, key: self._walk(schema[key], space)}
        name = self._walk(type_, space)
        return name if name in self.named else schema

    def _named_type(self, schema: dict[str, Any], space: str) -> dict[str, Any]:
        name = _full(schema["name"], schema.get("namespace", space))
        inner = name.rpartition(".")[0]
        node = {**schema, "name": name, "aliases": [_full(each, inner) for each in schema.get("aliases", ())]}
        self.named[name] = node
        if "fields" in schema:
            node["fields"] = [{**each, "type": self._walk(each["type"], inner)} for each in schema["fields"]]
        return node


class _Comparison:
    def __init__(self, reader: Parsed, writer: Parsed, strict: bool, names: bool) -> None:
        self.reader = reader
        self.writer = writer
        self.strict = strict
        self.names = names
        self.in_progress: set[tuple[int, int]] = set()
        self.known: dict[tuple[int, int], bool] = {}

    def compare(self, reader: Any, writer: Any, path: str) -> Iterator[Problem]:
        reader, writer = self.reader.resolved(reader), self.writer.resolved(writer)
        if isinstance(writer, list):
            for branch in cast("list[Any]", writer):
                yield from self.compare(reader, branch, path)
        elif isinstance(reader, list):
            yield from self._union(cast("list[Any]", reader), writer, path)
        elif _kind(writer) == "null" != _kind(reader):
            yield Problem("null", path, "null", word(reader))
        else:
            yield from self._types(reader, writer, path)

    def _union(self, reader: list[Any], writer: Any, path: str) -> Iterator[Problem]:
        branches = [self.reader.resolved(branch) for branch in reader]
        if any(self._fits(branch, writer) for branch in branches):
            return
        values = [branch for branch in branches if _kind(branch) != "null"]
        if len(values) == 1:
            yield from self.compare(values[0], writer, path)
        elif _kind(writer) == "null":
            yield Problem("null", path, "null", _words(branches))
        else:
            yield Problem("type", path, word(writer), _words(branches))

    def _fits(self, reader: Any, writer: Any) -> bool:
        pair = id(reader), id(writer)
        if not isinstance(reader, dict) or not isinstance(writer, dict):
            return next(self.compare(reader, writer, ""), None) is None
        if pair not in self.known:
            self.known[pair] = next(self.compare(reader, writer, ""), None) is None
        return self.known[pair]

    def _types(self, reader: Any, writer: Any, path: str) -> Iterator[Problem]:
        kinds = _kind(reader), _kind(writer)
        if kinds[0] == kinds[1] and kinds[0] in _NAMED:
            if not self.names or _named_alike(reader, writer):
                yield from self._named(reader, writer, path)
            else:
                yield Problem("name", path, writer["name"], reader["name"])
        elif kinds == ("array", "array"):
            yield from self.compare(reader["items"], writer["items"], f"{path}[]")
        elif kinds == ("map", "map"):
            yield from self.compare(reader["values"], writer["values"], f"{path}{{}}")
        elif kinds[0] != kinds[1] and kinds[0] not in _PROMOTIONS.get(kinds[1], ()):
            yield Problem("type", path, word(writer), word(reader))
        elif self.strict:
            yield from _meaning(reader, writer, path)

    def _named(self, reader: Any, writer: Any, path: str) -> Iterator[Problem]:
        if _kind(reader) == "enum":
            lost = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
            if lost and "default" not in reader:
                yield Problem("words", path, ", ".join(lost), ", ".join(reader["symbols"]))
        elif _kind(reader) == "fixed":
            if reader["size"] != writer["size"]:
                yield Problem("type", path, f"fixed({writer['size']})", f"fixed({reader['size']})")
            elif self.strict:
                yield from _meaning(reader, writer, path)
        else:
            pair = id(reader), id(writer)
            if pair not in self.in_progress:
                self.in_progress.add(pair)
                try:
                    yield from self._records(reader, writer, path)
                finally:  # also when the generator is closed early
                    self.in_progress.discard(pair)

    def _records(self, reader: Any, writer: Any, path: str) -> Iterator[Problem]:
        written = {field["name"]: field for field in writer["fields"]}
        read: set[str] = set()
        for field in reader["fields"]:
            names = [name for name in (field["name"], *field.get("aliases", ())) if name in written]
            read.update(names[:1])
            inner = f"{path}.{field['name']}" if path else field["name"]
            if names:
                yield from self.compare(field["type"], written[names[0]]["type"], inner)
            elif "default" not in field and not self._falls_back(field["type"]):
                known = {each["name"] for each in reader["fields"]}
                yield Problem(
                    "missing", inner, former=tuple(each for each in written if each not in known | read)
                )

    def _falls_back(self, type_: Any) -> bool:
        """Whether it is an enum with a default, which also applies to a missing field."""
        resolved = self.reader.resolved(type_)
        return isinstance(resolved, dict) and _kind(resolved) == "enum" and "default" in resolved


def _meaning(reader: Any, writer: Any, path: str) -> Iterator[Problem]:
    """Problems that Avro does not detect: in logical types and members."""
    wanted, written = _attribute(reader, "logicalType"), _attribute(writer, "logicalType")
    if wanted == written == "decimal":
        if _scale(reader) != _scale(writer) or _precision(reader) < _precision(writer):
            yield Problem("type", path, word(writer), word(reader))
    elif wanted != written:
        yield Problem("type", path, word(writer), word(reader))
    members, written_members = _members(reader), _members(writer)
    if members and not written_members:
        yield Problem("type", path, word(writer), word(reader))
    elif members and written_members:
        lost = [each for each in written_members if each not in members]
        if lost:
            yield Problem("words", path, ", ".join(lost), ", ".join(members))


def _named_alike(reader: Any, writer: Any) -> bool:
    """Whether names match in their last part, or by an alias of the reader (Avro 1.12)."""
    return _short(reader["name"]) == _short(writer["name"]) or writer["name"] in reader["aliases"]


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _kind(schema: Any) -> str:
    return cast("str", schema["type"]) if isinstance(schema, dict) else str(schema)


def _attribute(schema: Any, name: str) -> Any:
    return cast("dict[str, Any]", schema).get(name) if isinstance(schema, dict) else None


def _precision(schema: Any) -> int:
    return _number(schema.get("precision"))


def _scale(schema: Any) -> int:
    return _number(schema.get("scale"))


def _number(given: Any) -> int:
    return given if type(given) is int else 0  # Avro requires that an invalid logical type is ignored


def _members(schema: Any) -> list[str] | None:
    """The members of an Enum; None for another type."""
    given = _attribute(schema, MEMBERS)
    return [str(each) for each in cast("list[Any]", given)] if isinstance(given, list) else None


def word(schema: Any) -> str:
    """A short name of a type: `double`, `decimal(12, 2)`, `timestamp-micros`, `record Address`, `Enum of day, night`."""
    if isinstance(schema, list):
        return _words(cast("list[Any]", schema))
    if not isinstance(schema, dict):
        return str(schema)
    inner = cast("dict[str, Any]", schema)
    if (members := _members(inner)) is not None:
        return f"Enum of {', '.join(members)}"
    logical = inner.get("logicalType")
    if logical == "decimal":
        return f"decimal({inner.get('precision')}, {inner.get('scale', 0)})"
    if logical is not None:
        return str(logical)
    kind = str(inner["type"])
    return f"{kind} {_short(inner['name'])}" if kind in _NAMED else kind


def _words(branches: list[Any]) -> str:
    return " | ".join(word(branch) for branch in branches) or "nothing"
