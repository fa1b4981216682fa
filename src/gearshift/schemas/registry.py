"""The client of a Confluent-compatible schema registry."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

from gearshift.errors import IncompatibleSchemaError, RegistryUnreachableError, SchemaError
from gearshift.schemas.differences import Change, changes
from gearshift.schemas.json_differences import json_changes
from gearshift.schemas.payloads import codec

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    from gearshift.connection import Connection
    from gearshift.definitions import Format, Topic

T = TypeVar("T")
_TYPES: Mapping[Format, str] = {"avro": "AVRO", "json": "JSON"}
_ANSWER_WITHIN = 10.0  # seconds; httpx wants a number


@dataclass(frozen=True, slots=True)
class Schema:
    """A registered schema."""

    id: int
    text: str
    format: Format


class Registry:
    """Registers the schemas of topics and finds the schemas of records."""

    def __init__(self, connection: Connection) -> None:
        # A quarter of a second of imports that only those pay who open a registry.
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
                f"the settings of the registry at {self.url} are refused: {_redacted(str(error), connection)}",
                hint="see [registry] in gearshift.toml",
            ) from None
        self._connection = connection
        self._by_id: dict[int, Schema] = {}

    def ping(self) -> None:
        """Return if the registry answers; raise RegistryUnreachableError if not."""
        self._ask(self._client.get_config)

    def register(self, topic: Topic) -> int:
        """The id of the topic's schema, registered now if it is new.

        A change that the topic's compatibility forbids raises before anything is registered.
        """
        text = codec(topic.value, topic.format).schema_text
        known = self.versions(topic.subject)
        if known:
            self._set_compatibility(topic)
            found = _id_of(text, known)
            if found is not None:
                return found
            self._refuse_incompatible(topic, text, list(known.values()))
        try:
            schema_id = self._ask(
                lambda: self._client.register_schema(topic.subject, self._schema(text, topic.format)),
                topic=topic.name,
            )
        except IncompatibleSchemaError:
            # Another process may have registered the very same schema between our look and our call.
            found = _id_of(text, self.versions(topic.subject))
            if found is None:
                raise
            schema_id = found
        if not known:
            # Some registries know no settings of a subject that has no versions yet.
            self._set_compatibility(topic)
        return schema_id

    def versions(self, subject: str) -> dict[int, Schema]:
        """Every registered version of a subject, oldest first, by schema id; empty if there is none."""
        found: dict[int, Schema] = {}
        for version in self._ask(lambda: self._client.get_versions(subject), missing=list[int]()):
            registered = self._ask(lambda version=version: self._client.get_version(subject, version))
            if registered.schema_id is None:
                raise SchemaError(f"the registry at {self.url} gives version {version} of {subject} no id")
            found[registered.schema_id] = _as_schema(registered.schema_id, registered.schema)
        return found

    def schema(self, schema_id: int) -> Schema | None:
        """The schema with this id, or None if the registry has none."""
        if schema_id not in self._by_id:
            found: Any = self._ask(lambda: self._client.get_schema(schema_id), missing=None)
            if found is None:
                return None
            self._by_id[schema_id] = _as_schema(schema_id, found)
        return self._by_id[schema_id]

    def delete(self, subject: str) -> None:
        """Forget a subject and all its versions."""
        self._ask(lambda: self._client.delete_subject(subject), missing=list[int]())
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

    def _set_compatibility(self, topic: Topic) -> None:
        present = self._ask(lambda: self._client.get_compatibility(topic.subject), missing=None)
        if present != topic.compatibility:
            self._ask(
                lambda: self._client.set_compatibility(topic.subject, topic.compatibility), topic=topic.name
            )

    def _refuse_incompatible(self, topic: Topic, text: str, known: list[Schema]) -> None:
        if topic.compatibility == "NONE":
            return
        against = known if topic.compatibility.endswith("_TRANSITIVE") else known[-1:]
        for old in against:
            # Ours first: it names the field, and it sees changes of logical types, which registries pass over.
            breaking = [each for each in _changes(old, text, topic) if each.breaks(topic.compatibility)]
            if breaking:
                raise IncompatibleSchemaError(
                    f"the new {topic.value.__name__} is not {topic.compatibility} compatible with schema {old.id}: "
                    + ". ".join(str(change) for change in breaking),
                    topic=topic.name,
                    file=topic.defined_at.file,
                    line=topic.defined_at.line,
                )
        compatible = self._ask(
            lambda: self._client.test_compatibility(topic.subject, self._schema(text, topic.format)),
            topic=topic.name,
        )
        if not compatible:
            raise self._refused(topic.name, "the registry says so, without a reason")

    def _refused(self, topic: str | None, reason: str) -> IncompatibleSchemaError:
        return IncompatibleSchemaError(
            f"the registry refuses the new schema: {reason}",
            hint="add fields with defaults, and keep the names and types of the others",
            topic=topic,
        )

    def _ask(self, question: Callable[[], T], *, missing: Any = ..., topic: str | None = None) -> T:
        """The registry's answer; `missing` stands for "not found" where that is an answer."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return question()
        except SchemaRegistryError as error:
            status = error.http_status_code
            if status == 404 and missing is not ...:
                return cast("T", missing)
            words = _redacted(str(error.error_message), self._connection)
        except (
            Exception
        ) as error:  # whatever the HTTP client raises; its words may hold the URL with its password
            raise RegistryUnreachableError(
                f"no schema registry answers at {self.url} ({type(error).__name__})", hint=_hint(self.url)
            ) from None
        if status in (409, 422) and topic is not None:
            raise self._refused(topic, words)
        if status in (401, 403):
            raise SchemaError(
                f"the registry at {self.url} refuses these credentials ({status})",
                hint="see registry.basic.auth.user.info in gearshift.toml",
                topic=topic,
            )
        if status >= 500:
            raise RegistryUnreachableError(
                f"the schema registry at {self.url} fails ({status}: {words})", hint="see its log"
            )
        raise SchemaError(
            f"the registry at {self.url} answers {status}: {words}",
            hint="is it a Confluent-compatible registry?",
            topic=topic,
        )


