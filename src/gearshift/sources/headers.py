"""What the headers of a request say, before its body is looked at."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from email.message import Message
from typing import TYPE_CHECKING

from gearshift.sources.bodies import JSON, LINES, Refusal

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
        what = "there is nothing here" if name is None else f"there is no topic {name[:100]}"
        raise Refusal(404, what, hint=f"there are {', '.join(f'/topics/{each}' for each in topics)}")
    return topics[name]


def length_of(headers: Message) -> int:
    """The length of the body, if it is told and not too large."""
    told = headers.get_all("Content-Length") or []
    if headers.get("Transfer-Encoding") is not None or len(told) != 1:
        raise Refusal(411, "the request has no Content-Length", hint="send the body in one piece")
    text = str(told[0])
    if not (text.isascii() and text.isdecimal()):
        raise Refusal(411, "the request has no Content-Length", hint="send the body in one piece")
    if len(text) > 12 or int(text) > LARGEST_BODY:
        raise Refusal(
            413, f"the body has more than {LARGEST_BODY >> 20} MB", hint="send the records in several"
        )
    return int(text)


def let_in(headers: Message, token: str | None) -> None:
    """Refuse whoever does not have the token; without one, whoever is not on this machine."""
    if token is not None:
        given = str(headers.get("Authorization") or "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, f"Bearer {token}".encode()):
            raise Refusal(401, "the token is missing or wrong", hint="Authorization: Bearer …")
    # A page in a browser that resolves its own name to this machine shows it in the Host.
    elif _LOOPBACK.fullmatch(str(headers.get("Host") or "")) is None:
        raise Refusal(403, "only this machine may send", hint="give the source a token")


def is_lines(headers: Message) -> bool:
    """Whether the body is JSON lines, not JSON; other kinds of bodies are refused."""
    kind = headers.get_content_type()
    if headers.get("Content-Type") is None or kind not in (JSON, *LINES):
        raise Refusal(415, f"the body is {kind}", hint=f"send {JSON} or {LINES[0]}")
    charset = headers.get_content_charset() or "utf-8"
    if (
        charset not in ("utf-8", "us-ascii")
        or str(headers.get("Content-Encoding") or "identity") != "identity"
    ):
        raise Refusal(415, "the body is encoded", hint="send plain UTF-8")
    return kind in LINES


def idempotency_key(headers: Message) -> str | None:
    """What names this very request, if its sender may send it again."""
    keys = [str(key) for key in headers.get_all("Idempotency-Key") or []]
    if len(keys) > 1:
        raise Refusal(400, f"the request has {len(keys)} Idempotency-Keys", hint="send one")
    if keys and not 0 < len(keys[0]) <= _LONGEST_KEY:
        raise Refusal(400, f"the Idempotency-Key has {len(keys[0])} characters", hint="use a UUID")
    return keys[0] if keys else None
