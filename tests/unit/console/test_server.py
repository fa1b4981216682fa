"""The console's server: who gets in, what a page may do, and requests of the command line."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gearshift import errors
from gearshift.app import App
from gearshift.connection import Connection
from gearshift.console.alerts import Alerts
from gearshift.console.client import ask
from gearshift.console.console import Console, Emit, Running
from gearshift.console.live import Live
from gearshift.console.problems import describe, restore
from gearshift.console.runner_info import RunnerInfo
from gearshift.console.server import ConsoleServer
from gearshift.errors import (
    GearRefusedError,
    GearshiftError,
    PortInUseError,
    RunnerError,
    SettingsError,
    ShiftError,
)
from gearshift.settings import load
from gearshift.stack.processes.service import Pid
from tests.gateways.certificate import certificate
from tests.support import eventually

KINDS = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GearshiftError)),
    key=lambda kind: kind.__name__,
)
REFUSED = GearRefusedError("no", hint="write it otherwise", pipeline="copy", file="app.py", line=7)
NAMES = ("copy", "refused", "broken", "abandoned")
FINISHED = threading.Event()
GONE = threading.Event()


class Answering:
    """What a console needs of a running app."""

    def __init__(self) -> None:
        pipelines = dict.fromkeys(NAMES, object())
        self.app = cast("App", SimpleNamespace(name="words", graph=SimpleNamespace(pipelines=pipelines)))

    def status(self) -> dict[str, Any]:
        return {"app": "words"}

    def waiting_for(self) -> list[str]:
        return ["copy: failed"]

    def details(self, pipeline: str) -> dict[str, Any]:
        return {"name": pipeline}

    def run_interval(self, pipeline: str, start: Any) -> dict[str, Any]:
        raise AssertionError(f"{pipeline} {start}")

    def why(self, pipeline: str) -> dict[str, Any]:
        return {"pipeline": pipeline, "gear": "real-time"}

    def scale_for(self, pipeline: str, partitions: int, emit: Emit) -> None:
        emit({"step": "check", "words": f"can {pipeline} have {partitions} shuffle partitions?"})
        if pipeline == "refused":
            raise REFUSED
        emit({"scaled": {"pipeline": pipeline, "after": partitions}})

    def shift_for(self, pipeline: str, gear: str, now: bool, emit: Emit, hold: str | None = None) -> None:
        emit({"step": "check", "words": f"can {pipeline} run in {gear}?"})
        if pipeline == "abandoned":
            assert GONE.wait(10)
            for number in range(50):
                emit({"step": "start", "words": f"{number} " * 10_000})
            FINISHED.set()
        if pipeline == "refused":
            raise REFUSED
        if pipeline == "broken":
            raise RuntimeError("py4j went away")
        emit({"shifted": {"pipeline": pipeline, "after": gear, "now": now}})


Serve = Callable[..., ConsoleServer]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start a server with these settings."""
    opened: list[ConsoleServer] = []

    def start(*, read_only: bool = False, **settings: Any) -> ConsoleServer:
        running: Running = Answering()
        console = Console(
            settings=load({"home": tmp_path, **settings}, folder=tmp_path, environ={}),
            connection=Connection(bootstrap_servers="127.0.0.1:1", registry_url="http://127.0.0.1:1"),
            live=Live(running.status, Alerts().of),
            running=running,
            read_only=read_only,
        )
        server = ConsoleServer(console)
        server.open()
        opened.append(server)
        return server

    yield start
    for server in opened:
        server.close()


@pytest.fixture
def server(serve: Serve) -> ConsoleServer:
    return serve()


@pytest.fixture
def home(server: ConsoleServer, tmp_path: Path) -> Path:
    write_info(server, tmp_path)
    return tmp_path


def write_info(server: ConsoleServer, home: Path) -> None:
    pid = Pid.of(os.getpid())
    assert pid is not None
    RunnerInfo(
        app="words",
        file="words.py",
        pid=pid,
        spark_pid=None,
        host="127.0.0.1",
        port=server.port,
        https=False,
        token=server.access.token,
        page=server.page,
    ).write(home)


Answer = tuple[int, bytes, dict[str, str]]


