"""What changed between two versions of an Avro schema, and whether readers can bear it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

# What a reader may call a number that a writer called something smaller (Avro 1.12, schema resolution).
_PROMOTIONS = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}


@dataclass(frozen=True, slots=True)
class Change:
    """One change: its field, what it is, what to write instead, and who it breaks."""

    field: str
    what: str
    remedy: str
    breaks_new_readers: bool
    breaks_old_readers: bool

    def breaks(self, compatibility: str) -> bool:
        """Whether this level of compatibility forbids the change.

        New readers must read old records under BACKWARD, old readers new records under FORWARD.
        """
        level = compatibility.removesuffix("_TRANSITIVE")
        return (self.breaks_new_readers and level in ("BACKWARD", "FULL")) or (
            self.breaks_old_readers and level in ("FORWARD", "FULL")
        )

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


def changes(old: Any, new: Any) -> list[Change]:
    """The changes from one schema to the next, outermost first.

    >>> before = {"type": "record", "name": "Reading", "fields": [{"name": "load_kw", "type": "double"}]}
    >>> after = {"type": "record", "name": "Reading", "fields": [{"name": "load_kw", "type": "string"}]}
    >>> print(*changes(before, after))
    field load_kw changed from double to string; keep double, or add a new field with a default
    """
    return list(_Comparison(_named(old), _named(new)).compare(old, new, ""))


def _named(schema: Any) -> dict[str, Any]:
    """Every named type inside a schema, by its short name: names match on that (Avro 1.12)."""
    found: dict[str, Any] = {}

    def walk(part: Any) -> None:
        if isinstance(part, list):
            for branch in cast("list[Any]", part):
                walk(branch)
        elif isinstance(part, dict):
            inner = cast("dict[str, Any]", part)
            if "name" in inner:
                found[_short(inner["name"])] = inner
            for field in inner.get("fields", ()):
                walk(field["type"])
            for key in ("items", "values", "type"):
                walk(inner.get(key))

    walk(schema)
    return found


def _short(name: str) -> str:
    return name.rpartition(".")[2]


class _Comparison:
    def __init__(self, old_names: dict[str, Any], new_names: dict[str, Any]) -> None:
        self.old_names = old_names
        self.new_names = new_names

    def compare(self, old: Any, new: Any, path: str) -> Iterator[Change]:
        old, new = _resolved(old, self.old_names), _resolved(new, self.new_names)
        if isinstance(old, list) or isinstance(new, list):
            yield from self._unions(_branches(old), _branches(new), path)
            return
        kinds = _kind(old), _kind(new)
        if kinds == ("record", "record"):
            yield from self._records(old, new, path)
        elif kinds == ("array", "array"):
            yield from self.compare(old["items"], new["items"], f"{path}[]")
        elif kinds == ("map", "map"):
            yield from self.compare(old["values"], new["values"], f"{path}{{}}")
        elif _word(old) != _word(new):
            yield _changed(path, old, new, _reads(old, new), _reads(new, old))

    def _records(self, old: Any, new: Any, path: str) -> Iterator[Change]:
        if _short(old["name"]) != _short(new["name"]):
            what = f"{f'the record in field {path}' if path else 'the record'} is now called {new['name']}"
            yield Change(path, what, f"keep the class name {old['name']}", True, True)
        before = {field["name"]: field for field in old["fields"]}
        after = {field["name"]: field for field in new["fields"]}
        for name, field in after.items():
            inner = f"{path}.{name}" if path else name
            if name in before:
                yield from self.compare(before[name]["type"], field["type"], inner)
            elif "default" not in field:
                yield Change(
                    inner, f"field {inner} was added without a default", "give it a default", True, False
                )
        for name, field in before.items():
            if name not in after and "default" not in field:
                inner = f"{path}.{name}" if path else name
                yield Change(
                    inner, f"field {inner}, which has no default, was removed", "keep it", False, True
                )

    def _unions(self, old: list[Any], new: list[Any], path: str) -> Iterator[Change]:
        concrete = [[each for each in side if _kind(each) != "null"] for side in (old, new)]
        if len(concrete[0]) != 1 or len(concrete[1]) != 1:
            # More branches than T | None come from other writers; the registry judges them.
            return
        (before,), (after,) = concrete
        inner = list(self.compare(before, after, path))
        yield from inner
        was, now = len(old) > 1, len(new) > 1
        if was == now or inner:
            return
        what = f"field {path} {'may no longer be null' if was else 'may now be null'}"
        remedy = f"keep it {_word(before)} | None" if was else f"keep it {_word(before)}"
        yield Change(path, what, remedy, was, now)


def _resolved(schema: Any, names: dict[str, Any]) -> Any:
    if isinstance(schema, str):
        return names.get(_short(schema), schema)
    if isinstance(schema, dict):
        inner = cast("dict[str, Any]", schema)["type"]
        return inner if isinstance(inner, dict | list) else schema  # pyright: ignore[reportUnknownVariableType]
    return schema


def _branches(schema: Any) -> list[Any]:
    return cast("list[Any]", schema) if isinstance(schema, list) else [schema]


def _kind(schema: Any) -> str:
    return cast("str", schema["type"]) if isinstance(schema, dict) else str(schema)


def _word(schema: Any) -> str:
    """A type in a word: `double`, `decimal(12, 2)`, `timestamp-micros`, `record Address`."""
    if not isinstance(schema, dict):
        return str(schema)
    inner = cast("dict[str, Any]", schema)
    logical = inner.get("logicalType")
    if logical == "decimal":
        return f"decimal({inner['precision']}, {inner.get('scale', 0)})"
    if logical is not None:
        return str(logical)
    return f"{inner['type']} {_short(inner['name'])}" if "name" in inner else str(inner["type"])


def _reads(written: Any, wanted: Any) -> bool:
    """Whether a reader that wants one type can read what was written as the other.

    Registries look past logical types, which lets a decimal(12, 2) be read as decimal(12, 4): a hundredth of
    what was written. Between logical types nothing is promoted here.
    """
    if _logical(written) or _logical(wanted):
        return False
    return _kind(wanted) in _PROMOTIONS.get(_kind(written), ())


def _logical(schema: Any) -> bool:
    return isinstance(schema, dict) and "logicalType" in schema


def _changed(path: str, old: Any, new: Any, new_reads_old: bool, old_reads_new: bool) -> Change:
    return Change(
        path,
        f"field {path} changed from {_word(old)} to {_word(new)}",
        f"keep {_word(old)}, or add a new field with a default",
        not new_reads_old,
        not old_reads_new,
    )
