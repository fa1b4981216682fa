"""Secrets out of words: whatever goes into a log, an error, a dead letter or a status goes through `redact`."""

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
_SHORTEST = 8  # characters of a known secret: a shorter one would take words out of every sentence
_NAMES = r"passw(?:or)?d|passphrase|pwd|secret|token|api[_.-]?key|(?:access|private|account)[_.-]?key|credentials?|user\.info"
_NAMED = re.compile(rf"(?i){_NAMES}|jaas")
_PATTERNS = (
    # A private key, also one that is cut off.
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
    """From now on these values are redacted wherever they turn up, as they are and as they stand in a URL."""
    for secret in secrets:
        if secret:
            for form in (secret, quote(secret, safe=""), unquote(secret)):
                if len(form) >= _SHORTEST:
                    _known[form] = None


def hide_named(settings: Mapping[str, str]) -> None:
    """Hide those of these settings whose names say that they are secrets; of `user:password` the password.

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


def redact(words: str) -> str:
    """The words without known secrets, passwords in URLs, private keys, bearer tokens, and values of `password=`.

    >>> redact("no route to postgresql://ann:hunter2@db/orders, password='hunter2'")
    'no route to postgresql://ann:***@db/orders, password=***'
    """
    # The longest first: one may be part of another.
    for secret in sorted(_known, key=len, reverse=True):
        words = words.replace(secret, _HIDDEN)
    for pattern, shown in _PATTERNS:
        words = pattern.sub(shown, words)
    return words


def cover_tracebacks() -> None:
    """Redact what Python prints of an exception that nobody catches, in this thread and in others."""

    def show(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))

    sys.excepthook = show
    threading.excepthook = lambda told: show(told.exc_type, told.exc_value, told.exc_traceback)


class RedactingFormatter(logging.Formatter):
    """Log lines, with their stack traces, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return redact(super().format(record))
