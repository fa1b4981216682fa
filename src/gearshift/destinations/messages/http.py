"""HTTP POST to one URL, with pooled connections, timeouts and classification of the responses."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from threading import Lock
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ReadTimeoutError, SSLError

from gearshift.destinations.messages.network import is_loopback, require_host, shown
from gearshift.errors import (
    DefinitionError,
    DeliveryError,
    OutcomeUnknownError,
    PermanentError,
    RetriableError,
)

# 409 is the response of the Idempotency-Key convention while the first attempt is still being processed.
_RETRIABLE = frozenset({408, 409, 425, 429})
# Errors of one record. Any other error concerns the URL, the login or the account, and so every record: it stops the
# delivery.
_PER_RECORD = frozenset({400, 413, 422})
_AUTHENTICATION_FAILED = frozenset({401, 403, 407})
_CONNECTIONS = 64  # pooled at most; further threads open additional connections
_READ = 65_536  # bytes of a response that are read to reuse the connection
_LONGEST_WAIT = timedelta(hours=1)  # limit of Retry-After: one response must not stop a delivery for days


class Endpoint:
    """A URL that many threads post to over pooled connections."""

    def __init__(
        self, url: str, *, timeout: timedelta, idempotent: bool, hidden: tuple[str | None, ...] = ()
    ) -> None:
        """`idempotent`: the receiver processes requests with the same Idempotency-Key once."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise DefinitionError(f"invalid URL: {error}") from None
        # urlsplit removes line breaks, and the client would reject other characters at the first record.
        if any(letter.isspace() or not letter.isprintable() for letter in url):
            raise DefinitionError("the URL contains a space or a control character")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise DefinitionError(
                "the URL is not an http or https URL", hint="write it as in https://example.org/in"
            )
        require_host(parts.hostname)
        if port == 0:
            raise DefinitionError(f"the URL of {parts.hostname} has port 0")
        if parts.username is not None or parts.fragment:
            raise DefinitionError(f"the URL of {parts.hostname} contains a user or a fragment")
        if timeout <= timedelta(0):
            raise DefinitionError("timeout must be positive")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.origin = f"{parts.scheme}://{host}" + (f":{port}" if port else "")
        """The part of the URL shown in errors: path and query often contain a secret."""
        self._is_https = parts.scheme == "https"
        self.is_private = self._is_https or is_loopback(parts.hostname)
        """Whether the traffic is encrypted or stays on this machine."""
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._seconds = timeout.total_seconds()
        self._idempotent = idempotent
        self._hidden = hidden
        self._pool: urllib3.HTTPConnectionPool | None = None
        self._lock = Lock()

    def open(self) -> urllib3.HTTPConnectionPool:
        """The connection pool, created on first use."""
        pool = self._pool
        if pool is None:
            with self._lock:
                if self._pool is None:
                    # One context for all connections: loading the system's certificates is slow.
                    secure = {"ssl_context": ssl.create_default_context()} if self._is_https else {}
                    self._pool = urllib3.connection_from_url(
                        self.origin, maxsize=_CONNECTIONS, timeout=self._seconds, retries=False, **secure
                    )
                pool = self._pool
        return pool

    def close(self) -> None:
        """Close idle connections; one in use is closed after its response."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def post(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Post, and return when the response is 2xx.

        Raise RetriableError if a retry may succeed, PermanentError if this body was rejected, DeliveryError if any would be.
        """
        deadline = time.monotonic() + self._seconds
        try:
            response = self.open().urlopen(
                "POST",
                self._target,
                body=body,
                headers=headers,
                redirect=False,
                retries=False,
                preload_content=False,
                decode_content=False,  # a compressed response could expand to any size
            )
        except NewConnectionError as error:  # before its parent class ConnectTimeoutError
            raise RetriableError(f"cannot connect to {self.origin}") from error
        except ConnectTimeoutError as error:
            raise RetriableError(
                f"connecting to {self.origin} timed out after {self._seconds:g} s"
            ) from error
        except ReadTimeoutError as error:
            raise self._unanswered(f"{self.origin} did not respond within {self._seconds:g} s") from error
        except SSLError as error:
            if not _is_untrusted(error):
                raise RetriableError(f"TLS handshake with {self.origin} failed: {error}") from error
            raise DeliveryError(
                f"the certificate of {self.origin} is not trusted",
                hint="set SSL_CERT_FILE to the file of your certificate authority",
            ) from error
        except (HTTPError, OSError) as error:
            raise self._unanswered(
                f"{self.origin} closed the connection during the request: {type(error).__name__}"
            ) from error
        answer = _beginning(response, deadline)
        if not 200 <= response.status < 300:
            raise self._rejection(response.status, answer, response.headers)

    def _unanswered(self, what: str) -> RetriableError:
        if self._idempotent:
            return RetriableError(what)
        return OutcomeUnknownError(
            f"{what}; it may have been delivered",
            hint="ask the receiver before replaying it; set idempotent=True if it drops repeated Idempotency-Keys",
        )

    def _rejection(self, status: int, answer: bytes, headers: Mapping[str, str]) -> Exception:
        what = f"{self.origin} answered {status}"
        if 300 <= status < 400:
            return DeliveryError(what, hint="redirects are not followed; use the URL in its Location header")
        if text := shown(answer, hidden=self._hidden):
            what = f"{what}: {text}"
        if status >= 500 or status in _RETRIABLE:
            error = RetriableError(what)
            error.retry_after = retry_after(headers.get("Retry-After"), now=datetime.now(UTC))  # pyright: ignore[reportAttributeAccessIssue]
            return error
        if status in _PER_RECORD:
            return PermanentError(what)
        if status in _AUTHENTICATION_FAILED:
            return DeliveryError(what, hint="check the token or secret and its permissions")
        return DeliveryError(what, hint="check the URL and the account")


def retry_after(header: str | None, *, now: datetime) -> timedelta | None:
    """Parse Retry-After: a number of seconds or an HTTP date, limited to an hour.

    >>> retry_after("3", now=datetime.now(UTC)).total_seconds()
    3.0
    >>> retry_after("Wed, 21 Oct 2026 07:28:00 GMT", now=datetime(2026, 10, 21, 7, 27, tzinfo=UTC)).total_seconds()
    60.0
    >>> retry_after("soon", now=datetime.now(UTC))
    """
    if header is None:
        return None
    text = header.strip()
    try:
        if text.isascii() and text.isdigit():
            return timedelta(seconds=min(int(text), _LONGEST_WAIT.total_seconds()))
        at = parsedate_to_datetime(text)
        wait = (at if at.tzinfo else at.replace(tzinfo=UTC)) - now
    except (ValueError, OverflowError):
        return None
    return min(max(wait, timedelta(0)), _LONGEST_WAIT)


def header_value(name: str, value: str) -> str:
    """Check a header value: one line of printable ASCII.

    >>> header_value("Idempotency-Key", "4f2a")
    '4f2a'
    """
    if not (value.isascii() and value.isprintable() and 0 < len(value) <= 255):
        raise PermanentError(f"{name} must be 1 to 255 printable ASCII characters")
    return value


def _is_untrusted(error: SSLError) -> bool:
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in error.args)


def _beginning(response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
    """The first bytes of a response; its connection is reused if that was all of it."""
    begin = bytearray()
    # The status is known: a response that breaks off afterwards changes nothing.
    with suppress(HTTPError, OSError):
        while len(begin) < _READ and time.monotonic() < deadline:
            chunk = response.read1(_READ)
            if not chunk:
                response.release_conn()
                return bytes(begin)
            begin += chunk
    response.close()
    return bytes(begin)
