"""A client for Confluent-compatible schema registries."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

from gearshift.errors import IncompatibleSchemaError, RegistryUnreachableError, SchemaError
from gearshift.schemas.comparing import changes_between
from gearshift.schemas.external import readable, unlike, writable
from gearshift.schemas.json.schema import keeping, without_former
from gearshift.schemas.payloads import codec

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    from gearshift.connection import Connection
    from gearshift.definitions import Format, Topic

T = TypeVar("T")
_TYPES: Mapping[Format, str] = {"avro": "AVRO", "json": "JSON"}
_ANSWER_WITHIN = 10.0  # seconds, as httpx takes them


@dataclass(frozen=True, slots=True)
class Schema:
    """A registered schema."""

    id: int
    text: str
    format: Format
    """Or another word, such as protobuf, for a schema that no topic of an app has."""


class Registry:
    """Registers the schemas of topics and looks up the schemas of records."""

    def __init__(self, connection: Connection) -> None:
        # Imported here because it takes a quarter of a second.
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self.url = without_secrets(connection.registry_url)
        properties: dict[str, Any] = {
            "url": connection.registry_url,
            "timeout": _ANSWER_WITHIN,
            "max.retries": 0,
            **connection.registry,
        }
        try:
            self._client: SchemaRegistryClient = SchemaRegistryClient(properties)
        except Exception as error:
            raise SchemaError(
                f"invalid settings for the registry at {self.url}: {_redacted(str(error), connection)}",
                hint="check [registry] in gearshift.toml",
            ) from None
        self._connection = connection
        self._by_id: dict[int, Schema] = {}

    def ping(self) -> None:
        """Return if the registry answers; otherwise raise RegistryUnreachableError."""
        self._request(self._client.get_config)

    def register(self, topic: Topic) -> int:
        """The id of the topic's schema, which is registered if it is new.

        Raises IncompatibleSchemaError, before anything is registered, for a change that the subject's compatibility
        forbids. For an external topic it is the id of a schema that its owner registered.
        """
        if topic.external:
            return self._external_id(topic)
        known = self.versions(topic.subject)
        newest = list(known.values())[-1:]
        text = _text(topic, newest)
        found = _id_of(text, known)
        if found is not None:
            return found
        if known:
            self._require_compatible(topic, text, list(known.values()))
        try:
            schema_id = self._request(
                lambda: self._client.register_schema(topic.subject, self._schema(text, topic.format)),
                topic=topic.name,
            )
        except IncompatibleSchemaError:
            # Another process may have registered the same schema in the meantime.
            found = _id_of(text, self.versions(topic.subject))
            if found is None:
                raise
            schema_id = found
        if not known and self.compatibility(topic.subject) != topic.compatibility:
            # Only for a new subject: an existing setting of its owner is not changed.
            self._request(
                lambda: self._client.set_compatibility(topic.subject, topic.compatibility), topic=topic.name
            )
        return schema_id

    def require_readable(self, topic: Topic) -> None:
        """Raise unless every version of an external topic's schema can be read as the declared values."""
        for schema in self._external_versions(topic).values():
            reason = readable(topic, schema.format, schema.text)
            if reason is not None:
                raise IncompatibleSchemaError(
                    f"records of schema {schema.id} of {topic.subject} cannot be read as {topic.value.__name__}: {reason}",
                    hint=f"change {topic.value.__name__}: give a default to fields that may be missing, and | None to "
                    "fields that may be null",
                    topic=topic.name,
                    file=topic.defined_at.file,
                    line=topic.defined_at.line,
                )

    def versions(self, subject: str) -> dict[int, Schema]:
        """All versions of a subject by schema id, oldest first; empty if it does not exist."""
        return {schema.id: schema for schema in self.numbered(subject).values()}

    def numbered(self, subject: str) -> dict[int, Schema]:
        """All versions of a subject by version number, oldest first; empty if it does not exist."""
        found = {number: self.version(subject, number) for number in self.version_numbers(subject)}
        for schema in found.values():
            if schema.format not in _TYPES:
                raise SchemaError(f"schema {schema.id} is {schema.format}", hint="use Avro or JSON Schema")
        return found

    def version_numbers(self, subject: str) -> list[int]:
        """The numbers of a subject's versions, oldest first; empty if it does not exist."""
        return self._request(lambda: self._client.get_versions(subject), missing=list[int]())

    def version(self, subject: str, number: int) -> Schema:
        """One version of a subject; in a shared registry it may be of another format."""
        registered = self._request(lambda: self._client.get_version(subject, number))
        if registered.schema_id is None:
            raise SchemaError(f"the registry at {self.url} returned no id for version {number} of {subject}")
        return _as_schema(registered.schema_id, registered.schema)

    def subjects(self) -> list[str]:
        """The names of all subjects."""
        return sorted(self._request(self._client.get_subjects))

    def compatibility(self, subject: str) -> str:
        """The compatibility level of a subject, or else the registry's default."""
        own: str | None = self._request(lambda: self._client.get_compatibility(subject), missing=None)
        return own or self._request(self._client.get_compatibility, missing="BACKWARD")

    def schema(self, schema_id: int) -> Schema | None:
        """The schema with this id; None if it is not registered. In a shared registry it may be of another format."""
        if schema_id not in self._by_id:
            found: Any = self._request(lambda: self._client.get_schema(schema_id), missing=None)
            if found is None:
                return None
            self._by_id[schema_id] = _as_schema(schema_id, found)
        return self._by_id[schema_id]

    def delete(self, subject: str) -> None:
        """Delete a subject with all its versions."""
        self._request(lambda: self._client.delete_subject(subject), missing=list[int]())
        self._client.clear_caches()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _schema(self, text: str, format: Format) -> Any:  # noqa: A002 - the word users know
        from confluent_kafka.schema_registry import Schema as Registered

        return Registered(text, _TYPES[format])

    def _external_versions(self, topic: Topic) -> dict[int, Schema]:
        known = self.versions(topic.subject)
        if not known:
            raise SchemaError(
                f"the registry at {self.url} has no schema for {topic.subject}, which is declared with external=True",
                hint="ask its owner to register one, or remove external=True to register it",
                topic=topic.name,
                file=topic.defined_at.file,
                line=topic.defined_at.line,
            )
        return known

    def _external_id(self, topic: Topic) -> int:
        known = self._external_versions(topic)
        found = writable(topic, [(each.id, each.format, each.text) for each in known.values()])
        if found is not None:
            return found
        newest = list(known.values())[-1]
        raise IncompatibleSchemaError(
            f"{topic.value.__name__} matches no version of {topic.subject}; the newest is schema "
            f"{newest.id}: {unlike(topic, newest.format, newest.text)}",
            hint=f"declare the fields of schema {newest.id} in the same order, with the same types",
            topic=topic.name,
            file=topic.defined_at.file,
            line=topic.defined_at.line,
        )

    def _require_compatible(self, topic: Topic, text: str, known: list[Schema]) -> None:
        levels = {topic.compatibility, self.compatibility(topic.subject)}
        for level in sorted(levels - {"NONE"}):
            for old in known if level.endswith("_TRANSITIVE") else known[-1:]:
                # Our comparison names the field, and detects changes of logical types, which registries ignore.
                breaking = [
                    each
                    for each in changes_between(old.format, old.text, topic.format, text)
                    if each.breaks(level)
                ]
                if breaking:
                    raise IncompatibleSchemaError(
                        f"the new {topic.value.__name__} is not {level} compatible with schema {old.id}: "
                        + ". ".join(str(change) for change in breaking),
                        hint=_incompatible_hint(old, topic, level),
                        topic=topic.name,
                        file=topic.defined_at.file,
                        line=topic.defined_at.line,
                    )

    def _rejected(self, topic: str | None, reason: str) -> IncompatibleSchemaError:
        return IncompatibleSchemaError(
            f"the registry rejected the new schema: {reason}",
            hint="give new fields defaults, and keep the names and types of the others",
            topic=topic,
        )

    def _request(self, request: Callable[[], T], *, missing: Any = ..., topic: str | None = None) -> T:
        """Send a request; `missing` is returned for 404, if given."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return request()
        except SchemaRegistryError as error:
            status = error.http_status_code
            if status == 404 and missing is not ...:
                return cast("T", missing)
            reason = _redacted(str(error.error_message), self._connection)
        except Exception as error:  # any error of the HTTP client; its message may contain the password
            raise RegistryUnreachableError(
                f"no schema registry answers at {self.url} ({type(error).__name__})", hint=_hint(self.url)
            ) from None
        if status in (409, 422) and topic is not None:
            raise self._rejected(topic, reason)
        if status in (401, 403):
            raise SchemaError(
                f"authentication to the registry at {self.url} failed ({status})",
                hint="check registry.basic.auth.user.info in gearshift.toml",
                topic=topic,
            )
        if status >= 500:
            raise RegistryUnreachableError(
                f"the schema registry at {self.url} failed ({status}: {reason})",
                hint="check the registry's log",
            )
        raise SchemaError(
            f"the registry at {self.url} answered {status}: {reason}",
            hint="check that it is a Confluent-compatible registry",
            topic=topic,
        )


def _text(topic: Topic, newest: list[Schema]) -> str:
    """The schema to register for the topic."""
    ours = codec(topic.value, topic.format)
    if topic.format == "json" and newest and newest[0].format == "json":
        return json.dumps(keeping(ours.schema, json.loads(newest[0].text)), separators=(",", ":"))
    return ours.schema_text


def _id_of(text: str, known: Mapping[int, Schema]) -> int | None:
    wanted = without_former(json.loads(text))
    found = [schema.id for schema in known.values() if without_former(json.loads(schema.text)) == wanted]
    return found[-1] if found else None


def _incompatible_hint(old: Schema, topic: Topic, level: str) -> str | None:
    if _foreign(old, topic):
        return "declare the topic with external=True if another team owns it"
    if level != topic.compatibility:
        return f"change the compatibility of {topic.subject} in the registry, where it is set to {level}"
    return None


def _foreign(old: Schema, topic: Topic) -> bool:
    """Whether a schema was not registered by gearshift, which uses no namespaces and the class name as title."""
    schema = json.loads(old.text)
    if not isinstance(schema, dict) or old.format != topic.format:
        return True
    theirs = cast("dict[str, Any]", schema)
    if old.format == "json":
        return theirs.get("title") != topic.value.__name__
    return "namespace" in theirs or theirs.get("name") != topic.value.__name__


def _as_schema(schema_id: int, found: Any) -> Schema:
    kind: Any = (found.schema_type or "AVRO").lower()  # Confluent omits the type for Avro
    return Schema(schema_id, found.schema_str or "", kind)


def without_secrets(url: str) -> str:
    """The URL without user and password.

    >>> without_secrets("https://me:hunter2@registry.example:8081/apis")
    'https://registry.example:8081/apis'
    """
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _redacted(text: str, connection: Connection) -> str:
    text = text.replace(connection.registry_url, without_secrets(connection.registry_url))
    for value in connection.registry.values():
        for secret in (value, value.partition(":")[2]):
            if secret:
                text = text.replace(secret, "***")
    return text


def _hint(url: str) -> str:
    host = urlsplit(url).hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    return 'try "gearshift up"' if local else "check registry_url in gearshift.toml"
