"""Clients that are slow, many or hostile: each gets its answer, and nobody else waits for it."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

import gearshift as gs
from gearshift.connection import Connection
from gearshift.definitions import HttpSource
from gearshift.errors import SettingsError
from gearshift.sources.http import server
from gearshift.sources.http.source import Http
from gearshift.topics import Admin
from tests.flow import committed_values
from tests.gateways.certificate import certificate
from tests.support import eventually


@dataclass
class Reading:
    meter_id: str


TOKEN = "secret-7"
LET_IN = f"Authorization: Bearer {TOKEN}\r\n"


@pytest.fixture
def topic(connection: Connection, unique: str) -> gs.Topic:
    declared = gs.App(unique).topic(f"{unique}-readings", value=Reading)
    with Admin(connection) as admin:
        admin.ensure([declared])
    return declared


def declare(topic: gs.Topic, **options: str | Path) -> HttpSource:
    return gs.App(topic.name).http(topics=[topic], port=0, **options)


@contextmanager
def serving(source: HttpSource, connection: Connection) -> Iterator[Http]:
    running = Http(source, connection, {"INGEST_TOKEN": TOKEN})
    running.open()
    try:
        yield running
    finally:
        running.close()


def post(running: Http, topic: gs.Topic, meter: str, context: ssl.SSLContext | None = None) -> int:
    """Send one record over a new connection; the status of the answer."""
    client = (
        http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
        if context is None
        else http.client.HTTPSConnection("127.0.0.1", running.port, timeout=20, context=context)
    )
    try:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
        client.request("POST", f"/topics/{topic.name}", json.dumps({"meter_id": meter}), headers)
        return client.getresponse().status
    finally:
        client.close()


def connect(running: Http, sent: str = "") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", running.port), timeout=20)
    client.sendall(sent.encode())
    return client


def answers(client: socket.socket) -> str:
    """Everything the server says until it hangs up, or for a second after its last word."""
    said = b""
    client.settimeout(1.0)
    try:
        while chunk := client.recv(65_536):
            said += chunk
    except TimeoutError:
        pass
    except ConnectionResetError:
        said += b"RESET"
    return said.decode()


def answer(client: socket.socket) -> str:
    """One answer, which is a line of JSON after its head."""
    client.settimeout(10)
    said = b""
    while not said.endswith(b"}\n") and (chunk := client.recv(65_536)):
        said += chunk
    return said.decode()


def asked(running: Http, text: str) -> str:
    with connect(running, text) as client:
        return answers(client)


def head(topic: gs.Topic, *lines: str, method: str = "POST") -> str:
    """A request's head with these lines after its Host."""
    return f"{method} /topics/{topic.name} HTTP/1.1\r\nHost: 127.0.0.1\r\n" + "".join(
        f"{line}\r\n" for line in lines
    )


JSON = "Content-Type: application/json"


def test_idle_and_slow_clients_shut_nobody_out(
    topic: gs.Topic, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 150, raising=False)
    body = "Content-Length: 4000\r\n\r\n["
    with serving(declare(topic, token="${env:INGEST_TOKEN}"), connection) as running, ExitStack() as clients:
        for sent in (
            "",
            "POST /topics",
            head(topic, JSON) + body,
            head(topic, JSON, LET_IN.strip()) + body,
        ):
            for _ in range(100):
                clients.enter_context(connect(running, sent))
            began = time.monotonic()
            assert post(running, topic, "a") == 200, sent
            assert time.monotonic() - began < 10
        # The oldest of them made room for the newest.
        assert len(running.connections) <= 151
    assert len(committed_values(connection, topic)) == 4


