"""What changed between two versions of a JSON Schema of ours, in the words of `differences`. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gearshift.schemas.differences import Change


def json_changes(old: Any, new: Any, path: str = "") -> Iterator[Change]:
    """The changes from one schema to the next that a closed object can notice.

    >>> before = {"type": "object", "properties": {"load_kw": {"type": "number"}}, "required": ["load_kw"]}
    >>> after = {"type": "object", "properties": {"load_kw": {"type": "string"}}, "required": ["load_kw"]}
    >>> print(*json_changes(before, after))
    field load_kw changed from number to string; keep number, or add a new field with a default
    """
    if "oneOf" in old or "oneOf" in new:
        yield from _optional(old, new, path)
    elif "properties" in old and "properties" in new:
        yield from _objects(old, new, path)
    elif old.get("type") == new.get("type") == "array":
        yield from json_changes(old["items"], new["items"], f"{path}[]")
    elif _is_map(old) and _is_map(new):
        yield from json_changes(old["additionalProperties"], new["additionalProperties"], f"{path}{{}}")
    elif _word(old) != _word(new):
        wider = (_word(old), _word(new)) == ("integer", "number")
        narrower = (_word(new), _word(old)) == ("integer", "number")
        yield Change(
            path,
            f"field {path} changed from {_word(old)} to {_word(new)}",
            f"keep {_word(old)}, or add a new field with a default",
            not wider,
            not narrower,
        )


def _objects(old: Any, new: Any, path: str) -> Iterator[Change]:
    before, after = old["properties"], new["properties"]
    required = set(new.get("required", ()))
    for name, part in after.items():
        inner = f"{path}.{name}" if path else name
        if name in before:
            yield from json_changes(before[name], part, inner)
        elif name in required:
            yield Change(inner, f"field {inner} was added without a default", "give it a default", True, True)
        else:
            yield Change(
                inner, f"field {inner} was added", "readers of closed objects refuse it", False, True
            )
    for name in before:
        if name not in after:
            inner = f"{path}.{name}" if path else name
            what = f"field {inner} was removed, and old records still hold it"
            yield Change(inner, what, "keep it, with a default", True, name in old.get("required", ()))


def _optional(old: Any, new: Any, path: str) -> Iterator[Change]:
    inner = list(json_changes(_item(old), _item(new), path))
    yield from inner
    was, now = "oneOf" in old, "oneOf" in new
    if was != now and not inner:
        what = f"field {path} {'may no longer be null' if was else 'may now be null'}"
        yield Change(path, what, "keep it as it was", was, now)


def _item(schema: Any) -> Any:
    if "oneOf" not in schema:
        return schema
    return next((branch for branch in schema["oneOf"] if branch.get("type") != "null"), schema["oneOf"][0])


def _is_map(schema: Any) -> bool:
    return isinstance(schema.get("additionalProperties"), dict)


def _word(schema: Any) -> str:
    return str(schema.get("format") or schema.get("contentEncoding") or schema.get("type"))
