"""The routes of Confluent's schema registry API, with its error codes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from gearshift.registry.compatibility import KINDS, LEVELS, InvalidSchemaError, Known, canonical, conflicts
from gearshift.registry.store import Reference, Store, Version

_LARGEST_VERSION = 2**31 - 1


class ApiError(Exception):
    """An error response: Confluent's error code and a message."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number
        self.status = number if number < 1000 else number // 100


def no_subject(subject: str) -> ApiError:
    """The error for an unknown subject."""
    return ApiError(40401, f"Subject '{subject}' not found.")


class Api:
    """Every endpoint of the registry, as a method."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def handle(self, method: str, path: str, query: Mapping[str, str], body: Any) -> Any:
        """The response to a request, or ApiError."""
        for wanted, pattern, function in _ROUTES:
            found = pattern.fullmatch(path)
            if found and wanted == method:
                with self._store.transaction():
                    return function(self, *found.groups(), query=query, body=body)
        raise ApiError(404, f"HTTP 404 Not Found: {method} {path}")

    def subjects(self, query: Mapping[str, str], **_: Any) -> Any:
        prefix = query.get("subjectPrefix", "").removeprefix(":*:")
        return [
            name for name in self._store.subjects(deleted=_yes(query, "deleted")) if name.startswith(prefix)
        ]

    def schemas(self, query: Mapping[str, str], **_: Any) -> Any:
        found: list[Any] = []
        for subject in self.subjects(query):
            versions = self._store.versions(subject, deleted=_yes(query, "deleted"))
            found += [_described(each) for each in (versions[-1:] if _yes(query, "latestOnly") else versions)]
        return found

    def schema(self, number: str, **_: Any) -> Any:
        described = _described(self._with_id(number))
        return {key: described[key] for key in ("schemaType", "schema", "references") if key in described}

    def schema_text(self, number: str, **_: Any) -> Any:
        return _Text(self._with_id(number).text)

    def versions_of_id(self, number: str, query: Mapping[str, str], **_: Any) -> Any:
        self._with_id(number)
        found = [
            each for each in self._store.with_id(int(number)) if _yes(query, "deleted") or not each.deleted
        ]
        return [{"subject": each.subject, "version": each.version} for each in found]

    def subjects_of_id(self, number: str, query: Mapping[str, str], **_: Any) -> Any:
        return list(dict.fromkeys(each["subject"] for each in self.versions_of_id(number, query)))

    def versions(self, subject: str, query: Mapping[str, str], **_: Any) -> Any:
        return [each.version for each in self._versions(subject, deleted=_yes(query, "deleted"))]

    def version(self, subject: str, version: str, query: Mapping[str, str], **_: Any) -> Any:
        return _described(self._version(subject, version, deleted=_yes(query, "deleted")))

    def version_text(self, subject: str, version: str, query: Mapping[str, str], **_: Any) -> Any:
        return _Text(self._version(subject, version, deleted=_yes(query, "deleted")).text)

    def referenced_by(self, subject: str, version: str, **_: Any) -> Any:
        wanted = self._version(subject, version)
        return [
            each.id
            for name in self._store.subjects()
            for each in self._store.versions(name)
            if any((ref.subject, ref.version) == (wanted.subject, wanted.version) for ref in each.references)
        ]

    def look_up(self, subject: str, query: Mapping[str, str], body: Any) -> Any:
        kind, text, references, _ = self._proposed(body)
        for each in self._versions(subject, deleted=_yes(query, "deleted")):
            if (each.kind, each.text, each.references) == (kind, text, references):
                return _described(each)
        raise ApiError(40403, "Schema not found")

    def register(self, subject: str, body: Any, **_: Any) -> Any:
        kind, text, references, known = self._proposed(body)
        present = self._store.versions(subject)
        for each in present:
            if (each.kind, each.text, each.references) == (kind, text, references):
                return {"id": each.id}
        level = self._level(subject)
        against = present if level.endswith("_TRANSITIVE") else present[-1:]
        for each in reversed(against):
            found = conflicts(
                kind, level, (each.kind, each.text, self._known(each.references)), (text, known)
            )
            if found:
                raise ApiError(
                    409,
                    f'Schema being registered is incompatible with version {each.version} of subject "{subject}" '
                    f"under {level}: {'. '.join(found)}",
                )
        return {"id": self._store.add(subject, kind, text, references)}

    def compatible(
        self, subject: str, version: str | None = None, *, query: Mapping[str, str], body: Any
    ) -> Any:
        kind, text, _, known = self._proposed(body)
        level = self._level(subject)
        if version is None:
            present = self._store.versions(subject)
            against = present if level.endswith("_TRANSITIVE") else present[-1:]
        else:
            against = [self._version(subject, version)]
        found = [
            conflict
            for each in against
            for conflict in conflicts(
                kind, level, (each.kind, each.text, self._known(each.references)), (text, known)
            )
        ]
        return {"is_compatible": not found, **({"messages": found} if _yes(query, "verbose") else {})}

    def delete_subject(self, subject: str, query: Mapping[str, str], **_: Any) -> Any:
        permanent = _yes(query, "permanent")
        versions = self._versions(subject, deleted=permanent)
        if permanent and not all(each.deleted for each in versions):
            raise ApiError(
                40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
            )
        for each in versions:
            self._store.delete(subject, each.version, permanent=permanent)
        self._store.set_compatibility(subject, None)
        return [each.version for each in versions]

    def delete_version(self, subject: str, version: str, query: Mapping[str, str], **_: Any) -> Any:
        permanent = _yes(query, "permanent")
        found = self._version(subject, version, deleted=permanent)
        if permanent and not found.deleted:
            raise ApiError(
                40407,
                f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted",
            )
        if self.referenced_by(subject, version) if not permanent else False:
            raise ApiError(42206, f"One or more references exist to the schema {subject} version {version}")
        self._store.delete(subject, found.version, permanent=permanent)
        return found.version

    def level(self, subject: str = "", *, query: Mapping[str, str], **_: Any) -> Any:
        level = self._store.compatibility(subject)
        if level is None and subject and not _yes(query, "defaultToGlobal"):
            raise ApiError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")
        return {"compatibilityLevel": level or self._level(subject)}

    def set_level(self, subject: str = "", *, body: Any, **_: Any) -> Any:
        given = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
        level = str(given.get("compatibility") or "").upper()
        if level not in LEVELS:
            raise ApiError(42203, f"Invalid compatibility level. Valid values are {', '.join(LEVELS)}")
        self._store.set_compatibility(subject, level)
        return {"compatibility": level}

    def delete_level(self, subject: str = "", **_: Any) -> Any:
        level = self._store.compatibility(subject)
        if level is None and subject:
            raise ApiError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")
        self._store.set_compatibility(subject, None)
        return {"compatibilityLevel": level or self._level(subject)}

    def mode(self, *_: str, **__: Any) -> Any:
        return {"mode": "READWRITE"}

    def kinds(self, **_: Any) -> Any:
        return list(KINDS)

    def nothing(self, **_: Any) -> Any:
        return {}

    def _level(self, subject: str) -> str:
        return self._store.compatibility(subject) or self._store.compatibility("") or "BACKWARD"

    def _with_id(self, number: str) -> Version:
        found = self._store.schema(int(number)) if len(number) < 16 else None
        if found is None:
            raise ApiError(40403, f"Schema {number} not found")
        return found

    def _versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        found = self._store.versions(subject, deleted=deleted)
        if not found:
            raise no_subject(subject)
        return found

    def _version(self, subject: str, version: str, *, deleted: bool = False) -> Version:
        if version not in ("latest", "-1") and not (
            version.isdecimal() and 1 <= int(version[:12]) <= _LARGEST_VERSION
        ):
            raise ApiError(
                42202,
                f"The specified version '{version}' is not a valid version id: a number from 1, or latest",
            )
        versions = self._versions(subject, deleted=deleted)
        if version in ("latest", "-1"):
            return versions[-1]
        for each in versions:
            if each.version == int(version):
                return each
        raise ApiError(40402, f"Version {version} not found.")

    def _proposed(self, body: Any) -> tuple[str, str, tuple[Reference, ...], Known]:
        if not isinstance(body, dict) or not isinstance(body.get("schema"), str):  # pyright: ignore
            raise ApiError(42201, 'Empty schema: send {"schema": "…"} with the schema as text')
        given = cast("dict[str, Any]", body)
        kind = str(given.get("schemaType") or "AVRO").upper()
        if kind not in KINDS:
            raise ApiError(42201, f"Invalid schema type {kind}: this registry takes {' and '.join(KINDS)}")
        # By number: a schema that refers to the latest version of its own subject would refer to itself.
        references = tuple(map(self._numbered, _references(given.get("references"))))
        known = self._known(references)
        try:
            return kind, canonical(kind, given["schema"], known), references, known
        except InvalidSchemaError as error:
            raise ApiError(42201, f"Invalid {kind} schema: {error}") from None

    def _known(self, references: tuple[Reference, ...]) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in references:
            version = self._referred(each)
            found |= self._known(version.references) | {each.name: version.text}
        return found

    def _numbered(self, reference: Reference) -> Reference:
        return replace(reference, version=self._referred(reference).version)

    def _referred(self, reference: Reference) -> Version:
        subject, version = reference.subject, reference.version
        try:
            return self._version(subject, str(version), deleted=True)
        except ApiError:
            raise ApiError(
                42201, f"No schema reference found for subject '{subject}' and version {version}"
            ) from None


class _Text(str):
    """A response that is sent as plain text."""


def _described(version: Version) -> dict[str, Any]:
    references = [
        {"name": each.name, "subject": each.subject, "version": each.version} for each in version.references
    ]
    return {
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
        # Like Confluent's, it omits the type for Avro.
        **({} if version.kind == "AVRO" else {"schemaType": version.kind}),
        **({"references": references} if references else {}),
        "schema": version.text,
    }


def _references(given: Any) -> tuple[Reference, ...]:
    try:
        return tuple(
            Reference(_text(each["name"]), _text(each["subject"]), int(each["version"]))
            for each in given or ()
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ApiError(42201, "Invalid references: each has a name, a subject and a version") from None


def _text(given: Any) -> str:
    return str(given).encode().decode()  # ValueError for half of a surrogate pair, which an escape can say


def _yes(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() == "true"


Function = Callable[..., Any]


def _route(method: str, path: str, function: Function) -> tuple[str, re.Pattern[str], Function]:
    return method, re.compile(path.replace("{n}", r"(\d+)").replace("{s}", r"([^/]+)") + "/?"), function


_ROUTES = [
    _route("GET", "", Api.nothing),
    _route("GET", "/schemas/types", Api.kinds),
    _route("GET", "/schemas", Api.schemas),
    _route("GET", "/schemas/ids/{n}", Api.schema),
    _route("GET", "/schemas/ids/{n}/schema", Api.schema_text),
    _route("GET", "/schemas/ids/{n}/versions", Api.versions_of_id),
    _route("GET", "/schemas/ids/{n}/subjects", Api.subjects_of_id),
    _route("GET", "/subjects", Api.subjects),
    _route("POST", "/subjects/{s}", Api.look_up),
    _route("DELETE", "/subjects/{s}", Api.delete_subject),
    _route("GET", "/subjects/{s}/versions", Api.versions),
    _route("POST", "/subjects/{s}/versions", Api.register),
    _route("GET", "/subjects/{s}/versions/{s}", Api.version),
    _route("DELETE", "/subjects/{s}/versions/{s}", Api.delete_version),
    _route("GET", "/subjects/{s}/versions/{s}/schema", Api.version_text),
    _route("GET", "/subjects/{s}/versions/{s}/referencedby", Api.referenced_by),
    _route("POST", "/compatibility/subjects/{s}/versions/{s}", Api.compatible),
    _route("POST", "/compatibility/subjects/{s}/versions", Api.compatible),
    _route("GET", "/config", Api.level),
    _route("PUT", "/config", Api.set_level),
    _route("DELETE", "/config", Api.delete_level),
    _route("GET", "/config/{s}", Api.level),
    _route("PUT", "/config/{s}", Api.set_level),
    _route("DELETE", "/config/{s}", Api.delete_level),
    _route("GET", "/mode", Api.mode),
    _route("GET", "/mode/{s}", Api.mode),
]
