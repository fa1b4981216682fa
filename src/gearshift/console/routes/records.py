"""Records of a topic: an excerpt, those that arrive, and one that a person writes."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from gearshift.console.console import Console, Here
from gearshift.console.describing import declared_topics
from gearshift.console.events import EVENTS, stream
from gearshift.console.filters import record_filter, require_pair
from gearshift.console.inputs import (
    LARGEST_OFFSET,
    EqualsQuery,
    FieldQuery,
    KeyQuery,
    PartitionNumber,
    PartitionQuery,
    Text,
    TopicPath,
    require_json,
)
from gearshift.console.problems import Refusal
from gearshift.console.records import answer, arriving, json_of
from gearshift.errors import EncodeError, ProduceError, SchemaError, SettingsError, TopicError
from gearshift.schemas.encoding import Misfit
from gearshift.schemas.fields import fields, readable_default
from gearshift.schemas.printing import Printer
from gearshift.schemas.registry_client import Registry, Schema
from gearshift.topics.admin import Admin
from gearshift.topics.browsing import Begin
from gearshift.topics.encoders import Encoders, Header, Record
from gearshift.topics.excerpt import excerpt
from gearshift.topics.placements import PlacedReceipt
from gearshift.topics.producer import Producer

router = APIRouter(tags=["records"])

_DELIVER_WITHIN = timedelta(seconds=10)
_NEWEST = "-100"


class NewRecord(BaseModel):
    """A record to send."""

    key: Any = None
    """Text, or JSON that fits the schema of keys; null for the declared key field, if the topic has one."""
    value: Any = Field()
    """JSON that fits the latest schema; null for a tombstone."""
    headers: Annotated[dict[Text, Text], Field(max_length=100)] = {}
    partition: PartitionNumber = None


@router.get("/api/topics/{topic}/records")
def records(
    topic: TopicPath,
    console: Here,
    start: Annotated[
        str | None,
        Query(
            alias="from",
            min_length=1,
            max_length=64,
            description="earliest, latest, a time with a UTC offset, or -N for the last N records; default: -100",
        ),
    ] = None,
    partition: PartitionQuery = None,
    offset: Annotated[int | None, Query(ge=0, le=LARGEST_OFFSET)] = None,
    key: KeyQuery = None,
    field: FieldQuery = None,
    equals: EqualsQuery = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Records from a place on, or the last of the topic: decoded, the newest last."""
    require_pair(field, equals)
    if offset is not None and start is not None:
        raise SettingsError("from and offset exclude each other", hint="send one of them")
    begin = Begin.parse(_NEWEST if start is None else start) if offset is None else offset
    with Printer.of(console.connection) as printer:
        found = excerpt(
            console.connection,
            topic,
            begin,
            limit=limit,
            partition=partition,
            wanted=record_filter(printer, key, field, equals),
        )
        return Response(answer(found, printer), media_type="application/json")


@router.get("/api/topics/{topic}/tail", response_class=StreamingResponse, responses=EVENTS)
def tail(
    topic: TopicPath,
    console: Here,
    partition: PartitionQuery = None,
    key: KeyQuery = None,
    field: FieldQuery = None,
    equals: EqualsQuery = None,
) -> StreamingResponse:
    """Server-sent events with the records that arrive from now on; of very many, only some."""
    require_pair(field, equals)
    with Admin(console.connection) as admin:
        admin.require([topic])[topic].require_partition(partition)
        ends = admin.end_offsets([topic])
    start = {place: end for place, end in ends.items() if partition in (None, place[1])}

    def wanted(printer: Printer) -> Any:
        return record_filter(printer, key, field, equals)

    return stream(arriving(console.connection, start, wanted, lambda: console.live.closing))


@router.get("/api/topics/{topic}/form")
def form(topic: TopicPath, console: Here) -> Response:
    """The fields of a topic's latest schema, and which of them is the key."""
    with Admin(console.connection) as admin:
        admin.require([topic])
    with Registry(console.connection) as registry:
        numbers = registry.version_numbers(f"{topic}-value")
        if not numbers:
            raise Refusal(404, SchemaError("the topic has no registered schema", topic=topic))
        schema = registry.version(f"{topic}-value", max(numbers))
    if schema.format not in ("avro", "json"):
        raise SchemaError(f"schema {schema.id} is {schema.format}, which is not supported", topic=topic)
    found = {
        "schema_id": schema.id,
        "format": schema.format,
        "key_field": _key_field(console, topic),
        "fields": _fields(schema, topic),
    }
    return Response(json_of(found), media_type="application/json")


@router.post("/api/topics/{topic}/records")
def produce(topic: TopicPath, given: NewRecord, console: Here) -> dict[str, int]:
    """Send a record, encoded with the topic's latest schema."""
    require_json(given.value, "value")
    require_json(given.key, "key")
    with Admin(console.connection) as admin:
        admin.require([topic])[topic].require_partition(given.partition)
        if topic.startswith("__"):
            raise TopicError("Kafka's own topics are not written to", topic=topic)
        largest = admin.largest_record(topic)
    encoders = Encoders.of(console.connection, topic)
    record = _encoded(given, encoders, _key_field(console, topic), topic)
    record.require_at_most(largest)
    receipt = PlacedReceipt()
    try:
        with Producer(console.connection, largest=largest, deliver_within=_DELIVER_WITHIN) as producer:
            producer.send_bytes(
                topic,
                record.value,
                key=record.key,
                headers=record.headers,
                receipt=receipt,
                partition=given.partition,
            )
            producer.await_reports(receipt)
    except ProduceError as error:
        raise Refusal(503 if _size(record) < largest else 400, error) from None
    [placed] = receipt.placements
    return {"partition": placed.partition, "offset": placed.first}


def _fields(schema: Schema, topic: str) -> list[dict[str, Any]]:
    try:
        document = json.loads(schema.text)
        return [
            {
                "name": each.name,
                "type": each.type,
                "required": each.required,
                "default": readable_default(schema.format, document, each),
            }
            for each in fields(schema.format, document)
        ]
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
    ):  # registries accept almost any text
        raise SchemaError(f"schema {schema.id} cannot be read", topic=topic) from None


def _encoded(given: NewRecord, encoders: Encoders, key_field: str | None, topic: str) -> Record:
    headers: list[Header] = [(name, text.encode()) for name, text in given.headers.items()]
    for name, _ in headers:
        if not name or "\0" in name:
            raise EncodeError("headers: a name is empty or contains a zero byte", topic=topic)
    try:
        value = None if given.value is None else encoders.encoded(given.value)
        if given.key is not None:
            key = _key(given.key, encoders)
        elif key_field is not None and given.value is not None:
            key = encoders.key_of(given.value, key_field)
        else:
            key = None
    except (Misfit, RecursionError) as misfit:
        raise EncodeError(
            str(misfit) or "the value is nested too deeply",
            hint="the topic's page shows its schema",
            topic=topic,
        ) from None
    return Record(value, key, headers)


def _size(record: Record) -> int:
    """The bytes that a record takes in its topic, rather too many than too few."""
    headers = sum(len(name.encode()) + len(value or b"") + 10 for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + 200


def _key(datum: Any, encoders: Encoders) -> bytes:
    """Text is the key itself if the topic has no schema for keys."""
    if encoders.key is None and isinstance(datum, str):
        return datum.encode()
    try:
        return encoders.encoded_key(datum)
    except Misfit as misfit:
        raise misfit.inside("key") from None


def _key_field(console: Console, topic: str) -> str | None:
    if console.running is None:
        return None
    declared = declared_topics(console.running.app.graph).get(topic)
    return declared.key if declared is not None else None
