"""How other terminals talk to a runner: a few JSON requests on loopback, with a token."""

from __future__ import annotations

import hmac
import http.client
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gearshift.errors import GearshiftError, PortInUseError, RunnerError, ShiftError
from gearshift.runner.metrics import render
from gearshift.runner.note import Note

Emit = Callable[[dict[str, Any]], None]
_LARGEST_REQUEST = 65_536


class Control:
    """Answers `status`, `shift` and `metrics` for a runner."""

    def __init__(
        self,
        status: Callable[[], dict[str, Any]],
        shift: Callable[[str, str, bool, Emit], None],
        *,
        port: int = 0,
    ) -> None:
        self.token = secrets.token_urlsafe(24)
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self.token, status, shift))
        except OSError as error:
            raise PortInUseError(
                f"port {port} for metrics: {error.strerror}", hint="set another metrics_port"
            ) from None
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="control", daemon=True
        )

    def open(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


def _handler(
    token: str, status: Callable[[], dict[str, Any]], shift: Callable[[str, str, bool, Emit], None]
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if (
                self.path == "/metrics" and self._is_local()
            ):  # a scraper has no token, and numbers are no secret
                self._text(render(status()))
                return
            if not self._allowed():
                return
            if self.path != "/status":
                self._begin(404)
                return
            found = status()
            self._begin(200)
            self._line(found)

        def do_POST(self) -> None:
            if not self._allowed():
                return
            length = self.headers.get("Content-Length") or ""
            if self.path != "/shift":
                self._begin(404)
                return
            try:
                wanted = json.loads(self.rfile.read(min(int(length), _LARGEST_REQUEST)))
                pipeline, gear, now = str(wanted["pipeline"]), str(wanted["gear"]), bool(wanted["now"])
            except (ValueError, KeyError, TypeError):
                self._begin(400)
                return
            self._begin(200)
            try:
                shift(pipeline, gear, now, self._tell)
            except GearshiftError as error:
                self._tell({"error": describe(error)})
            except Exception as error:
                self._tell({"error": {"kind": "ShiftError", "what": f"{type(error).__name__}: {error}"}})

        def _allowed(self) -> bool:
            # The token keeps other users out.
            given = (self.headers.get("Authorization") or "").encode()
            if self._is_local() and hmac.compare_digest(given, f"Bearer {token}".encode()):
                return True
            self._begin(403)
            return False

        def _is_local(self) -> bool:
            # A page in a browser that resolves its name to us shows it in the Host.
            return (self.headers.get("Host") or "").rsplit(":", 1)[0] in ("127.0.0.1", "localhost")

        def _text(self, text: str) -> None:
            self._begin(200, "text/plain; version=0.0.4; charset=utf-8")
            self.wfile.write(text.encode())

        def _begin(self, code: int, kind: str = "application/x-ndjson") -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Connection", "close")
            self.end_headers()

        def _tell(self, data: dict[str, Any]) -> None:
            # A client may go away in the middle of a shift; the shift goes on without it.
            with suppress(OSError):
                self._line(data)

        def _line(self, data: dict[str, Any]) -> None:
            self.wfile.write(json.dumps(data).encode() + b"\n")
            self.wfile.flush()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Handler


def describe(error: GearshiftError) -> dict[str, Any]:
    """An error as plain data."""
    names = ("what", "hint", "app", "pipeline", "delivery", "topic", "partition", "offset", "file", "line")
    return {"kind": type(error).__name__, **{name: getattr(error, name) for name in names}}


def restore(described: dict[str, Any]) -> GearshiftError:
    """The error that a runner described, of its own class."""
    from gearshift import errors

    kind: type[GearshiftError] = getattr(errors, described.pop("kind"), ShiftError)
    return kind(described.pop("what"), **described)


def ask(home: Path, method: str, path: str, body: dict[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    """Ask the runner of this folder; each line of its answer, as it comes."""
    note = Note.find(home)
    if note is None or not note.pid.alive:
        raise RunnerError(f"no runner answers in {home}", hint='start one with "gearshift run FILE"')
    connection = http.client.HTTPConnection("127.0.0.1", note.port)
    try:
        connection.request(
            method,
            path,
            body=json.dumps(body) if body is not None else None,
            headers={"Authorization": f"Bearer {note.token}"},
        )
        answer = connection.getresponse()
        if answer.status != 200:
            raise RunnerError(f"the runner refused: {answer.status}", hint="is it of another version?")
        for line in answer:
            yield json.loads(line)
    except (ConnectionError, http.client.HTTPException) as error:
        raise RunnerError(f"the runner stopped answering: {error}", hint='see "gearshift status"') from error
    finally:
        connection.close()