def _id_of(text: str, known: Mapping[int, Schema]) -> int | None:
    wanted = json.loads(text)
    return next((schema.id for schema in known.values() if json.loads(schema.text) == wanted), None)


def _changes(old: Schema, text: str, topic: Topic) -> list[Change]:
    if old.format != topic.format:
        what = f"the format changed from {old.format} to {topic.format}"
        return [Change("", what, f"keep {old.format}, or declare a new topic", True, True)]
    before, after = json.loads(old.text), json.loads(text)
    return changes(before, after) if topic.format == "avro" else list(json_changes(before, after))


def _as_schema(schema_id: int, found: Any) -> Schema:
    kind = (found.schema_type or "AVRO").upper()  # Confluent leaves the type out where it is Avro
    if kind not in _TYPES.values():
        raise SchemaError(f"schema {schema_id} is {kind}", hint="supported are Avro and JSON Schema")
    return Schema(schema_id, found.schema_str or "", "avro" if kind == "AVRO" else "json")


def without_secrets(url: str) -> str:
    """The URL without user and password.

    >>> without_secrets("https://me:hunter2@registry.example:8081/apis")
    'https://registry.example:8081/apis'
    """
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _redacted(words: str, connection: Connection) -> str:
    words = words.replace(connection.registry_url, without_secrets(connection.registry_url))
    for value in connection.registry.values():
        for secret in (value, value.partition(":")[2]):
            if secret:
                words = words.replace(secret, "***")
    return words


def _hint(url: str) -> str:
    host = urlsplit(url).hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    return 'try "gearshift up"' if local else "check registry_url in gearshift.toml"
