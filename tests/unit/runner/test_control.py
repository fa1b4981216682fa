"""What a runner answers on loopback, and to whom."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gearshift import errors
from gearshift.errors import GearRefusedError, GearshiftError, RunnerError, ShiftError
from gearshift.runner.control import Control, Emit, ask, describe, restore
from gearshift.runner.note import Note
from gearshift.stack.processes import Pid

KINDS = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GearshiftError)),
    key=lambda kind: kind.__name__,
)
REFUSED = GearRefusedError("no", hint="write it otherwise", pipeline="copy", file="app.py", line=7)


FINISHED = threading.Event()
GONE = threading.Event()


def shift(pipeline: str, gear: str, now: bool, emit: Emit) -> None:
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


@pytest.fixture
def control() -> Iterator[Control]:
    control = Control(lambda: {"app": "smart-meter"}, shift)
    control.open()
    yield control
    control.close()


@pytest.fixture
def home(control: Control, tmp_path: Path) -> Path:
    pid = Pid.of(os.getpid())
    assert pid is not None
    Note(app="a", file="a.py", pid=pid, spark_pid=None, port=control.port, token=control.token).leave(
        tmp_path
    )
    return tmp_path


def request(
    control: Control, method: str = "GET", path: str = "/status", body: bytes | None = None, **headers: str
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", control.port, timeout=5)
    try:
        given = {"Authorization": f"Bearer {control.token}", **headers}
        connection.request(method, path, body=body, headers=given)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_whoever_has_the_token_is_answered(control: Control) -> None:
    assert request(control) == (200, b'{"app": "smart-meter"}\n')
    assert request(control, Host=f"localhost:{control.port}")[0] == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("token", ["", "Bearer wrong", "Bearer ", "Basic dTpw", "Bearer \xe4"])
def test_a_wrong_token_is_refused_once_and_told_nothing(control: Control, method: str, token: str) -> None:
    path = "/status" if method == "GET" else "/shift"
    assert request(control, method, path, Authorization=token) == (403, b"")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:127", "", "127.0.0.1.evil.example"])
def test_a_page_that_resolves_its_own_name_to_us_is_refused(control: Control, host: str) -> None:
    assert request(control, Host=host) == (403, b"")


def test_what_there_is_not_is_not_found(control: Control) -> None:
    assert request(control, path="/secrets")[0] == 404
    assert request(control, "POST", "/status", b"{}")[0] == 404


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"pipeline": "copy"}', b"\xff", b'"' + b"x" * 70_000])
def test_a_request_that_makes_no_sense_is_answered_so(control: Control, body: bytes) -> None:
    assert request(control, "POST", "/shift", body) == (400, b"")


def test_the_steps_of_a_shift_come_line_by_line(home: Path) -> None:
    lines = list(ask(home, "POST", "/shift", {"pipeline": "copy", "gear": "batch", "now": True}))
    assert [next(iter(line)) for line in lines] == ["step", "shifted"]
    assert lines[-1]["shifted"] == {"pipeline": "copy", "after": "batch", "now": True}


def test_an_error_of_a_shift_arrives_as_the_error_it_is(home: Path) -> None:
    lines = list(ask(home, "POST", "/shift", {"pipeline": "refused", "gear": "batch", "now": False}))
    error = restore(lines[-1]["error"])
    assert type(error) is GearRefusedError
    assert str(error) == str(REFUSED)
    lines = list(ask(home, "POST", "/shift", {"pipeline": "broken", "gear": "batch", "now": False}))
    error = restore(lines[-1]["error"])
    assert type(error) is ShiftError and "py4j went away" in error.what


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


def test_no_runner_is_an_error_that_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match="no runner answers") as caught:
        list(ask(tmp_path, "GET", "/status"))
    assert caught.value.hint == 'start one with "gearshift run FILE"'


def test_a_note_of_a_dead_runner_or_of_one_that_hung_up_is_no_runner(home: Path, control: Control) -> None:
    control.close()
    with pytest.raises(RunnerError, match="stopped answering"):
        list(ask(home, "GET", "/status"))
    note = Note.find(home)
    assert note is not None
    dead = Pid(note.pid.number, "another time")
    Note(app="a", file="", pid=dead, spark_pid=None, port=note.port, token=note.token).leave(home)
    with pytest.raises(RunnerError, match="no runner answers"):
        list(ask(home, "GET", "/status"))


def test_only_its_user_can_read_the_note_and_it_is_read_as_it_was_left(home: Path, control: Control) -> None:
    assert (home / "runner.json").stat().st_mode & 0o777 == 0o600
    note = Note.find(home)
    assert note is not None and (note.port, note.token) == (control.port, control.token)
    Note.remove(home)
    Note.remove(home)
    assert Note.find(home) is None
    (home / "runner.json").write_text("{")
    assert Note.find(home) is None


def test_a_client_that_goes_away_stops_no_shift(control: Control, capfd: pytest.CaptureFixture[str]) -> None:
    body = json.dumps({"pipeline": "abandoned", "gear": "batch", "now": False})
    with socket.create_connection(("127.0.0.1", control.port)) as client:
        client.sendall(
            f"POST /shift HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {control.token}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        assert b"200" in client.recv(100)
    GONE.set()
    assert FINISHED.wait(10), "the shift was given up"
    assert request(control)[0] == 200
    assert "Traceback" not in capfd.readouterr().err
