"""HTTP ingest: what is answered with 200 is on the brokers, and what is refused is refused as a whole."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

import gearshift as gs
from gearshift.connection import Connection
from gearshift.definitions import HttpSource
from gearshift.errors import PortInUseError, SettingsError
from gearshift.sources.http.source import Http
from gearshift.topics import Admin, GroupOffsets, Producer
from tests.flow import committed_values
from tests.support import closed_port, eventually


@dataclass
class Place:
    lat: float
    lon: float


@dataclass
class Reading:
    meter_id: str
    load_kw: float
    read_at: datetime | None = None
    tags: list[str] = field(default_factory=list)
    place: Place | None = None


Answer = tuple[int, dict[str, Any], http.client.HTTPMessage]


class Client:
    """One connection to a source, kept open between requests."""

    def __init__(self, running: Http, name: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=90)
        self._path = f"/topics/{name}"

    def post(self, body: Any, *, path: str | None = None, **headers: str) -> Answer:
        """Post plain data as JSON, or a text as it is."""
        text = body if isinstance(body, str | bytes) else json.dumps(body)
        given = {"Content-Type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        self._connection.request("POST", path or self._path, text, given)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read()), answer.headers

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def get(self) -> Answer:
        """Ask for the topic."""
        self._connection.request("GET", self._path)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read()), answer.headers


@pytest.fixture
def source(connection: Connection, unique: str) -> HttpSource:
    """A port for one topic."""
    app = gs.App(unique)
    topic = app.topic(f"{unique}-readings", value=Reading, key="meter_id", partitions=2)
    with Admin(connection) as admin:
        admin.ensure([topic])
    return app.http(topics=[topic], port=0)


def topic_of(source: HttpSource) -> gs.Topic:
    return next(iter(source.topics.values()))


@contextmanager
def serving(source: HttpSource, connection: Connection, **environ: str) -> Iterator[tuple[Http, Client]]:
    running = Http(source, connection, environ)
    running.open()
    client = Client(running, topic_of(source).name)
    try:
        yield running, client
    finally:
        client.close()
        running.close()


def meters(connection: Connection, source: HttpSource) -> list[str]:
    return sorted(reading.meter_id for reading in committed_values(connection, topic_of(source)))


def test_one_record_and_many_are_on_the_topic_when_they_are_answered(
    source: HttpSource, connection: Connection
) -> None:
    with serving(source, connection) as (running, client):
        first = {
            "meter_id": "a",
            "load_kw": 2,
            "read_at": "2026-03-01T12:00:00+01:00",
            "place": {"lat": 1.5, "lon": 2},
        }
        assert client.post(first)[:2] == (200, {"written": 1})
        assert committed_values(connection, topic_of(source)) == [
            Reading("a", 2.0, datetime(2026, 3, 1, 11, tzinfo=UTC), [], Place(1.5, 2.0))
        ]
        many = [{"meter_id": name, "load_kw": 1.5} for name in "bcd"]
        assert client.post(many)[:2] == (200, {"written": 3})
        lines = "\n".join(json.dumps({"meter_id": name, "load_kw": 1.5}) for name in "efg") + "\n\n"
        assert client.post(lines, Content_Type="application/x-ndjson")[:2] == (200, {"written": 3})
        assert client.post([])[:2] == (200, {"written": 0})
        assert meters(connection, source) == list("abcdefg")
        status = running.status()
        assert (status["sent"], status["requests"], status["refused"]) == (7, 4, 0)


FINE = {"meter_id": "a", "load_kw": 1}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([FINE, {"meter_id": "b"}], {"error": "field load_kw: is missing", "field": "load_kw", "index": 1}),
        (
            {"meter_id": "b", "load_kw": "much"},
            {"error": "field load_kw: is str, not a number", "field": "load_kw"},
        ),
        (
            {**FINE, "load_kwh": 2},
            {
                "error": "field load_kwh: Reading has no such field; did you mean load_kw?",
                "field": "load_kwh",
            },
        ),
        (
            [{**FINE, "place": {"lat": 1, "lon": None}}],
            {"error": "field place.lon: is NoneType, not a number", "field": "place.lon", "index": 0},
        ),
        (
            {**FINE, "read_at": "2026-03-01T12:00:00"},
            {
                "error": "field read_at: is not an RFC 3339 time with a zone, such as 2026-01-31T12:00:00Z",
                "field": "read_at",
            },
        ),
        ('{"meter_id": "a", "load_kw": NaN}', {"error": "NaN is not a JSON number"}),
        (
            '{"meter_id": "a", "load_kw": 1e999}',
            {"error": "field load_kw: is not a finite number", "field": "load_kw"},
        ),
        ('{"meter_id": "a", "load_kw": ' + "9" * 5000 + "}", {"error": "contains a number of more than 4300 digits"}),
        ('{"meter_id": "a", "load_kw": 1, "load_kw": 2}', {"error": "field load_kw: appears twice", "field": "load_kw"}),
        ("[" * 1_000_000, {"error": "the JSON is nested too deeply"}),
        ('{"a":' * 200_000, {"error": "the JSON is nested too deeply"}),
        ('{"meter_id": "a"', None),
        ("", None),
        (b'{"meter_id": "\xff", "load_kw": 1}', {"error": "is not UTF-8: invalid start byte at byte 14"}),
        (r'{"meter_id": "\ud800", "load_kw": 1}', None),
        ("7", {"error": "is int, not an object"}),
    ],
)  # fmt: skip
def test_a_record_that_does_not_fit_is_answered_with_its_field_and_its_place_and_nothing_is_written(
    shared: tuple[HttpSource, Client], connection: Connection, body: Any, said: dict[str, Any] | None
) -> None:
    source, client = shared
    status, answer, _ = client.post(body)
    assert status == 400
    assert answer == said if said is not None else answer["error"]
    assert meters(connection, source) == []
    lines = "\n".join(json.dumps(each) for each in [FINE, {"meter_id": 1}])
    assert client.post(lines, Content_Type="application/x-ndjson")[1]["index"] == 1


@pytest.fixture(scope="module")
def shared(stack: Any) -> Iterator[tuple[HttpSource, Client]]:
    """A port whose topic stays empty."""
    app = gs.App("refusals")
    topic = app.topic("refusals-readings", value=Reading, key="meter_id")
    with Admin(stack.connection) as admin:
        admin.ensure([topic])
    source = app.http(topics=[topic], port=0)
    with serving(source, stack.connection) as (_, client):
        yield source, client


def test_other_refusals_say_what_would_be_right(source: HttpSource, connection: Connection) -> None:
    with serving(source, connection) as (_, client):
        status, answer, _ = client.post(FINE, path="/topics/reedings")
        assert (status, answer["error"]) == (404, "unknown topic reedings")
        assert answer["hint"] == f"send to /topics/{topic_of(source).name}"
        assert client.post(FINE, path="/")[0] == 404
        assert client.get()[0] == 405
        status, answer, _ = client.post(FINE, Content_Type="text/csv")
        assert (status, answer["hint"]) == (415, "send application/json or application/x-ndjson")
        assert client.post(FINE, Content_Type="application/json; charset=latin-1")[0] == 415
        assert client.post(FINE, Content_Encoding="gzip")[0] == 415
        assert client.post(FINE, Host="evil.example")[0] == 403
        assert client.post(FINE, Idempotency_Key="x" * 300)[0] == 400
        assert client.post(" " * (9 << 20))[0] == 413
        assert client.post({**FINE, "meter_id": "x" * 1_000_001})[0] == 413
        assert client.post(FINE, Content_Length="-1")[0] == 411
        assert client.post(FINE)[0] == 200
    assert meters(connection, source) == ["a"]


def test_a_request_with_the_same_key_is_written_once_also_after_a_restart(
    source: HttpSource, connection: Connection
) -> None:
    two = [FINE, {**FINE, "meter_id": "b"}]
    with serving(source, connection) as (running, client):
        assert client.post(two, Idempotency_Key="k-1")[:2] == (200, {"written": 2})
        clients = [Client(running, topic_of(source).name) for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            answers = list(
                pool.map(lambda each: each.post({**FINE, "meter_id": "c"}, Idempotency_Key="k-2"), clients)
            )
        for each in clients:
            each.close()
        assert sorted(answer[1].get("repeated", False) for answer in answers) == [False, True, True, True]
    with serving(source, connection) as (_, client):
        assert client.post(two, Idempotency_Key="k-1")[:2] == (200, {"written": 2, "repeated": True})
        status, answer, _ = client.post(FINE, Idempotency_Key="k-1")
        assert (status, answer["error"]) == (422, "this Idempotency-Key was used with another body")
    assert meters(connection, source) == ["a", "b", "c"]


def test_senders_wait_while_a_reader_is_too_far_behind(connection: Connection, unique: str) -> None:
    app = gs.App(unique)
    topic = app.topic(f"{unique}-readings", value=Reading, max_lag=10)
    with Admin(connection) as admin:
        admin.ensure([topic])
    with Producer(connection) as producer:
        for _ in range(50):
            producer.send_bytes(topic.name, b"x")
    offsets = GroupOffsets(connection, f"{unique}-slow")
    offsets.commit({(topic.name, 0): 0})
    source = app.http(topics=[topic], port=0)
    with serving(source, connection) as (_, client):
        _, answer, headers = eventually(lambda: (found := client.post(FINE))[0] == 429 and found)
        assert answer["error"].startswith(f"group {unique}-slow is ")
        assert headers["Retry-After"] == "1"
        with Admin(connection) as admin:
            offsets.commit(admin.end_offsets([topic.name]))
        eventually(lambda: client.post(FINE)[0] == 200)
    offsets.close()


def test_only_a_request_with_the_token_is_let_in(connection: Connection, unique: str) -> None:
    app = gs.App(unique)
    topic = app.topic(f"{unique}-readings", value=Reading)
    with Admin(connection) as admin:
        admin.ensure([topic])
    source = app.http(topics=[topic], port=0, token="${env:INGEST_TOKEN}")
    with pytest.raises(SettingsError, match="reads its token from INGEST_TOKEN, which is not set"):
        Http(source, connection, {})
    with serving(source, connection, INGEST_TOKEN="secret-7") as (running, client):
        status, answer, headers = client.post(FINE)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "secret-7" not in json.dumps(answer)
        assert client.post(FINE, Authorization="Bearer secret-8")[0] == 401
        assert client.post(FINE, Authorization="Bearer secret-7", Host="meters.example")[0] == 200
        taken = app.http("again", topics=[topic], port=running.port)
        with pytest.raises(PortInUseError, match=f"port {running.port} of http again"):
            Http(taken, connection, {})


def test_nothing_is_acknowledged_while_no_broker_answers(source: HttpSource, connection: Connection) -> None:
    away = replace(connection, bootstrap_servers=f"127.0.0.1:{closed_port()}")
    with serving(source, away) as (running, client):
        status, answer, headers = client.post(FINE)
        assert (status, headers["Retry-After"]) == (503, "5")
        assert "no broker answers" in answer["error"]
        assert running.status()["error"]


def test_closing_answers_what_is_under_way(source: HttpSource, connection: Connection) -> None:
    answers: list[int] = []
    stop = threading.Event()

    def send(client: Client, name: str, done: Callable[[int], None]) -> None:
        number = 0
        while not stop.is_set():
            try:
                status = client.post({"meter_id": f"{name}-{number}", "load_kw": 1})[0]
            except (OSError, http.client.HTTPException):
                break
            done(status)
            number += 1
        client.close()

    with serving(source, connection) as (running, _):
        threads = [
            threading.Thread(
                target=send, args=(Client(running, topic_of(source).name), str(each), answers.append)
            )
            for each in range(4)
        ]
        for thread in threads:
            thread.start()
        eventually(lambda: len(answers) > 20)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert len(meters(connection, source)) == answers.count(200)
