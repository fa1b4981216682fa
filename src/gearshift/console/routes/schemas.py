"""Schemas: the subjects of the registry, what changed between versions, and whether a new one fits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, StringConstraints

from gearshift.console.console import Here
from gearshift.console.inputs import NamePath
from gearshift.console.problems import Refusal
from gearshift.console.records import json_of
from gearshift.errors import SchemaError
from gearshift.registry.compatibility import InvalidSchemaError, canonical
from gearshift.schemas.comparing import all_changes
from gearshift.schemas.differences import Change
from gearshift.schemas.registry_client import Registry, Schema

router = APIRouter(tags=["schemas"])

_AT_ONCE = 8
_COMPARABLE = ("avro", "json")


class ProposedSchema(BaseModel):
    """A schema that may become the next version, in the format of the latest."""

    text: Annotated[str, StringConstraints(max_length=1_000_000)]


@router.get("/api/schemas")
def subjects(console: Here) -> list[dict[str, Any]]:
    """All subjects, with the number of their versions."""
    with Registry(console.connection) as registry, ThreadPoolExecutor(_AT_ONCE) as pool:
        names = registry.subjects()
        numbers = pool.map(registry.version_numbers, names)
        return [{"subject": name, "versions": len(each)} for name, each in zip(names, numbers, strict=True)]


@router.get("/api/schemas/{subject:path}")
def subject(subject: NamePath, console: Here) -> Response:
    """A subject: every version, oldest first, with its changes to the version before."""
    with Registry(console.connection) as registry:
        known = _versions(registry, subject)
        level = registry.compatibility(subject)
    versions: list[dict[str, Any]] = []
    before: Schema | None = None
    for number, schema in known.items():
        versions.append(
            {
                "version": number,
                "id": schema.id,
                "format": schema.format,
                "text": schema.text,
                "changes": [] if before is None else _described(before, schema),
            }
        )
        before = schema
    found = {"subject": subject, "compatibility": level, "versions": versions}
    return Response(json_of(found), media_type="application/json")


@router.post("/api/schemas/{subject:path}/check")
def check(subject: NamePath, proposed: ProposedSchema, console: Here) -> Response:
    """Whether a schema may become the next version: its changes, and which of them break readers."""
    with Registry(console.connection) as registry:
        known = list(_versions(registry, subject).values())
        level = registry.compatibility(subject)
    format_ = known[-1].format
    if format_ not in _COMPARABLE:
        raise SchemaError(f"{subject} is {format_}, which is not supported", hint="use Avro or JSON Schema")
    text = _valid(format_, proposed.text)
    changes: dict[str, bool] = {}
    for old in known if level.endswith("_TRANSITIVE") else known[-1:]:
        for change in _changes(old.format, old.text, format_, text):
            breaks = change.breaks(level)
            what = str(change) if breaks else change.what
            changes[what] = changes.get(what, False) or breaks
    found = {
        "compatible": not any(changes.values()),
        "level": level,
        "changes": [{"what": what, "breaks": breaks} for what, breaks in changes.items()],
    }
    return Response(json_of(found), media_type="application/json")


def _versions(registry: Registry, subject: str) -> dict[int, Schema]:
    numbers = registry.version_numbers(subject)
    if not numbers:
        raise Refusal(404, SchemaError(f"unknown subject {subject!r}"))
    return {number: registry.version(subject, number) for number in numbers}


def _described(before: Schema, schema: Schema) -> list[str]:
    if {before.format, schema.format} - set(_COMPARABLE):
        return []
    try:
        return [change.what for change in _changes(before.format, before.text, schema.format, schema.text)]
    except SchemaError as error:
        return [error.what]


def _changes(old_format: str, old: str, new_format: str, new: str) -> list[Change]:
    """The changes; SchemaError for schemas that cannot be compared, such as one that refers to others."""
    try:
        return all_changes(old_format, old, new_format, new)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise SchemaError(
            "the schemas cannot be compared", hint="check that neither refers to others"
        ) from None


def _valid(format_: str, text: str) -> str:
    try:
        return canonical(format_.upper(), text, {})
    except InvalidSchemaError as error:
        raise SchemaError(f"not a valid schema: {error}", hint="fix the text") from None
