"""An HTTP address that takes POSTs: kept connections, timeouts, and which answers are worth another try."""

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

from gearshift.destinations.network import is_loopback, require_host, shown
from gearshift.errors import (
    DefinitionError,
    DeliveryError,
    OutcomeUnknownError,
    PermanentError,
    RetriableError,
)

# 409 is what the Idempotency-Key convention answers while the first try is still being worked on.
_WORTH_ANOTHER_TRY = frozenset({408, 409, 425, 429})
# What can be wrong with one record alone. Any other refusal is of the address, the login or the account, and would meet
# every record: it stops the delivery.
_OF_A_RECORD = frozenset({400, 413, 422})
_REFUSES_US = frozenset({401, 403, 407})
_CONNECTIONS = 64  # kept open at most; more threads than that are served, over connections of their own
_READ = 65_536  # bytes of an answer that are read to keep the connection
_LONGEST_WAIT = timedelta(
    hours=1
)  # what a receiver may ask for: one answer must not stop a delivery for days


class Endpoint:
    """One address, posted to from many threads at once over connections that are kept."""

    def __init__(
        self, url: str, *, timeout: timedelta, idempotent: bool, hidden: tuple[str | None, ...] = ()
    ) -> None:
        """`idempotent` says that whoever answers acts once on requests with one Idempotency-Key."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise DefinitionError(f"the address is not a URL: {error}") from None
        # urlsplit leaves line breaks out, and the client would refuse the others with the first record.
        if any(letter.isspace() or not letter.isprintable() for letter in url):
            raise DefinitionError("the address has a space or a control character in it")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise DefinitionError(
                "the address is not an http or https URL", hint="as in https://example.org/in"
            )
        require_host(parts.hostname)
        if port == 0:
            raise DefinitionError(f"the address on {parts.hostname} has port 0")
        if parts.username is not None or parts.fragment:
            raise DefinitionError(f"the address on {parts.hostname} has a user or a fragment in it")
        if timeout <= timedelta(0):
            raise DefinitionError("the timeout is not above zero")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.origin = f"{parts.scheme}://{host}" + (f":{port}" if port else "")
        """What errors show of the address: its path and query often are the secret."""
        self._is_https = parts.scheme == "https"
        self.is_private = self._is_https or is_loopback(parts.hostname)
        """Whether nobody on the way can read what is sent."""
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._seconds = timeout.total_seconds()
        self._idempotent = idempotent
        self._hidden = hidden
        self._pool: urllib3.HTTPConnectionPool | None = None
        self._lock = Lock()

    def open(self) -> urllib3.HTTPConnectionPool:
        """The pool of connections, made when first asked for; it connects when it is first used."""
        pool = self._pool
        if pool is None:
            with self._lock:
                if self._pool is None:
                    # One context for all connections: reading the machine's certificates takes its time.
                    secure = {"ssl_context": ssl.create_default_context()} if self._is_https else {}
                    self._pool = urllib3.connection_from_url(
                        self.origin, maxsize=_CONNECTIONS, timeout=self._seconds, retries=False, **secure
                    )
                pool = self._pool
        return pool

    def close(self) -> None:
        """Close the connections that are idle; one in use is closed when its answer is there."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def post(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Return when the answer is 2xx; raise what it was otherwise.

        RetriableError if it may change, PermanentError if this body is refused, DeliveryError if any body would be.
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
                decode_content=False,  # a compressed answer could unpack to any size
            )
        except NewConnectionError as error:  # before its parent, though it has nothing to do with time
            raise RetriableError(f"nobody answers at {self.origin}") from error
        except ConnectTimeoutError as error:
            raise RetriableError(f"{self.origin} did not connect within {self._seconds:g} s") from error
        except ReadTimeoutError as error:
            raise self._unanswered(f"{self.origin} did not answer within {self._seconds:g} s") from error
        except SSLError as error:
            if not _is_untrusted(error):
                raise RetriableError(f"{self.origin} did not complete a TLS handshake: {error}") from error
            raise DeliveryError(
                f"{self.origin} has no certificate this machine trusts",
                hint="name the file of your own authority in SSL_CERT_FILE",
            ) from error
        except (HTTPError, OSError) as error:
            raise self._unanswered(f"{self.origin} broke off the request: {type(error).__name__}") from error
        answer = _beginning(response, deadline)
        if not 200 <= response.status < 300:
            raise self._refusal(response.status, answer, response.headers)

    def _unanswered(self, what: str) -> RetriableError:
        if self._idempotent:
            return RetriableError(what)
        return OutcomeUnknownError(
            f"{what}; it may have been delivered",
            hint="ask the receiver before you replay it; say idempotent=True if it drops repeated Idempotency-Keys",
        )

    def _refusal(self, status: int, answer: bytes, headers: Mapping[str, str]) -> Exception:
        what = f"{self.origin} answered {status}"
        if 300 <= status < 400:
            return DeliveryError(what, hint="redirects are not followed; use the address it names")
        if text := shown(answer, hidden=self._hidden):
            what = f"{what}: {text}"
        if status >= 500 or status in _WORTH_ANOTHER_TRY:
            error = RetriableError(what)
            error.retry_after = retry_after(headers.get("Retry-After"), now=datetime.now(UTC))  # pyright: ignore[reportAttributeAccessIssue]
            return error
        if status in _OF_A_RECORD:
            return PermanentError(what)
        if status in _REFUSES_US:
            return DeliveryError(what, hint="check the token or secret, and what it is allowed to do")
        return DeliveryError(what, hint="check the address, and the account there")


def retry_after(header: str | None, *, now: datetime) -> timedelta | None:
    """How long a receiver asks to wait: a number of seconds or an HTTP date, an hour at most.

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
    """A value as it may stand in a header: one line of printable ASCII.

    >>> header_value("Idempotency-Key", "4f2a")
    '4f2a'
    """
    if not (value.isascii() and value.isprintable() and 0 < len(value) <= 255):
        raise PermanentError(f"{name} is not 1 to 255 printable ASCII characters")
    return value


def _is_untrusted(error: SSLError) -> bool:
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in error.args)


def _beginning(response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
    """The first bytes of an answer; its connection is kept when that was all of it."""
    begin = bytearray()
    # The status has said what happened: an answer that breaks off afterwards changes nothing.
    with suppress(HTTPError, OSError):
        while len(begin) < _READ and time.monotonic() < deadline:
            chunk = response.read1(_READ)
            if not chunk:
                response.release_conn()
                return bytes(begin)
            begin += chunk
    response.close()
    return bytes(begin)