def test_a_request_is_refused_before_its_body_is_read(topic: gs.Topic, connection: Connection) -> None:
    body = "Content-Length: 8000000"
    refusals = {
        (401, "the token is missing or wrong"): (JSON, body),
        (404, "unknown topic"): (LET_IN.strip(), JSON, body),
        (415, "unsupported content type text/csv"): (LET_IN.strip(), "Content-Type: text/csv", body),
        (400, "300 characters"): (LET_IN.strip(), JSON, f"Idempotency-Key: {'k' * 300}", body),
        (413, "larger than 8 MB"): (LET_IN.strip(), JSON, "Content-Length: 9000000000"),
        (411, "no Content-Length"): (LET_IN.strip(), JSON, "Transfer-Encoding: chunked"),
    }
    with serving(declare(topic, token="${env:INGEST_TOKEN}"), connection) as running:
        for (status, words), lines in refusals.items():
            text = head(topic, *lines) + "\r\n"
            if status == 404:
                text = text.replace(topic.name, "other")
            with connect(running, text) as client:
                said = answer(client)  # nothing of the body was sent
            assert said.startswith(f"HTTP/1.1 {status} "), said
            assert words in said
        # A client that asks first is not told to go on.
        said = asked(running, head(topic, JSON, body, "Expect: 100-continue") + "\r\n")
        assert said.startswith("HTTP/1.1 401 "), said
        assert "100 Continue" not in said
        assert running.status()["refused"] == len(refusals) + 1


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "PATCH"])
def test_a_body_is_never_taken_for_the_next_request(
    topic: gs.Topic, connection: Connection, method: str
) -> None:
    hidden = head(topic, JSON, LET_IN.strip(), "Content-Length: 16") + '\r\n{"meter_id":"x"}'
    chunked = f"{len(hidden):x}\r\n{hidden}\r\n0\r\n\r\n"
    follows = head(topic, "Connection: close", method="GET") + "\r\n"
    with serving(declare(topic, token="${env:INGEST_TOKEN}"), connection) as running:
        for lines in (
            ("Transfer-Encoding: chunked",),
            ("Transfer-Encoding: chunked", f"Content-Length: {len(chunked)}"),
            ("Transfer-Encoding: chunked", "Content-Length: 5"),
        ):
            said = asked(running, head(topic, *lines, method=method) + "\r\n" + chunked + follows)
            assert "200 OK" not in said
            # Its own, and that of the one that follows; none follows what says its length in two ways.
            assert said.count("HTTP/1.1 4") == (2 if len(lines) == 1 else 1), said
        assert running.status()["sent"] == 0
        for wrong in (
            head(topic, JSON, LET_IN.strip(), "Content-Length: 16", "Content-Length: 17"),
            head(topic, JSON, LET_IN.strip(), "Content-Length : 16"),
            head(topic, JSON, LET_IN.strip(), "Transfer-Encoding: gzip, chunked"),
            head(topic, JSON, LET_IN.strip(), "Transfer-Encoding: \x0bchunked"),
        ):
            said = asked(running, wrong + "\r\n" + '{"meter_id":"x"}' + follows)
            assert "200 OK" not in said
            assert said.startswith(("HTTP/1.1 4", "HTTP/1.1 501 ")), said
    assert committed_values(connection, topic) == []


def test_what_is_no_request_is_answered_in_json_and_ended(
    topic: gs.Topic, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REQUEST_TIMEOUT", timedelta(seconds=0.5), raising=False)
    monkeypatch.setattr("gearshift.sources.http.source.BODY_TIMEOUT", timedelta(seconds=0.5), raising=False)
    body = head(topic, JSON, "Content-Length: 100") + '\r\n{"meter_id":'
    texts: dict[str, Callable[[str], bool]] = {
        "\x16\x03\x01\r\n\r\n": lambda said: said.startswith("HTTP/1.1 400 ") and '"error"' in said,
        head(topic, "X-Long: " + "x" * 100_000): lambda said: said.startswith("HTTP/1.1 431 "),
        head(topic, *(f"X-{number}: x" for number in range(5_000))): lambda said: said.startswith(
            "HTTP/1.1 431 "
        ),
        "": lambda said: said == "",
        "POST /top": lambda said: said == "",
        body: lambda said: said.startswith("HTTP/1.1 408 ") and "the body did not arrive" in said,
    }
    with serving(declare(topic), connection) as running:
        for text, wanted in texts.items():
            began = time.monotonic()
            with connect(running, text) as client:
                client.settimeout(10)
                said = b""
                while chunk := client.recv(65_536):
                    said += chunk
            assert wanted(said.decode()), (text[:40], said)
            assert time.monotonic() - began < 8
        # One that is known, and then says no more, is let go as well.
        with connect(running, head(topic, method="GET") + "\r\n") as client:
            assert answer(client).startswith("HTTP/1.1 405 ")
            client.sendall(b"GET /")
            assert client.recv(65_536) == b""
        eventually(lambda: not running.connections, within=10)


def test_records_come_over_tls(topic: gs.Topic, connection: Connection, tmp_path: Path, unique: str) -> None:
    pem = certificate(tmp_path)
    context = ssl.create_default_context(cafile=pem)
    with serving(declare(topic, certificate=pem), connection) as running:
        assert post(running, topic, "a", context) == 200
        assert running.status()["at"] == f"https://127.0.0.1:{running.port}"
        with connect(running), pytest.raises((OSError, http.client.HTTPException)):
            post(running, topic, "in the clear")
    assert [reading.meter_id for reading in committed_values(connection, topic)] == ["a"]
    (tmp_path / "none.pem").write_text("no certificate")
    for wrong in ("none.pem", "missing.pem"):
        with pytest.raises(SettingsError, match=wrong):
            Http(declare(topic, certificate=tmp_path / wrong), connection, {})
