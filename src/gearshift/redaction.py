"""Redaction of secrets: text for logs, errors, dead letters and status goes through `redact`."""

from __future__ import annotations

import logging
import re
import sys
import threading
import traceback
from collections.abc import Mapping
from types import TracebackType
from urllib.parse import quote, unquote

_HIDDEN = "***"
_SHORTEST = 8  # shorter secrets are not searched for: they would match ordinary words
_NAMES = r"passw(?:or)?d|passphrase|pwd|secret|token|api[_.-]?key|(?:access|private|account)[_.-]?key|credentials?|user\.info"
_NAMED = re.compile(rf"(?i){_NAMES}|jaas")
_PATTERNS = (
    # A private key, even if truncated.
    (
        re.compile(r"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL),
        r"-----BEGIN \1-----***",
    ),
    # scheme://user:password@host
    (re.compile(r"(\w://[^\s/?#:@'\"]*):[^\s/?#'\"]+@"), rf"\1:{_HIDDEN}@"),
    (re.compile(r"(?i)\b(authorization['\"]?\s*[:=]\s*['\"]?)(?:[a-z]+\s+)?[^\s'\",;]+"), rf"\1{_HIDDEN}"),
    (re.compile(r"(?i)\b(bearer)\s+[\w.~+/=-]{8,}"), rf"\1 {_HIDDEN}"),
    (re.compile(r"\b([Bb]asic)\s+(?=[A-Za-z0-9+/]*[0-9=+/])[A-Za-z0-9+/]{8,}={0,2}"), rf"\1 {_HIDDEN}"),
    # password=…, "api_key": "…", spark.hadoop.fs.s3a.secret.key=…
    (
        re.compile(
            rf"(?i)([\w.-]*(?:{_NAMES})[\w.-]*['\"]?\s*[=:]\s*)"
            r"(?:b?\"(?:[^\"\\]|\\.)*\"|b?'(?:[^'\\]|\\.)*'|SecretStr\([^)]*\)|[^\s,;&)}\]]+)"
        ),
        rf"\1{_HIDDEN}",
    ),
    (re.compile(r"\bwhsec_[\w+/=-]+"), f"whsec_{_HIDDEN}"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"), _HIDDEN),  # a JSON Web Token
)
_known: dict[str, None] = {}


def hide(*secrets: str | None) -> None:
    """Redact these values from now on, both literally and URL-encoded."""
    for secret in secrets:
        if secret:
            for form in (secret, quote(secret, safe=""), unquote(secret)):
                if len(form) >= _SHORTEST:
                    _known[form] = None


def hide_named(settings: Mapping[str, str]) -> None:
    """Hide the settings whose names mark them as secrets; of `user:password`, the password.

    >>> hide_named({"sasl.mechanism": "PLAIN", "basic.auth.user.info": "ann:correct horse"})
    >>> redact("PLAIN login with correct horse failed")
    'PLAIN login with *** failed'
    """
    for name, value in settings.items():
        if _NAMED.search(name):
            hide(value)
            hide(value.partition(":")[2] if "user.info" in name else None)
            hide(*re.findall(r'password="([^"]+)"', value))


def hide_in_url(url: str | None) -> None:
    """Hide the password in `scheme://user:password@host`, or in `user:password@host`."""
    login = (url or "").partition("://")[2] or (url or "")
    hide(login.rpartition("@")[0].partition(":")[2])


def redact(text: str) -> str:
    """The text without known secrets, passwords in URLs, private keys, bearer tokens, and values of `password=`.

    >>> redact("no route to postgresql://ann:hunter2@db/orders, password='hunter2'")
    'no route to postgresql://ann:***@db/orders, password=***'
    """
    # The longest first, since one secret may contain another.
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    for pattern, shown in _PATTERNS:
        text = pattern.sub(shown, text)
    return text


def cover_tracebacks() -> None:
    """Redact the tracebacks of uncaught exceptions, in all threads."""

    def show(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))

    sys.excepthook = show
    threading.excepthook = lambda args: show(args.exc_type, args.exc_value, args.exc_traceback)


class RedactingFormatter(logging.Formatter):
    """A log formatter that redacts lines and stack traces."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record and redact it."""
        return redact(super().format(record))
