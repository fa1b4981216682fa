"""Checks the headers of a request before its body is read."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from email.message import Message
from typing import TYPE_CHECKING

from gearshift.sources.http.bodies import JSON, LINES, Refusal

if TYPE_CHECKING:
    from gearshift.definitions import Topic

LARGEST_BODY = 8 << 20
_LONGEST_KEY = 255
_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?", re.IGNORECASE | re.ASCII)


def topic_of(path: str, topics: Mapping[str, Topic]) -> Topic:
    """The topic that a path names."""
    parts = path.split("/")
    name = parts[2] if len(parts) == 3 and parts[:2] == ["", "topics"] else None
    if name is None or name not in topics:
        what = "not found" if name is None else f"unknown topic {name[:100]}"
        raise Refusal(404, what, hint=f"send to {' or '.join(f'/topics/{each}' for each in topics)}")
    return topics[name]


def length_of(headers: Message) -> int:
    """The length of the body; Refusal if it is missing or too large."""
    lengths = headers.get_all("Content-Length") or []
    if headers.get("Transfer-Encoding") is not None or len(lengths) != 1:
        raise Refusal(411, "the request has no Content-Length", hint="send the body without chunked encoding")
    text = str(lengths[0])
    if not (text.isascii() and text.isdecimal()):
        raise Refusal(411, "the request has no Content-Length", hint="send the body without chunked encoding")
    if len(text) > 12 or int(text) > LARGEST_BODY:
        raise Refusal(
            413,
            f"the body is larger than {LARGEST_BODY >> 20} MB",
            hint="split the records over several requests",
        )
    return int(text)


def authenticate(headers: Message, token: str | None) -> None:
    """Reject requests without the token; if no token is configured, those that do not address loopback."""
    if token is not None:
        given = str(headers.get("Authorization") or "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, f"Bearer {token}".encode()):
            raise Refusal(
                401, "the token is missing or wrong", hint="send the header Authorization: Bearer …"
            )
    # A web page whose domain resolves to loopback sends that domain as Host (DNS rebinding).
    elif _LOOPBACK.fullmatch(str(headers.get("Host") or "")) is None:
        raise Refusal(403, "only requests from this machine are accepted", hint="give the source a token")


def is_lines(headers: Message) -> bool:
    """Whether the body is JSON lines and not JSON; other content types are rejected."""
    kind = headers.get_content_type()
    if headers.get("Content-Type") is None or kind not in (JSON, *LINES):
        raise Refusal(415, f"unsupported content type {kind}", hint=f"send {JSON} or {LINES[0]}")
    charset = headers.get_content_charset() or "utf-8"
    if (
        charset not in ("utf-8", "us-ascii")
        or str(headers.get("Content-Encoding") or "identity") != "identity"
    ):
        raise Refusal(415, "the body is encoded or not UTF-8", hint="send plain UTF-8")
    return kind in LINES


def idempotency_key(headers: Message) -> str | None:
    """The Idempotency-Key, which identifies a request that its sender may repeat."""
    keys = [str(key) for key in headers.get_all("Idempotency-Key") or []]
    if len(keys) > 1:
        raise Refusal(400, f"the request has {len(keys)} Idempotency-Keys", hint="send only one")
    if keys and not 0 < len(keys[0]) <= _LONGEST_KEY:
        raise Refusal(400, f"the Idempotency-Key has {len(keys[0])} characters", hint="use a UUID")
    return keys[0] if keys else None
