"""Compares JSON Schemas: whether everything that one allows is valid by the other. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any, cast

from gearshift.schemas.differences import Change, Problem, as_changes
from gearshift.schemas.json.documents import Document, View
from gearshift.schemas.json.limits import limits
from gearshift.schemas.json.parts import dependent, finite, listed, merged, outer, refers, same

ALIASES = "gearshift.aliases"
"""The former names of a property, one of which older records use."""
_DEEPEST = 100
_MOST_STEPS = 20_000  # nested alternatives multiply
DECIMAL = "gearshift.decimal"
"""Precision and scale of a decimal, which is written as text."""
# The meaning of a text. JSON Schema treats these as annotations, but a reader of dates cannot read times.
_MARKS = ("format", "contentEncoding", "contentMediaType", DECIMAL)


def json_changes(old: Any, new: Any) -> list[Change]:
    """The changes from one schema to the next.

    >>> before = {"type": "object", "properties": {"load_kw": {"type": "number"}}, "required": ["load_kw"]}
    >>> after = {"type": "object", "properties": {"load_kw": {"type": "string"}}, "required": ["load_kw"]}
    >>> print(*json_changes(before, after))
    field load_kw changed from number to string; keep number, or add a new field with a default
    """
    before, after = Document(old), Document(new)
    return as_changes(json_unreadable(after, before), json_unreadable(before, after))


def json_unreadable(reader: Document, writer: Document) -> list[Problem]:
    """What a writer's schema allows and a reader's does not; if that cannot be decided, it is a problem."""
    return list(_Comparison().compare(reader.view, writer.view, ""))


class _Comparison:
    def __init__(self) -> None:
        self.steps = 0
        self.in_progress: dict[tuple[int, int], tuple[Any, Any]] = {}
        self.known: dict[tuple[int, int], tuple[bool, View, View]] = {}

    def fits(self, reader: View, writer: View) -> bool:
        """Whether there is no problem."""
        pair = id(reader.part), id(writer.part)
        if pair not in self.known:
            fits = next(self.compare(reader, writer, ""), None) is None
            self.known[pair] = fits, reader, writer  # references keep the ids from being reused
        return self.known[pair][0]

    def compare(self, reader: View, writer: View, path: str) -> Iterator[Problem]:
        pair = id(reader.part), id(writer.part)
        if pair in self.in_progress or len(self.in_progress) > _DEEPEST or writer.nothing or reader.anything:
            return
        self.steps += 1
        if self.steps > _MOST_STEPS:
            yield Problem("rule", path, "more alternatives than can be compared", "fewer")
            return
        self.in_progress[pair] = reader.part, writer.part
        try:
            yield from self._writers_branches(reader, writer, path)
        finally:  # also when the generator is closed early
            del self.in_progress[pair]

    def _writers_branches(self, reader: View, writer: View, path: str) -> Iterator[Problem]:
        """Every alternative of the writer must be readable; of its `allOf` parts, one that fits is enough."""
        schema = writer.schema
        if same(reader.schema, schema) and (reader.document is writer.document or not refers(schema)):
            return
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                rest = {key: value for key, value in schema.items() if key != keyword}
                if rest and self.fits(reader, writer.at(rest)):
                    return
                if keyword == "anyOf" and self._exclusive(reader):
                    yield Problem("rule", path, "anyOf", "oneOf")
                    return
                for branch in schema[keyword]:
                    yield from self.compare(reader, writer.all_of([rest, branch] if rest else [branch]), path)
                return
        if "allOf" in schema:
            rest = {key: value for key, value in schema.items() if key != "allOf"}
            parts = [*schema["allOf"], *([rest] if rest else [])]
            if not any(self.fits(reader, writer.at(part)) for part in parts):
                yield from self._readers_branches(reader, writer.at(merged(writer, parts)), path)
            return
        yield from self._readers_branches(reader, writer, path)

    def _readers_branches(self, reader: View, writer: View, path: str) -> Iterator[Problem]:
        if any(keyword in writer.schema for keyword in ("anyOf", "oneOf")):  # after merging
            yield from self._writers_branches(reader, writer, path)
            return
        if reader.nothing:
            yield Problem("type", path, self.word(writer), "nothing")
            return
        schema = reader.schema
        for part in schema.get("allOf", ()):
            yield from self.compare(reader.at(part), writer, path)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                yield from self._one_of(reader, [reader.at(part) for part in schema[keyword]], writer, path)
        if "not" in schema and not self._excluded(reader.at(schema["not"]), writer):
            yield Problem("rule", path, self.word(writer), f"not {self.word(reader.at(schema['not']))}")
        if "if" in schema:
            yield from self._conditions(reader, writer, path)
        yield from self._values(reader, writer, path)

    def _one_of(self, reader: View, branches: list[View], writer: View, path: str) -> Iterator[Problem]:
        if any(self.fits(branch, writer) for branch in branches):
            return
        # Each type may match another branch: a writer's string and null, and two branches of a reader.
        if len(writer.types) > 1 and "enum" not in writer.schema and "const" not in writer.schema:
            single = [writer.at({**writer.schema, "type": type_}) for type_ in sorted(outer(writer.types))]
            if len(single) > 1:
                if not all(any(self.fits(branch, one) for branch in branches) for one in single):
                    yield Problem("type", path, self.word(writer), self.word(reader))
                return
        values = [branch for branch in branches if branch.types != {"null"}]
        if writer.types == {"null"}:
            yield Problem("null", path, "null", self.word(reader))
        elif len(values) == 1:
            yield from self.compare(values[0], writer, path)
        else:
            yield Problem("type", path, self.word(writer), self.word(reader))

    def _exclusive(self, reader: View) -> bool:
        """Whether the reader refuses a value because it matches two of its branches."""
        branches = [reader.at(part) for part in reader.schema.get("oneOf", ())]
        return any(_overlap(one, other) for one, other in combinations(branches, 2))

    def _excluded(self, excluded: View, writer: View) -> bool:
        """Whether the writer allows nothing that the reader excludes."""
        if excluded.nothing or not writer.types & excluded.types:
            return True
        return "not" in writer.schema and self.fits(writer.at(writer.schema["not"]), excluded)

    def _conditions(self, reader: View, writer: View, path: str) -> Iterator[Problem]:
        alike = "if" in writer.schema and same(reader.schema["if"], writer.schema["if"])
        for key in ("then", "else"):
            wanted = reader.at(reader.schema.get(key, True))
            if not (alike and self.fits(wanted, writer.at(writer.schema.get(key, True)))):
                yield from self.compare(wanted, writer, path)

    def _values(self, reader: View, writer: View, path: str) -> Iterator[Problem]:
        schema = reader.schema
        if "$ref" in schema:
            yield Problem("rule", path, self.word(writer), schema["$ref"])
            return
        beyond = outer(writer.types) - reader.types
        if beyond == {"null"} and writer.types != {"null"}:
            yield Problem("null", path, "null", self.word(reader))
        elif beyond == {"null"}:
            yield Problem("null", path, "null", self.word(reader))
            return
        elif beyond and ("type" in schema or not ("enum" in schema or "const" in schema)):
            yield Problem("type", path, self.word(writer), self.word(reader))
            return
        if "enum" in schema or "const" in schema:
            yield from self._words(reader, writer, path)
        yield from limits(reader.schema, writer.schema, writer.types, path)
        if "string" in writer.types & reader.types:
            yield from self._marks(reader, writer, path)
        if "array" in writer.types & reader.types:
            yield from self._arrays(reader, writer, path)
        if "object" in writer.types & reader.types:
            yield from self._objects(reader, writer, path)

    def _words(self, reader: View, writer: View, path: str) -> Iterator[Problem]:
        wanted, written = finite(reader.schema), finite(writer.schema)
        if written is None:
            yield Problem("type", path, self.word(writer), self.word(reader))
            return
        lost = [value for value in written if not any(same(value, each) for each in wanted or ())]
        if lost:
            yield Problem("words", path, ", ".join(map(str, lost)), ", ".join(map(str, wanted or ())))

    def _marks(self, reader: View, writer: View, path: str) -> Iterator[Problem]:
        wanted, written = ([view.schema.get(mark) for mark in _MARKS] for view in (reader, writer))
        if wanted != written and not _wider(wanted, written):
            yield Problem("type", path, self.word(writer), self.word(reader))

    def _arrays(self, reader: View, writer: View, path: str) -> Iterator[Problem]:
        longest = writer.schema.get("maxItems", math.inf)
        length = max(len(reader.prefix), len(writer.prefix))
        for index in range(length):
            if index < longest:
                wanted, written = (
                    view.at(view.prefix[index]) if index < len(view.prefix) else view.rest
                    for view in (reader, writer)
                )
                yield from self.compare(wanted, written, f"{path}[{index}]")
        if length < longest:
            yield from self.compare(reader.rest, writer.rest, f"{path}[]")
        if "contains" in reader.schema:
            there = "contains" in writer.schema
            if not there or not self.fits(
                reader.at(reader.schema["contains"]), writer.at(writer.schema["contains"])
            ):
                yield Problem("rule", path, "other items", "contains")
            elif _stricter_count(reader.schema, writer.schema):
                yield Problem("rule", path, "another count", "a stricter count of what it contains")

    def _objects(self, reader: View, writer: View, path: str) -> Iterator[Problem]:
        wanted, written = reader.schema.get("properties", {}), writer.schema.get("properties", {})
        for name in dict.fromkeys((*wanted, *written)):
            inner = f"{path}.{name}" if path else name
            ours, theirs = reader.named(name), writer.named(name)
            if theirs.nothing or ours.anything:
                continue
            if ours.nothing:
                yield Problem("unknown", inner, self.word(theirs), "nothing")
            elif theirs.anything and name not in written:
                yield Problem("open", inner, "anything", self.word(ours))
            else:
                yield from self.compare(ours, theirs, inner)
        yield from self._required(reader, writer, path)
        yield from self._others(reader, writer, path)
        yield from self._dependencies(reader, writer, path)
        if "propertyNames" in reader.schema:
            names = writer.at(writer.schema.get("propertyNames", {"type": "string"}))
            known = [writer.at({"const": name}) for name in written]
            checked = [names] if not writer.additional.nothing else known
            if not all(self.fits(reader.at(reader.schema["propertyNames"]), each) for each in checked):
                yield Problem("rule", path, "other names", "propertyNames")

    def _required(self, reader: View, writer: View, path: str) -> Iterator[Problem]:
        wanted, written = reader.schema.get("properties", {}), writer.schema.get("properties", {})
        there = _always_present(writer).values()
        for name, names in sorted(_always_present(reader).items()):
            if wanted and name not in wanted and name not in written:
                continue  # registries ignore a required property without a schema
            # The reader must know every name under which a record may have the field.
            if _has_default(wanted.get(name)) or any(each <= names for each in there):
                continue
            inner = f"{path}.{name}" if path else name
            known = names & written.keys()
            former = tuple(each for each in written if each not in wanted or _is_former(wanted[each]))
            yield Problem("missing", inner, "", "required" if known else "", former)

    def _others(self, reader: View, writer: View, path: str) -> Iterator[Problem]:
        """Compare properties that match only patterns, and additional properties."""
        wanted = reader.schema.get("patternProperties", {})
        written = writer.schema.get("patternProperties", {})
        for pattern in dict.fromkeys((*wanted, *written)):
            ours = reader.at(wanted[pattern]) if pattern in wanted else reader.additional
            theirs = writer.at(written[pattern]) if pattern in written else writer.additional
            yield from self.compare(ours, theirs, f"{path}{{{pattern}}}")
        ours, theirs = reader.additional, writer.additional
        if ours.nothing and not theirs.nothing:
            yield Problem("rule", path, "additional fields", "no additional fields")
        else:
            yield from self.compare(ours, theirs, f"{path}{{}}")

    def _dependencies(self, reader: View, writer: View, path: str) -> Iterator[Problem]:
        theirs = dependent(writer.schema)
        required = set(listed(writer.schema.get("required")))
        for name, wanted in dependent(reader.schema).items():
            written = theirs.get(name)
            if isinstance(wanted, list):
                fine = set(listed(wanted)) <= required | set(listed(written))
            else:
                base = {key: value for key, value in writer.schema.items() if key != "dependencies"}
                fine = (
                    written is not None
                    and not isinstance(written, list)
                    and self.fits(reader.at(wanted), writer.at(written))
                ) or self.fits(reader.at(wanted), writer.at(base))
            if not fine and not writer.named(name).nothing:
                yield Problem("rule", path, "no such dependency", f"a dependency of {name}")

    def word(self, view: View) -> str:
        """A short name of a type."""
        schema = view.schema
        if DECIMAL in schema:
            return f"decimal({', '.join(map(str, schema[DECIMAL]))})"
        for mark in _MARKS:
            if mark in schema:
                return str(schema[mark])
        for keyword in ("enum", "const"):
            if keyword in schema:
                return " | ".join(map(str, finite(schema) or ()))
        for keyword in ("oneOf", "anyOf"):
            if keyword in schema:
                return " | ".join(dict.fromkeys(self.word(view.at(part)) for part in schema[keyword]))
        if "allOf" in schema:
            return " & ".join(dict.fromkeys(self.word(view.at(part)) for part in schema["allOf"]))
        if "type" in schema:
            return schema["type"] if isinstance(schema["type"], str) else " | ".join(schema["type"])
        return "nothing" if view.nothing else "anything" if view.anything else " & ".join(sorted(schema))


def _overlap(one: View, other: View) -> bool:
    """Whether two schemas may allow the same value: their types and listed values do not rule it out."""
    if not one.types & other.types:
        return False
    listed_values = finite(one.schema), finite(other.schema)
    if listed_values[0] is None or listed_values[1] is None:
        return True
    return any(same(value, each) for value in listed_values[0] for each in listed_values[1])


def _always_present(view: View) -> dict[str, set[str]]:
    """The fields that every record has, each with all its possible names."""
    found = {name: {name} for name in listed(view.schema.get("required"))}
    for name, part in view.schema.get("properties", {}).items():
        former = listed(view.at(part).schema.get(ALIASES))
        if former and not _has_default(part):
            found[name] = {name, *former}
    return found


def _has_default(part: Any) -> bool:
    return isinstance(part, dict) and "default" in part


def _is_former(part: Any) -> bool:
    """Whether a field exists only for old records."""
    return isinstance(part, dict) and cast("dict[str, Any]", part).get("deprecated") is True


def _wider(wanted: list[Any], written: list[Any]) -> bool:
    """Whether the reader accepts more: text without a format, or a decimal with more digits."""
    if wanted[:3] != written[:3]:
        return not any(wanted)
    ours, theirs = wanted[3], written[3]
    if ours is None or theirs is None:
        return ours is None
    return ours[1] >= theirs[1] and ours[0] - ours[1] >= theirs[0] - theirs[1]


def _stricter_count(wanted: dict[str, Any], written: dict[str, Any]) -> bool:
    stricter_minimum = wanted.get("minContains", 1) > written.get("minContains", 1)
    return stricter_minimum or wanted.get("maxContains", math.inf) < written.get("maxContains", math.inf)