def request(
    server: ConsoleServer,
    method: str = "GET",
    path: str = "/api/status",
    body: bytes | None = None,
    **headers: str | None,
) -> Answer:
    """A response; a header of None is not sent."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    given = {"Authorization": f"Bearer {server.access.token}", **headers}
    if body is not None:
        given.setdefault("Content-Type", "application/json")
    sent = {name.replace("_", "-"): value for name, value in given.items() if value is not None}
    try:
        connection.request(method, path, body=body, headers=sent)
        answer = connection.getresponse()
        return (
            answer.status,
            answer.read(),
            {name.lower(): value for name, value in answer.getheaders()},
        )
    finally:
        connection.close()


def enter(server: ConsoleServer) -> str:
    """The cookie of a page that was opened by its printed address."""
    path = server.page.removeprefix(server.url)
    status, _, headers = request(server, path=path, Authorization=None)
    assert (status, headers["location"]) == (303, "/")
    cookie, *attributes = headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
    return cookie


SHIFT = "/api/pipelines/copy/shift"
TO_BATCH = b'{"gear": "batch", "now": false}'


def test_a_request_with_the_token_is_answered(server: ConsoleServer) -> None:
    assert request(server)[:2] == (200, b'{"app":"words"}')
    assert request(server, Host=f"localhost:{server.port}")[0] == 200


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
@pytest.mark.parametrize("token", [None, "", "Bearer wrong", "Bearer ", "Basic dTpw", "Bearer \xe4"])
def test_without_the_token_no_method_is_answered(
    server: ConsoleServer, method: str, token: str | None
) -> None:
    status, body, _ = request(server, method, SHIFT, Authorization=token)
    assert status == 401
    assert b"words" not in body


def test_probes_and_metrics_need_no_token(server: ConsoleServer) -> None:
    for path, status in (("/health", 200), ("/ready", 503), ("/metrics", 200)):
        assert request(server, path=path, Authorization=None)[0] == status
        assert request(server, "POST", path, b"{}", Authorization=None)[0] == 405
    assert json.loads(request(server, path="/ready")[1]) == {"ready": False, "waiting_for": ["copy: failed"]}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:127", "", "127.0.0.1.evil.example"])
@pytest.mark.parametrize("path", ["/api/status", "/metrics", "/health", "/", "/static/index.html"])
def test_a_web_page_whose_domain_resolves_to_loopback_is_refused(
    server: ConsoleServer, host: str, path: str
) -> None:
    assert request(server, path=path, Host=host)[0] == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_a_request_of_another_site_is_refused(server: ConsoleServer, origin: str) -> None:
    assert request(server, Origin=origin)[0] == 403
    cookie = enter(server)
    answer = request(server, "POST", SHIFT, TO_BATCH, Authorization=None, Cookie=cookie, Origin=origin)
    assert answer[0] == 403


def test_a_page_reads_and_writes_with_its_cookie(server: ConsoleServer) -> None:
    cookie = enter(server)
    assert request(server, Authorization=None, Cookie=cookie)[0] == 200
    sent = {"Authorization": None, "Cookie": cookie}
    assert request(server, "POST", SHIFT, TO_BATCH, **sent)[0] == 403, "a browser sends an Origin"
    status, body, _ = request(server, "POST", SHIFT, TO_BATCH, **sent, Origin=server.url)
    assert (status, len(body.splitlines())) == (200, 2)


def test_the_token_leaves_the_address_bar_and_leads_nowhere_else(server: ConsoleServer) -> None:
    token = server.access.page_token
    for path, location in (
        ("/pipelines/copy", "/pipelines/copy"),
        ("/topics/a?from=-10", "/topics/a?from=-10"),
        ("//evil.example", "/evil.example"),
        ("///evil.example/x", "/evil.example/x"),
    ):
        joined = f"{path}{'&' if '?' in path else '?'}token={token}"
        status, _, headers = request(server, path=joined, Authorization=None)
        assert (status, headers["location"]) == (303, location)
    for path in ("/?token=wrong", "/api/status?token=" + token, "/"):
        status, body, headers = request(server, path=path, Authorization=None)
        assert status == 401 and "set-cookie" not in headers
        assert token.encode() not in body


def test_read_only_pages_write_nothing_by_any_method(serve: Serve) -> None:
    server = serve(read_only=True)
    cookie = enter(server)
    by_page = {"Authorization": None, "Cookie": cookie, "Origin": server.url}
    by_bearer = {"Authorization": f"Bearer {server.access.page_token}"}
    for given in (by_page, by_bearer):
        assert request(server, **given)[0] == 200
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            for path in (SHIFT, "/api/topics/t/records", "/api/dead-letters/t/replay", "/api/groups/g/reset"):
                status, body, _ = request(server, method, path, TO_BATCH, **given)
                assert (status, b"read-only" in body) == (403, True), (method, path)
    assert request(server, "POST", SHIFT, TO_BATCH)[0] == 200, "the command line of the same user may"


def test_every_response_confines_the_page(server: ConsoleServer) -> None:
    for path, given in (("/", None), ("/api/status", f"Bearer {server.access.token}"), ("/health", None)):
        headers = request(server, path=path, Authorization=given)[2]
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_a_large_body_is_refused_before_it_is_read(server: ConsoleServer) -> None:
    assert request(server, "POST", SHIFT, b"x" * (2 << 20) + b"x")[0] == 413
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        head = f"POST {SHIFT} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.access.token}\r\n"
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_an_unknown_path_of_the_api_is_not_found(server: ConsoleServer) -> None:
    for path in ("/api/secrets", "/api/", "/api/pipelines/nobody"):
        status, body, _ = request(server, path=path)
        assert (status, json.loads(body)["error"]["kind"].endswith("Error")) == (404, True)
    assert request(server, path="/static/../server.py")[0] == 404
    assert request(server, "POST", "/api/status", b"{}")[0] == 405


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"now": true}', b"\xff", b'"' + b"x" * 70_000])
def test_an_invalid_request_is_a_bad_request(server: ConsoleServer, body: bytes) -> None:
    status, answer, _ = request(server, "POST", SHIFT, body)
    assert (status, json.loads(answer)["error"]["kind"]) == (400, "SettingsError")


def test_an_unknown_gear_is_refused_before_anything_starts(server: ConsoleServer) -> None:
    status, body, _ = request(server, "POST", SHIFT, b'{"gear": "turbo"}')
    assert (status, json.loads(body)["error"]["what"]) == (404, "unknown gear 'turbo'")


def test_the_steps_of_a_shift_come_line_by_line(home: Path) -> None:
    lines = list(ask(home, "POST", SHIFT, {"gear": "batch", "now": True}))
    assert [next(iter(line)) for line in lines] == ["step", "shifted"]
    assert lines[-1]["shifted"] == {"pipeline": "copy", "after": "batch", "now": True}


def test_an_error_of_a_shift_keeps_its_class(home: Path) -> None:
    lines = list(ask(home, "POST", "/api/pipelines/refused/shift", {"gear": "batch"}))
    error = restore(lines[-1]["error"])
    assert type(error) is GearRefusedError
    assert str(error) == str(REFUSED)
    lines = list(ask(home, "POST", "/api/pipelines/broken/shift", {"gear": "batch"}))
    error = restore(lines[-1]["error"])
    assert type(error) is ShiftError and "py4j went away" in error.what
    with pytest.raises(GearshiftError, match="unknown pipeline 'nobody'"):
        list(ask(home, "POST", "/api/pipelines/nobody/shift", {"gear": "batch"}))


def test_the_steps_of_a_scaling_come_line_by_line_and_its_error_keeps_its_class(home: Path) -> None:
    lines = list(ask(home, "POST", "/api/pipelines/copy/scale", {"parallelism": 8}))
    assert lines[0] == {"step": "check", "words": "can copy have 8 shuffle partitions?"}
    assert lines[-1] == {"scaled": {"pipeline": "copy", "after": 8}}
    lines = list(ask(home, "POST", "/api/pipelines/refused/scale", {"parallelism": 8}))
    assert type(restore(lines[-1]["error"])) is GearRefusedError
    with pytest.raises(GearshiftError, match="unknown pipeline 'nobody'"):
        list(ask(home, "POST", "/api/pipelines/nobody/scale", {"parallelism": 8}))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_keeps_its_class_and_attributes_on_the_way(kind: type[GearshiftError]) -> None:
    attributes: dict[str, Any] = {
        "hint": "try again",
        "app": "a",
        "pipeline": "p",
        "topic": "t",
        "partition": 0,
        "offset": 5,
        "file": "a.py",
        "line": 3,
    }
    error = kind("it failed", **attributes)
    again = restore(json.loads(json.dumps(describe(error))))
    assert type(again) is kind
    assert str(again) == str(error)
    assert {name: getattr(again, name) for name in attributes} == attributes
    assert again.retriable is kind.retriable


def test_the_tree_at_the_top_of_the_errors_file_names_each_of_them() -> None:
    drawn = errors.__doc__ or ""
    assert all(kind.__name__ in drawn for kind in KINDS)


def test_a_missing_runner_is_reported_with_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match="no runner is running") as caught:
        list(ask(tmp_path, "GET", "/api/status"))
    assert caught.value.hint == 'start one with "gearshift run FILE"'


def test_a_runner_that_died_or_closed_its_port_is_reported(home: Path, server: ConsoleServer) -> None:
    server.close()
    with pytest.raises(RunnerError, match="connection to the runner failed"):
        list(ask(home, "GET", "/api/status"))
    info = RunnerInfo.read(home)
    assert info is not None
    replace(info, pid=Pid(info.pid.number, "another time")).write(home)
    with pytest.raises(RunnerError, match="no runner is running"):
        list(ask(home, "GET", "/api/status"))


def test_the_runner_file_is_private_and_is_read_as_written(home: Path, server: ConsoleServer) -> None:
    assert (home / "runner.json").stat().st_mode & 0o777 == 0o600
    info = RunnerInfo.read(home)
    assert info is not None and (info.port, info.token) == (server.port, server.access.token)
    RunnerInfo.remove(home)
    RunnerInfo.remove(home)
    assert RunnerInfo.read(home) is None
    (home / "runner.json").write_text("{")
    assert RunnerInfo.read(home) is None


def test_a_client_that_disconnects_does_not_stop_a_shift(
    server: ConsoleServer, capfd: pytest.CaptureFixture[str]
) -> None:
    body = json.dumps({"gear": "batch", "now": False})
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(
            "POST /api/pipelines/abandoned/shift HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {server.access.token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        assert b"200" in client.recv(100)
    GONE.set()
    assert FINISHED.wait(10), "the shift was given up"
    assert request(server)[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_a_page_follows_the_app_live_and_is_told_the_end(server: ConsoleServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", "/api/events", headers={"Authorization": f"Bearer {server.access.token}"})
    answer = connection.getresponse()
    assert answer.getheader("content-type", "").startswith("text/event-stream")
    seen: list[str] = []
    while len(seen) < 3:
        line = answer.readline().decode()
        if line.startswith("event: "):
            seen.append(line.strip())
        if line.startswith("data: ") and seen[-1] == "event: status":
            assert json.loads(line.removeprefix("data: "))["status"] == {"app": "words"}
    assert seen == ["event: history", "event: status", "event: status"]
    closing = threading.Thread(target=server.close)
    closing.start()
    answer.read()  # the stream ends, so that a stop of the app waits for no page
    closing.join(10)
    connection.close()
    assert not closing.is_alive()


def test_400_slow_clients_shut_nobody_out(server: ConsoleServer) -> None:
    slow = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(400)]
    try:
        for each in slow:
            each.sendall(b"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        assert request(server)[0] == 200
    finally:
        for each in slow:
            each.close()


def test_another_process_on_the_port_is_named(serve: Serve) -> None:
    first = serve()
    with pytest.raises(PortInUseError, match=f"port {first.port}: Address already in use"):
        serve(console_port=first.port)


def test_an_address_that_other_machines_reach_needs_a_certificate(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"console_host 0\.0\.0\.0 is open to other machines"):
        serve(console_host="0.0.0.0")
    (tmp_path / "bad.pem").write_text("no certificate")
    with pytest.raises(SettingsError, match="cannot use console_certificate"):
        serve(console_host="0.0.0.0", console_certificate=str(tmp_path / "bad.pem"))


def test_probes_and_prometheus_ask_from_outside_by_https_and_any_name_without_a_token(
    serve: Serve, tmp_path: Path
) -> None:
    pem = certificate(tmp_path)
    # Loopback in a form that the console does not take for it, so that it serves as on any other address.
    server = serve(console_host="127.1", console_certificate=str(pem))
    trusting = ssl.create_default_context(cafile=pem)

    def status(path: str, **headers: str) -> int:
        asking = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=10, context=trusting)
        try:
            asking.request("GET", path, headers={"Host": "10.244.1.7:8443", **headers})
            return asking.getresponse().status
        finally:
            asking.close()

    assert [status(path) for path in ("/health", "/ready", "/metrics")] == [200, 503, 200]
    assert status("/api/status") == 401
    assert status("/api/status", Authorization=f"Bearer {server.access.token}") == 200


def test_closing_ends_every_thread(serve: Serve) -> None:
    before = threading.active_count()
    server = serve()
    request(server)
    server.close()
    eventually(lambda: threading.active_count() <= before, within=5)
