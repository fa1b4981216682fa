"""A shared registry has schemas of other formats too: a record with the id of one is a dead letter, and no more."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from gearshift.connection import Connection
from gearshift.definitions import Location, Topic
from gearshift.errors import DecodeError, SchemaError
from gearshift.schemas import Decoder, Registry, pack
from gearshift.schemas.debezium.avro import AvroReader
from gearshift.schemas.encoding import Misfit

ANSWER = {"schema": 'syntax = "proto3"; message Reading { string meter_id = 1; }', "schemaType": "PROTOBUF"}


@dataclass
class Reading:
    meter_id: str


class Shared(BaseHTTPRequestHandler):
    """Answers as a registry that another team keeps Protobuf in."""

    def do_GET(self) -> None:
        latest = {**ANSWER, "subject": "readings-value", "version": 1, "id": 7}
        body = json.dumps([1] if self.path.endswith("/versions") else latest).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    with HTTPServer(("127.0.0.1", 0), Shared) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            with Registry(Connection(bootstrap_servers="127.0.0.1:9", registry_url=url)) as registry:
                yield registry
        finally:
            server.shutdown()
            thread.join()


def test_a_record_of_another_format_cannot_be_decoded(registry: Registry) -> None:
    topic = Topic(name="readings", value=Reading, key=None, partitions=1, defined_at=Location(__file__, 1))
    with pytest.raises(DecodeError, match="schema 7 is protobuf, but the topic is avro"):
        Decoder(topic, registry)(pack(7, b"\x00\x0a\x02m1"))
    with pytest.raises(Misfit, match="schema 7 is not Avro"):
        AvroReader(registry)(pack(7, b"\x00"))


def test_a_subject_of_another_format_is_refused_by_its_name(registry: Registry) -> None:
    with pytest.raises(SchemaError, match="schema 7 is protobuf; use Avro or JSON Schema"):
        registry.versions("readings-value")
