"""The registry's HTTP server on loopback; every request needs the token from the registry's folder."""

from __future__ import annotations

import hmac
import json
import logging
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from gearshift.registry.api import Api, ApiError
from gearshift.registry.store import Store

_HOST = "127.0.0.1"
_LARGEST_REQUEST = 8 * 2**20
_IDLE_TIMEOUT = 60  # seconds
_log = logging.getLogger(__name__)


def serve(folder: Path, port: int) -> None:
    """Serve until this process is terminated."""
    token = (folder / "token").read_text(encoding="utf-8").strip()
    store = Store(folder / "registry.db")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    with ThreadingHTTPServer((_HOST, port), _handler(Api(store), token)) as server:
        server.daemon_threads = True
        _log.info("listening on %s:%d", _HOST, server.server_port)
        server.serve_forever()


def _handler(api: Api, token: str) -> type[BaseHTTPRequestHandler]:
    expected = f"Bearer {token}".encode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version, sys_version = "registry", ""
        timeout = _IDLE_TIMEOUT
        # A response is sent as one packet: of two, the second would wait for the client's ACK of the first.
        wbufsize, disable_nagle_algorithm = -1, True

        def do_GET(self) -> None:
            try:
                status, response = self._respond()
            except ApiError as refused:
                status, response = refused.status, {"error_code": refused.number, "message": str(refused)}
            except Exception:
                _log.error("%s %s\n%s", self.command, self.path, traceback.format_exc())
                status, response = (
                    500,
                    {"error_code": 50001, "message": "internal error; see the registry's log"},
                )
            self._send(status, response)

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - http.server's names

        def _respond(self) -> tuple[int, Any]:
            given = self.headers.get("Authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(given, expected):
                # The request's body is not read, so the connection cannot be reused.
                self.close_connection = True
                raise ApiError(401, "HTTP 401 Unauthorized")
            body = self._body()
            parts = urlsplit(self.path)
            # The path of Apicurio, which earlier versions of the stack ran.
            path = parts.path.removeprefix("/apis/ccompat/v7")
            if "%2f" in path.lower():
                raise ApiError(404, "a subject's name cannot contain /")
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
            return 200, api.handle(self.command, unquote(path), query, body)

        def _body(self) -> Any:
            length = self.headers.get("Content-Length", "0")
            if "Transfer-Encoding" in self.headers:
                self.close_connection = True
                raise ApiError(411, "the request has no Content-Length")
            if not length.isdecimal() or int(length) > _LARGEST_REQUEST:
                self.close_connection = True
                raise ApiError(413, f"the request is larger than {_LARGEST_REQUEST} bytes")
            text = self.rfile.read(int(length))
            if not text:
                return None
            try:
                return json.loads(text)
            except (ValueError, RecursionError):
                raise ApiError(422, "the request body is not JSON") from None

        def _send(self, status: int, response: Any) -> None:
            body = response.encode() if isinstance(response, str) else json.dumps(response).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            if status == 401:
                self.send_header("WWW-Authenticate", "Bearer")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
            _log.info("%s", format % args)

    return Handler
