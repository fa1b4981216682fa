"""E-mail over SMTP, with pooled connections and one Message-ID per record."""

from __future__ import annotations

import smtplib
import socket
import ssl
import uuid
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from threading import Lock
from typing import Literal

from gearshift.destinations.messages.mail import EmailMessage, Sender, compose
from gearshift.destinations.messages.network import is_loopback, require_host, shown
from gearshift.errors import (
    DefinitionError,
    DeliveryError,
    OutcomeUnknownError,
    PermanentError,
    RetriableError,
)
from gearshift.record import Row
from gearshift.redaction import hide
from gearshift.rules.declared import located

# Reply codes for missing or failed authentication (RFC 4954), after any command.
_AUTHENTICATION_FAILED = frozenset({530, 534, 535, 538})
_PER_MESSAGE = frozenset({"the recipient", "the message"})
_CLOSING = 421  # the server closes the connection


class Email:
    """Sends the `EmailMessage` of a record through a mail server; delivered when the server has accepted it.

    A message sent twice, after a crash between the server's answer and the commit, has the same Message-ID both times;
    most mailboxes then show one.

    >>> Email("mail.example.org", 587, "alerts@example.org", user="alerts", password="secret")
    Email('mail.example.org', 587, 'alerts@example.org')
    """

    batch_size: int = 1

    @located
    def __init__(
        self,
        host: str,
        port: int,
        sender: str,
        *,
        user: str | None = None,
        password: str | None = None,
        tls: Literal["starttls", "tls", "none"] = "starttls",
        timeout: timedelta = timedelta(seconds=30),
    ) -> None:
        if tls not in ("starttls", "tls", "none"):
            raise DefinitionError(f"unknown tls={tls!r}", hint="use 'starttls', 'tls' or 'none'")
        require_host(host)
        if not 0 < port < 65_536:
            raise DefinitionError(f"invalid port {port}", hint="most mail servers use port 587")
        if (user is None) != (password is None):
            raise DefinitionError("user and password must be set together")
        if not (user or "").isascii() or not (password or "").isascii():
            raise DefinitionError("user and password must be ASCII")
        if user is not None and tls == "none" and not is_loopback(host):
            raise DefinitionError(
                f"the password would be sent unencrypted to {host}", hint="use tls='starttls' or tls='tls'"
            )
        if timeout <= timedelta(0):
            raise DefinitionError("timeout must be positive")
        self._host = host
        self._port = port
        self._from = Sender.read(sender)
        self._sender = sender
        self._address = self._from.address
        self._user = user
        self._password = password
        hide(password)
        self._tls = tls
        self._seconds = timeout.total_seconds()
        self._lock = Lock()
        self._idle: list[smtplib.SMTP] = []
        self._own_name: str | None = None

    def __repr__(self) -> str:
        return f"Email({self._host!r}, {self._port}, {self._sender!r})"

    def open(self, group_id: str) -> None:
        """Do nothing: the first message opens a connection."""

    def write(self, rows: Sequence[Row]) -> None:
        """Send the message of each row; returns when the server has accepted them."""
        for row in rows:
            message = row.value
            if not isinstance(message, EmailMessage):
                raise PermanentError(
                    f"expected EmailMessage, got {type(message).__name__}",
                    hint="return EmailMessage(to, subject, text)",
                )
            self._deliver(message, row.idempotency_key)

    def flush(self) -> None:
        """Do nothing: `write` returns when the message is accepted."""

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            with suppress(smtplib.SMTPException, OSError):
                connection.quit()
            connection.close()

    def send(
        self,
        to: str,
        subject: str,
        text: str,
        *,
        html: str | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Send one message, also from a handler without `to=`; pass `record.idempotency_key` there."""
        self._deliver(EmailMessage(to, subject, text, html), idempotency_key or uuid.uuid4().hex)

    def _deliver(self, message: EmailMessage, key: str) -> None:
        mail = compose(self._from, message, key)
        international = not (self._address.isascii() and message.to.isascii())
        connection = self._begin(international)
        keep = sending = False
        try:
            self._expect(connection.rcpt(message.to), "the recipient", 250, 251)
            sending = True
            self._expect(connection.data(mail), "the message", 250)
            keep = True
        except DeliveryError:
            keep = _reset(connection)
            raise
        except smtplib.SMTPDataError as rejected:  # raised, not returned, when DATA itself is rejected
            keep = _reset(connection)
            raise self._rejection("the message", rejected.smtp_code, rejected.smtp_error) from None
        except (smtplib.SMTPException, OSError) as lost:
            if not sending:
                raise self._lost(lost) from lost
            raise OutcomeUnknownError(
                f"{self._lost(lost)} while sending; the message may have been delivered",
                hint="ask the recipient before replaying it",
            ) from lost
        finally:
            if keep:
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()

    def _begin(self, international: bool) -> smtplib.SMTP:
        """A connection that has accepted MAIL FROM: a pooled one, or a new one if the server closed those."""
        while True:
            with self._lock:
                kept = self._idle.pop() if self._idle else None
            connection = kept or self._connect()
            if international and not connection.has_extn("smtputf8"):
                connection.close()
                # The sender is the same for every message, the recipient is not.
                kind = PermanentError if self._address.isascii() else DeliveryError
                raise kind(f"{self._host}:{self._port} does not support addresses outside ASCII")
            try:
                code, answer = connection.mail(self._address, ["SMTPUTF8"] if international else [])
            except (smtplib.SMTPException, OSError) as lost:
                connection.close()
                if kept is None:
                    raise self._lost(lost) from lost
                continue
            if code == 250:
                return connection
            connection.close()
            if kept is None or code != _CLOSING:
                raise self._rejection("the sender", code, answer)

    def _connect(self) -> smtplib.SMTP:
        if self._own_name is None:
            self._own_name = socket.getfqdn()  # cached: without a name server it takes seconds
        connection: smtplib.SMTP | None = None
        try:
            connection = self._greet(self._own_name)
            if self._tls == "starttls":
                connection.starttls(context=ssl.create_default_context())
            connection.ehlo_or_helo_if_needed()
            if self._user is not None and self._password is not None:
                connection.login(self._user, self._password)
        except smtplib.SMTPResponseException as rejected:
            _close(connection)
            what = "the login" if isinstance(rejected, smtplib.SMTPAuthenticationError) else "the connection"
            # Without the cause: the answer may contain the password, and a traceback would show it.
            raise self._rejection(what, rejected.smtp_code, rejected.smtp_error) from None
        except (smtplib.SMTPException, OSError) as error:
            _close(connection)
            raise self._not_connected(error) from error
        return connection

    def _greet(self, own_name: str) -> smtplib.SMTP:
        if self._tls == "tls":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(self._host, self._port, own_name, timeout=self._seconds, context=context)
        return smtplib.SMTP(self._host, self._port, own_name, timeout=self._seconds)

    def _not_connected(self, error: Exception) -> DeliveryError:
        server = f"{self._host}:{self._port}"
        if isinstance(error, smtplib.SMTPNotSupportedError):
            hint = "check port= and tls="
            return DeliveryError(f"{server} does not support the requested TLS or login: {error}", hint=hint)
        if isinstance(error, ssl.SSLCertVerificationError):
            hint = "set SSL_CERT_FILE to the file of your certificate authority"
            return DeliveryError(f"the certificate of {server} is not trusted", hint=hint)
        return self._lost(error)

    def _expect(self, answered: tuple[int, bytes], what: str, *codes: int) -> None:
        code, answer = answered
        if code not in codes:
            raise self._rejection(what, code, answer)

    def _rejection(self, what: str, code: int, answer: bytes | str) -> DeliveryError:
        """Translate a reply: 4xx is retriable; 5xx is permanent for this message, unless it concerns every message."""
        text = shown(answer, hidden=(self._password,))
        rejected = f"{self._host}:{self._port} rejected {what}: {code} {text}"
        if not 500 <= code < 600:
            return RetriableError(rejected)
        if what == "the login" or code in _AUTHENTICATION_FAILED:
            return DeliveryError(rejected, hint="check user= and password=")
        if what not in _PER_MESSAGE or "relay" in text.lower():
            return DeliveryError(rejected, hint="check the sender and its permissions on this server")
        return PermanentError(rejected)

    def _lost(self, error: Exception) -> RetriableError:
        name = type(error).__name__
        return RetriableError(f"connection to {self._host}:{self._port} failed: {name}")


def _close(connection: smtplib.SMTP | None) -> None:
    if connection is not None:
        connection.close()


def _reset(connection: smtplib.SMTP) -> bool:
    """Whether the connection can be reused after a rejection."""
    try:
        return connection.rset()[0] == 250
    except (smtplib.SMTPException, OSError):
        return False
