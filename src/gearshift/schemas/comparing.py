"""Compares two versions of a schema field by field."""

from __future__ import annotations

import json
from typing import Any

from gearshift.schemas.avro.differences import changes
from gearshift.schemas.differences import Change
from gearshift.schemas.fields import Field, fields
from gearshift.schemas.json.differences import json_changes


def changes_between(old_format: str, old: str, new_format: str, new: str) -> list[Change]:
    """The changes that keep readers of one version from reading records of the other."""
    if old_format != new_format:
        what = f"the format changed from {old_format} to {new_format}"
        return [Change("", what, f"keep {old_format}, or declare a new topic", True, True)]
    before, after = json.loads(old), json.loads(new)
    return changes(before, after) if new_format == "avro" else json_changes(before, after)


def all_changes(old_format: str, old: str, new_format: str, new: str) -> list[Change]:
    """The same, and the fields that were added, removed or given another default, which break no reader.

    >>> before = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
    >>> after = {**before, "fields": [*before["fields"], {"name": "b", "type": "long", "default": 0}]}
    >>> [change.what for change in all_changes("avro", json.dumps(before), "avro", json.dumps(after))]
    ['field b was added']
    """
    found = changes_between(old_format, old, new_format, new)
    if old_format != new_format:
        return found
    before, after = _by_name(old_format, old), _by_name(new_format, new)
    named = {change.field.partition(".")[0] for change in found}
    return [*found, *(change for change in _harmless(before, after) if change.field not in named)]


def _by_name(format_: str, text: str) -> dict[str, Field]:
    schema: Any = json.loads(text)
    return {field.name: field for field in fields(format_, schema) if field.name}


def _harmless(before: dict[str, Field], after: dict[str, Field]) -> list[Change]:
    def change(name: str, what: str) -> Change:
        return Change(name, f"field {name} {what}", "", False, False)

    added = [change(name, "was added") for name in after if name not in before]
    removed = [change(name, "was removed") for name in before if name not in after]
    defaults = [
        change(
            name,
            f"has another default: {json.dumps(field.default)} instead of {json.dumps(before[name].default)}",
        )
        for name, field in after.items()
        if name in before
        and (before[name].default, before[name].note) != (field.default, field.note)
        and not (before[name].required or field.required)
    ]
    return [*added, *removed, *defaults]
