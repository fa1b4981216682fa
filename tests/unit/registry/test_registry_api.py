"""The registry as clients use it: Confluent's API over HTTP, in a separate process."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from hypothesis import HealthCheck, given, settings

from gearshift.errors import StackError
from gearshift.stack.processes import service as processes
from gearshift.stack.services.registry import Registry
from gearshift.stack.services.tokens import client_properties, read_token
from tests.support import closed_port, eventually

STRING, LONG = '{"type": "string"}', '"long"'
USER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}
WIDER = {**USER, "fields": [*USER["fields"], {"name": "name", "type": "string", "default": ""}]}
NARROW = {**USER, "fields": [*USER["fields"], {"name": "name", "type": "string"}]}

Ask = Callable[..., tuple[int, Any]]


class Running:
    """A registry that runs, is killed and runs again."""

    def __init__(self, folder: Path) -> None:
        self.registry = Registry(folder=folder / "registry", logs=folder / "logs", port=closed_port())
        self.start()

    def start(self) -> None:
        (service,) = self.registry.services()
        self.process = processes.start(service)
        eventually(service.ready)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def ask(self, method: str, path: str, body: Any = None, token: str | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.registry.port, timeout=30)
        text = body if isinstance(body, str | None) else json.dumps(body)
        shown = read_token(self.registry.folder) if token is None else token
        connection.request(method, path, body=text, headers={"Authorization": f"Bearer {shown}"})
        answer = connection.getresponse()
        found = answer.status, json.loads(answer.read())
        connection.close()
        return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    found = Running(tmp_path_factory.mktemp("registry"))
    yield found
    found.kill()


@pytest.fixture
def ask(running: Running) -> Ask:
    return running.ask


def schema(value: Any, kind: str = "AVRO", **more: Any) -> dict[str, Any]:
    return {"schema": value if isinstance(value, str) else json.dumps(value), "schemaType": kind, **more}


def test_versions_are_registered_found_and_looked_up(ask: Ask, unique: str) -> None:
    status, first = ask("POST", f"/subjects/{unique}/versions", schema(USER))
    assert status == 200
    assert ask("POST", f"/subjects/{unique}/versions", schema(json.dumps(USER, indent=3))) == (200, first)
    _, second = ask("POST", f"/subjects/{unique}/versions", schema(WIDER))
    assert ask("GET", f"/subjects/{unique}/versions") == (200, [1, 2])
    _, latest = ask("GET", f"/subjects/{unique}/versions/latest")
    assert (latest["version"], latest["id"], latest["subject"]) == (2, second["id"], unique)
    assert json.loads(latest["schema"]) == WIDER
    assert "schemaType" not in latest  # Confluent's clients then assume Avro
    assert json.loads(ask("GET", f"/schemas/ids/{first['id']}")[1]["schema"]) == USER
    assert ask("POST", f"/subjects/{unique}", schema(WIDER))[1]["version"] == 2
    # The same schema has one id, in every subject.
    assert ask("POST", f"/subjects/{unique}-other/versions", schema(USER)) == (200, first)
    uses = ask("GET", f"/schemas/ids/{first['id']}/versions")[1]
    assert {"subject": f"{unique}-other", "version": 1} in uses
    assert unique in ask("GET", "/subjects")[1]


def test_an_incompatible_schema_is_refused_with_the_reason_and_nothing_changes(ask: Ask, unique: str) -> None:
    ask("POST", f"/subjects/{unique}/versions", schema(USER))
    status, answer = ask("POST", f"/subjects/{unique}/versions", schema(NARROW))
    assert (status, answer["error_code"]) == (409, 409)
    assert "field name was added without a default; give it a default" in answer["message"]
    assert ask("GET", f"/subjects/{unique}/versions") == (200, [1])
    path = f"/compatibility/subjects/{unique}/versions/latest"
    assert ask("POST", path, schema(NARROW)) == (200, {"is_compatible": False})
    status, answer = ask("POST", f"{path}?verbose=true", schema(NARROW))
    assert answer["messages"] == ["field name was added without a default; give it a default"]
    assert ask("POST", path, schema(WIDER)) == (200, {"is_compatible": True})
    status, answer = ask("POST", f"/subjects/{unique}/versions", schema({"type": "object"}, "JSON"))
    assert status == 409
    assert "the schema type changed from AVRO to JSON" in answer["message"]


def test_levels_are_set_per_subject_or_globally(ask: Ask, unique: str) -> None:
    assert ask("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask("GET", f"/config/{unique}")[1]["error_code"] == 40408
    assert ask("GET", f"/config/{unique}?defaultToGlobal=true") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask("PUT", f"/config/{unique}", {"compatibility": "SOMEHOW"})[1]["error_code"] == 42203
    assert ask("PUT", f"/config/{unique}", {"compatibility": "full_transitive"})[0] == 200
    assert ask("GET", f"/config/{unique}") == (200, {"compatibilityLevel": "FULL_TRANSITIVE"})
    renamed = {**USER, "fields": [{"name": "key", "type": "long", "default": 0}]}
    back = {**USER, "fields": [{"name": "key", "type": "long"}]}
    for each, status in ((USER, 200), (WIDER, 200), (renamed, 409), (back, 409)):
        assert ask("POST", f"/subjects/{unique}/versions", schema(each))[0] == status
    assert ask("PUT", f"/config/{unique}", {"compatibility": "NONE"})[0] == 200
    assert ask("POST", f"/subjects/{unique}/versions", schema(back))[0] == 200
    assert ask("DELETE", f"/config/{unique}")[0] == 200
    assert ask("GET", f"/config/{unique}")[0] == 404


def test_a_transitive_level_checks_every_version(ask: Ask, unique: str) -> None:
    plain = {**USER, "fields": [*USER["fields"], {"name": "name", "type": "string"}]}
    for subject, status in ((unique, 200), (f"{unique}-all", 409)):
        for each in (USER, WIDER):
            assert ask("POST", f"/subjects/{subject}/versions", schema(each))[0] == 200
        if status == 409:
            ask("PUT", f"/config/{subject}", {"compatibility": "BACKWARD_TRANSITIVE"})
        # Without its default the field can be read of the version before, but not of the first.
        assert ask("POST", f"/subjects/{subject}/versions", schema(plain))[0] == status


def test_a_deleted_version_is_hidden_then_removed_but_found_by_id(ask: Ask, unique: str) -> None:
    _, first = ask("POST", f"/subjects/{unique}/versions", schema(USER))
    ask("POST", f"/subjects/{unique}/versions", schema(WIDER))
    assert ask("DELETE", f"/subjects/{unique}/versions/2?permanent=true")[1]["error_code"] == 40407
    assert ask("DELETE", f"/subjects/{unique}/versions/2") == (200, 2)
    assert ask("GET", f"/subjects/{unique}/versions/2")[1]["error_code"] == 40402
    assert ask("GET", f"/subjects/{unique}/versions?deleted=true") == (200, [1, 2])
    assert ask("DELETE", f"/subjects/{unique}") == (200, [1])
    assert ask("GET", f"/subjects/{unique}/versions")[1]["error_code"] == 40401
    assert ask("DELETE", f"/subjects/{unique}?permanent=true") == (200, [1, 2])
    assert ask("GET", f"/schemas/ids/{first['id']}")[0] == 200
    assert ask("POST", f"/subjects/{unique}/versions", schema(NARROW))[0] == 200


def test_references_are_resolved_in_other_subjects(ask: Ask, unique: str) -> None:
    ask("POST", f"/subjects/{unique}-user/versions", schema(USER))
    order = {"type": "record", "name": "Order", "fields": [{"name": "by", "type": "User"}]}
    references = [{"name": "User", "subject": f"{unique}-user", "version": 1}]
    status, answer = ask("POST", f"/subjects/{unique}/versions", schema(order))
    assert (status, answer["error_code"]) == (422, 42201)
    assert ask("POST", f"/subjects/{unique}/versions", schema(order, references=references))[0] == 200
    assert ask("GET", f"/subjects/{unique}/versions/1")[1]["references"] == references
    assert ask("GET", f"/subjects/{unique}-user/versions/1/referencedby")[0] == 200
    assert ask("DELETE", f"/subjects/{unique}-user/versions/1")[1]["error_code"] == 42206
    outer = {"type": "object", "properties": {"id": {"$ref": "id.json"}}, "additionalProperties": False}
    ids = f"{unique}-id"
    ask("POST", f"/subjects/{ids}/versions", schema({"type": "integer"}, "JSON"))
    ask("POST", f"/subjects/{ids}/versions", schema({"type": "number"}, "JSON"))
    for version in (1, 2):
        known = [{"name": "id.json", "subject": ids, "version": version}]
        body = schema(outer, "JSON", references=known)
        assert ask("POST", f"/subjects/{unique}-json/versions", body)[0] == 200
    known = [{"name": "id.json", "subject": ids, "version": 1}]
    path = f"/compatibility/subjects/{unique}-json/versions/2?verbose=true"
    assert ask("POST", path, schema(outer, "JSON", references=known))[1]["messages"] == [
        "field id changed from number to integer; keep number, or add a new field with a default"
    ]


@pytest.mark.parametrize(
    ("method", "path", "body", "number"),
    [
        ("GET", "/subjects/nothing/versions", None, 40401),
        ("GET", "/subjects/nothing/versions/1", None, 40401),
        ("GET", "/schemas/ids/999999", None, 40403),
        ("GET", f"/schemas/ids/{10**40}", None, 40403),
        ("GET", "/subjects/x/versions/first", None, 42202),
        ("GET", f"/subjects/x/versions/{10**40}", None, 42202),
        ("POST", "/subjects/x/versions", None, 42201),
        ("POST", "/subjects/x/versions", {"schema": 7}, 42201),
        ("POST", "/subjects/x/versions", schema(""), 42201),
        ("POST", "/subjects/x/versions", schema("{"), 42201),
        ("POST", "/subjects/x/versions", schema({"type": "strange"}), 42201),
        ("POST", "/subjects/x/versions", schema({"type": "record"}), 42201),
        ("POST", "/subjects/x/versions", schema(STRING, "PROTOBUF"), 42201),
        ("POST", "/subjects/x/versions", schema({"type": "strange"}, "JSON"), 42201),
        ("POST", "/subjects/x/versions", schema({"properties": {"a": 7}}, "JSON"), 42201),
        ("POST", "/subjects/x/versions", schema({"properties": []}, "JSON"), 42201),
        ("POST", "/subjects/x/versions", schema({"$ref": "#/nowhere"}, "JSON"), 42201),
        ("POST", "/subjects/x/versions", schema("[" * 100_000, "JSON"), 42201),
        ("POST", "/subjects/x/versions", schema('{"not":' * 3000 + "{}" + "}" * 3000, "JSON"), 42201),
        ("POST", "/subjects/x/versions", schema(STRING, references=[7]), 42201),
        ("POST", "/subjects/x/versions", "{", 422),
        ("POST", "/subjects/x", schema(STRING), 40401),
        ("PUT", "/config", {"compatibility": None}, 42203),
        ("GET", "/elsewhere", None, 404),
        ("DELETE", "/subjects", None, 404),
    ],
)
def test_an_error_has_confluents_error_code(ask: Ask, method: str, path: str, body: Any, number: int) -> None:
    status, answer = ask(method, path, body)
    assert (status, answer["error_code"]) == (number if number < 1000 else number // 100, number)
    assert answer["message"]


@pytest.mark.parametrize(
    "draft",
    [
        None,
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ],
)
def test_json_schemas_evolve_in_every_draft(ask: Ask, unique: str, draft: str | None) -> None:
    head = {} if draft is None else {"$schema": draft}
    said = [
        {**head, "type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    ]
    said.append({**said[0], "properties": {"a": {"type": "number"}, "b": {"type": ["string", "null"]}}})
    for each in said:
        assert ask("POST", f"/subjects/{unique}/versions", schema(each, "JSON"))[0] == 200
    status, answer = ask(
        "POST", f"/subjects/{unique}/versions", schema({**said[1], "required": ["b"]}, "JSON")
    )
    assert status == 409
    assert "field b is now required; give it a default" in answer["message"]


PARTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from(["string", "object", "#", "#/items", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "items",
                    "properties",
                    "$ref",
                    "anyOf",
                    "oneOf",
                    "allOf",
                    "not",
                    "enum",
                    "required",
                    "$defs",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(old=PARTS, new=PARTS, kind=st.sampled_from(["AVRO", "JSON"]))
def test_no_schema_causes_an_internal_error(ask: Ask, old: Any, new: Any, kind: str) -> None:
    """Whatever is registered and compared, the response is a verdict or a client error."""
    subject = "strange"
    ask("PUT", f"/config/{subject}", {"compatibility": "FULL"})
    for value in (old, new):
        for path in (f"/subjects/{subject}/versions", f"/compatibility/subjects/{subject}/versions/latest"):
            status, answer = ask("POST", path, schema(value, kind))
            assert status in (200, 404, 409, 422), answer


def test_confluents_own_client_is_served(running: Running, unique: str) -> None:
    properties = {"url": running.registry.url, **client_properties(read_token(running.registry.folder))}
    with SchemaRegistryClient(properties) as client:
        number = client.register_schema(unique, Schema(json.dumps(USER), "AVRO"))
        assert client.get_latest_version(unique).schema_id == number
        assert client.lookup_schema(unique, Schema(json.dumps(USER), "AVRO")).schema_id == number
        assert client.test_compatibility(unique, Schema(json.dumps(WIDER), "AVRO"))
        assert client.set_compatibility(unique, "FULL") == {"compatibility": "FULL"}
        assert client.get_compatibility(unique) == "FULL"
        with pytest.raises(SchemaRegistryError, match="field name was added without a default"):
            client.register_schema(unique, Schema(json.dumps(NARROW), "AVRO"))
        assert client.get_versions(unique) == [1]
        assert client.delete_subject(unique) == [1]


def test_a_request_without_the_token_learns_nothing(ask: Ask) -> None:
    for method, path in (("GET", "/subjects"), ("PUT", "/config"), ("GET", "/nothing")):
        for token in ("", "wrong", "ünknown"):
            assert ask(method, path, {}, token)[0] == 401


def test_a_request_without_a_length_or_too_large_is_refused(running: Running) -> None:
    for headers, status in (({"Transfer-Encoding": "chunked"}, 411), ({"Content-Length": str(10**9)}, 413)):
        connection = http.client.HTTPConnection("127.0.0.1", running.registry.port, timeout=30)
        token = read_token(running.registry.folder)
        connection.putrequest("POST", "/subjects/x/versions")
        for name, value in {**headers, "Authorization": f"Bearer {token}"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status == status
        connection.close()


def test_confirmed_schemas_survive_a_kill(tmp_path: Path) -> None:
    running = Running(tmp_path)
    for number in range(20):
        _, answer = running.ask(
            "POST", f"/subjects/s-{number}/versions", schema({**USER, "name": f"U{number}"})
        )
        assert answer == {"id": number + 1}
    running.ask("PUT", "/config", {"compatibility": "FULL"})
    running.kill()
    running.start()
    assert len(running.ask("GET", "/subjects")[1]) == 20
    assert running.ask("GET", "/config") == (200, {"compatibilityLevel": "FULL"})
    assert json.loads(running.ask("GET", "/schemas/ids/20")[1]["schema"])["name"] == "U19"
    # An id is never reused, even after its schema was permanently deleted.
    running.ask("DELETE", "/subjects/s-19")
    running.ask("DELETE", "/subjects/s-19?permanent=true")
    assert running.ask("POST", "/subjects/new/versions", schema(WIDER)) == (200, {"id": 21})
    running.kill()
    with sqlite3.connect(running.registry.folder / "registry.db") as file:
        assert file.execute("pragma integrity_check").fetchone() == ("ok",)
    file.close()


def test_schemas_of_apicurio_are_not_ignored(tmp_path: Path) -> None:
    (tmp_path / "registry.mv.db").write_bytes(b"")
    with pytest.raises(StackError, match="contains schemas of Apicurio"):
        Registry(folder=tmp_path, logs=tmp_path, port=1).services()


@pytest.mark.parametrize(
    ("schema_", "kind", "reason"),
    [
        (r'{"type": "enum", "name": "E", "symbols": ["A"], "doc": "\ud800"}', "AVRO", "not valid Unicode"),
        (r'{"title": "\ud800"}', "JSON", "not valid Unicode"),
        ('{"maximum": 1e999}', "JSON", "not a finite number"),
        ('{"type": "record", "name": "R"}', "AVRO", "without its fields"),
        ('{"type": "record", "name": "R", "fields": [{"name": ["a"], "type": "int"}]}', "AVRO", "not text"),
    ],
)
def test_a_schema_that_could_not_be_stored_or_compared_is_refused(
    ask: Ask, unique: str, schema_: str, kind: str, reason: str
) -> None:
    status, answer = ask("POST", f"/subjects/{unique}/versions", schema(schema_, kind))
    assert (status, answer["error_code"]) == (422, 42201)
    assert reason in answer["message"]


@pytest.mark.parametrize(
    "reference", [{"name": "\ud800"}, {"version": 1e400}, {"version": "latest"}, {"subject": []}]
)
def test_a_reference_that_names_nothing_is_refused(ask: Ask, unique: str, reference: dict[str, Any]) -> None:
    given = {"name": "r", "subject": unique, "version": 1, **reference}
    body = json.dumps(schema(STRING, references=[given])).replace("Infinity", "1e400")
    status, answer = ask("POST", f"/subjects/{unique}/versions", body)
    assert (status, answer["error_code"]) == (422, 42201)


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        ({"$id": "http://[::1", "type": "string"}, {"$id": "http://[::1", "$ref": "//[x#/a"}, 409),
        ({"enum": ["a" * 40 + "b"]}, {"type": "string", "pattern": "^(a+)+$"}, 409),
        ({"enum": ["a-b"]}, {"type": "string", "pattern": "^a(-b)+$"}, 200),
    ],
)
def test_odd_addresses_and_slow_patterns_are_compared_soon(
    ask: Ask, unique: str, before: Any, after: Any, status: int
) -> None:
    assert ask("POST", f"/subjects/{unique}/versions", schema(before, "JSON"))[0] == 200
    assert ask("POST", f"/subjects/{unique}/versions", schema(after, "JSON"))[0] == status


def test_the_latest_version_of_a_subject_can_be_referred_to_by_its_next_one(ask: Ask, unique: str) -> None:
    path = f"/subjects/{unique}/versions"
    assert ask("POST", path, schema(USER))[0] == 200
    latest = {"name": "User", "subject": unique, "version": -1}
    assert ask("PUT", f"/config/{unique}", {"compatibility": "NONE"})[0] == 200
    list_ = {"type": "array", "items": "User"}
    assert ask("POST", path, schema(list_, references=[latest]))[0] == 200
    _, stored = ask("GET", f"{path}/2")
    assert stored["references"] == [{**latest, "version": 1}]
    assert (
        ask("POST", path, schema({"type": "map", "values": "User"}, references=[{**latest, "version": 1}]))[0]
        == 200
    )
