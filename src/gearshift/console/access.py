"""Who may use the console: tokens, cookies, Host and Origin, read-only, and the headers that confine a page."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any, Literal
from urllib.parse import parse_qs, urlencode

from gearshift.console.problems import describe
from gearshift.errors import RunnerError

MAX_BODY = 2 << 20
"""Bytes of a request's body."""
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_OPEN = ("/metrics", "/health", "/ready")
_STATIC = "/static/"
_DRAIN_TIMEOUT = 2.0
_READS = ("GET", "HEAD")
_SECURITY = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_ASK_FOR_TOKEN = (
    "<!doctype html><html lang='en'><title>Gearshift</title><h1>This page needs its token</h1>"
    "<p>Open the address that <code>gearshift run</code> printed, or run <code>gearshift console</code>.</p></html>"
)

Scope = dict[str, Any]
Grant = Literal["write", "read"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The tokens of one server, and the hosts that it answers for."""

    read_only: bool = False
    """Whether pages only show."""
    hosts: frozenset[str] | None = LOOPBACK
    """The names that it answers to; None for any, where a certificate proves its name."""
    https: bool = False
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    """For the command line of the same user: reads and writes."""
    page_token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    """For pages: reads, and writes unless the console is read-only."""

    def grant(self, given: str) -> Grant | None:
        """What the bearer of a token may do."""
        if _same(given, self.token):
            return "write"
        if _same(given, self.page_token):
            return "read" if self.read_only else "write"
        return None


class Guard:
    """An ASGI application in front of the console's: lets through what `Access` allows."""

    def __init__(self, app: Any, access: Access, reading: tuple[str, ...] = ()) -> None:
        """`reading` are the ends of paths whose POST only reads."""
        self._app = app
        self._access = access
        self._reading = reading

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        port = scope["server"][1]
        refusal = self._refusal(scope, headers, port)
        if refusal is not None:
            await _respond(receive, send, *refusal)
            return

        async def confined(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in _SECURITY.items()]
                # A browser asks again whether a script has changed: an upgrade must not leave old ones behind.
                cached = b"no-cache" if scope["path"].startswith(_STATIC) else b"no-store"
                own.append((b"cache-control", cached))
                message = {**message, "headers": [*message.get("headers", []), *own]}
            await send(message)

        await self._app(scope, receive, confined)

    def _refusal(
        self, scope: Scope, headers: Mapping[str, str], port: int
    ) -> tuple[int, dict[str, str], str] | None:
        """The response to a request that is not passed on: status, headers, body."""
        path, method = str(scope["path"]), str(scope["method"])
        host = headers.get("host", "")
        # A web page whose domain resolves to this address sends that domain as Host (DNS rebinding).
        if self._access.hosts is not None and _name_of(host) not in self._access.hosts:
            return _error(403, "this Host is not the console's", "open it by the address that it printed")
        origin = headers.get("origin")
        own = f"{'https' if self._access.https else 'http'}://{host}"
        if origin is not None and origin != own:
            return _error(403, "requests of other sites are not answered", None)
        if path in _OPEN or path.startswith(_STATIC):
            return None if method in _READS else _error(405, "only GET is allowed here", None)
        grant, by_cookie = self._granted(headers, port)
        if grant is None:
            return self._enter(scope, port) if method == "GET" else _unauthorized(path)
        if method not in _READS:
            length = headers.get("content-length", "0" if "transfer-encoding" not in headers else "")
            if not length.isdecimal() or int(length) > MAX_BODY:
                return _error(413, f"the body is larger than {MAX_BODY:,} bytes or has no length", None)
            if by_cookie and origin is None:  # browsers send it with every write
                return _error(403, "a write of a page needs its Origin", None)
            if grant == "read" and not (method == "POST" and path.endswith(self._reading)):
                return _error(
                    403, "the console is read-only", "run the command line, or start without --read-only"
                )
        elif method == "GET" and _token_of(scope) is not None and not path.startswith("/api/"):
            return self._enter(scope, port)  # the token leaves the address bar
        return None

    def _granted(self, headers: Mapping[str, str], port: int) -> tuple[Grant | None, bool]:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._access.grant(given), False
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(cookie_name(port))
        except CookieError:
            cookie = None
        return (self._access.grant(cookie.value), True) if cookie is not None else (None, False)

    def _enter(self, scope: Scope, port: int) -> tuple[int, dict[str, str], str]:
        """Take the token of a printed address into a cookie, which is sent by this site's own pages alone."""
        path, token = str(scope["path"]), _token_of(scope)
        if path.startswith("/api/") or token is None or self._access.grant(token) is None:
            return _unauthorized(path)
        rest = {
            name: values
            for name, values in parse_qs(scope["query_string"].decode("latin-1")).items()
            if name != "token"
        }
        secure = "; Secure" if self._access.https else ""
        cookie = f"{cookie_name(port)}={token}; Path=/; HttpOnly; SameSite=Strict{secure}"
        query = f"?{urlencode(rest, doseq=True)}" if rest else ""
        # One slash: a path such as //evil.example would lead to another host.
        return 303, {"location": f"/{path.lstrip('/')}{query}", "set-cookie": cookie}, ""


def cookie_name(port: int) -> str:
    """The cookie of the console at a port; cookies of one host do not differ by port."""
    return f"gearshift_{port}"


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())


def _name_of(host: str) -> str:
    """A Host without its port.

    >>> _name_of("127.0.0.1:80"), _name_of("[::1]:80"), _name_of("localhost")
    ('127.0.0.1', '[::1]', 'localhost')
    """
    name, colon, port = host.rpartition(":")
    return name.lower() if colon and port.isdecimal() else host.lower()


def _token_of(scope: Scope) -> str | None:
    found = parse_qs(scope["query_string"].decode("latin-1")).get("token")
    return found[-1] if found else None


def _unauthorized(path: str) -> tuple[int, dict[str, str], str]:
    if path.startswith("/api/"):
        return _error(401, "the request has no valid token", "send Authorization: Bearer TOKEN")
    return 401, {"content-type": "text/html; charset=utf-8"}, _ASK_FOR_TOKEN


def _error(status: int, what: str, hint: str | None) -> tuple[int, dict[str, str], str]:
    body = json.dumps({"error": describe(RunnerError(what, hint=hint))})
    return status, {"content-type": "application/json"}, body


async def _respond(receive: Any, send: Any, status: int, headers: dict[str, str], body: str) -> None:
    content = body.encode()
    named = {
        **headers,
        **_SECURITY,
        "cache-control": "no-store",
        "content-length": str(len(content)),
        "connection": "close",
    }
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": content, "more_body": True})
    # Closing the connection while the client still sends would lose the response.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_TIMEOUT):
            while (await receive()).get("more_body"):
                pass
    await send({"type": "http.response.body", "body": b"", "more_body": False})
