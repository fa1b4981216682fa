"""Mail over SMTP: kept connections, and the same Message-ID whenever the same record is sent."""

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

from gearshift.destinations.mail import EmailMessage, Sender, compose
from gearshift.destinations.network import is_loopback, require_host, shown
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

# Replies that authentication is required or was refused (RFC 4954), whatever command they answer.
_REFUSES_US = frozenset({530, 534, 535, 538})
_OF_A_MAIL = frozenset({"the recipient", "the mail"})
_CLOSING = 421  # the code of a server that hangs up after it


class Email:
    """Hands a record's `EmailMessage` to a mail server; done when the server has taken it.

    A mail sent twice, after a crash between the server's answer and our commit, carries the same Message-ID both
    times; most mailboxes then show one.

    >>> Email("mail.example.org", 587, "alerts@example.org", user="alerts", password="secret")
    Email('mail.example.org', 587, 'alerts@example.org')
    """

    batch: int = 1

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
            raise DefinitionError(f"tls={tls!r} is not known", hint="use 'starttls', 'tls' or 'none'")
        require_host(host)
        if not 0 < port < 65_536:
            raise DefinitionError(f"{port} is not a port", hint="most mail servers take mail on 587")
        if (user is None) != (password is None):
            raise DefinitionError("a mail server's user and password go together")
        if not (user or "").isascii() or not (password or "").isascii():
            raise DefinitionError("a mail server's user and password are ASCII")
        if user is not None and tls == "none" and not is_loopback(host):
            raise DefinitionError(
                f"the password would be readable on its way to {host}", hint="use tls='starttls' or tls='tls'"
            )
        if timeout <= timedelta(0):
            raise DefinitionError("the timeout is not above zero")
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
        """Connections are made when the first mail is sent."""

    def write(self, rows: Sequence[Row]) -> None:
        """Send each row's mail; returns when the server has taken them."""
        for row in rows:
            message = row.value
            if not isinstance(message, EmailMessage):
                raise PermanentError(
                    f"an Email destination got a {type(message).__name__}",
                    hint="return EmailMessage(to, subject, text)",
                )
            self._deliver(message, row.idempotency_key)

    def flush(self) -> None:
        """Every write is safe when it returns."""

    def close(self) -> None:
        """Take leave of the server on every idle connection."""
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
        """Send one mail, also from a handler without `to=`; pass `record.idempotency_key` along there."""
        self._deliver(EmailMessage(to, subject, text, html), idempotency_key or uuid.uuid4().hex)

    def _deliver(self, message: EmailMessage, key: str) -> None:
        mail = compose(self._from, message, key)
        international = not (self._address.isascii() and message.to.isascii())
        connection = self._begin(international)
        keep = sending = False
        try:
            self._expect(connection.rcpt(message.to), "the recipient", 250, 251)
            sending = True
            self._expect(connection.data(mail), "the mail", 250)
            keep = True
        except DeliveryError:
            keep = _start_over(connection)
            raise
        except smtplib.SMTPDataError as refused:  # raised, not returned, when DATA itself is refused
            keep = _start_over(connection)
            raise self._refusal("the mail", refused.smtp_code, refused.smtp_error) from None
        except (smtplib.SMTPException, OSError) as lost:
            if not sending:
                raise self._lost(lost) from lost
            raise OutcomeUnknownError(
                f"{self._lost(lost)} while the mail was sent; it may have been delivered",
                hint="ask the recipient before you replay it",
            ) from lost
        finally:
            if keep:
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()

    def _begin(self, international: bool) -> smtplib.SMTP:
        """A connection that has taken our MAIL FROM: a kept one, or a new one when those were hung up on."""
        while True:
            with self._lock:
                kept = self._idle.pop() if self._idle else None
            connection = kept or self._connect()
            if international and not connection.has_extn("smtputf8"):
                connection.close()
                # Our own address is in every mail, the recipient's in this one.
                kind = PermanentError if self._address.isascii() else DeliveryError
                raise kind(f"{self._host}:{self._port} takes no addresses outside ASCII")
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
                raise self._refusal("the sender", code, answer)

    def _connect(self) -> smtplib.SMTP:
        if self._own_name is None:
            self._own_name = socket.getfqdn()  # once: without a name server it takes seconds
        connection: smtplib.SMTP | None = None
        try:
            connection = self._greet(self._own_name)
            if self._tls == "starttls":
                connection.starttls(context=ssl.create_default_context())
            connection.ehlo_or_helo_if_needed()
            if self._user is not None and self._password is not None:
                connection.login(self._user, self._password)
        except smtplib.SMTPResponseException as refused:
            _let_go(connection)
            what = "the login" if isinstance(refused, smtplib.SMTPAuthenticationError) else "the connection"
            # Not from it: an answer may repeat the password, and a traceback shows it.
            raise self._refusal(what, refused.smtp_code, refused.smtp_error) from None
        except (smtplib.SMTPException, OSError) as error:
            _let_go(connection)
            raise self._not_connected(error) from error
        return connection

    def _greet(self, own_name: str) -> smtplib.SMTP:
        if self._tls == "tls":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(self._host, self._port, own_name, timeout=self._seconds, context=context)
        return smtplib.SMTP(self._host, self._port, own_name, timeout=self._seconds)

    def _not_connected(self, error: Exception) -> DeliveryError:
        place = f"{self._host}:{self._port}"
        if isinstance(error, smtplib.SMTPNotSupportedError):
            hint = "another port, or another tls=, may be the right one"
            return DeliveryError(f"{place} does not offer what was asked for: {error}", hint=hint)
        if isinstance(error, ssl.SSLCertVerificationError):
            hint = "name the file of your own authority in SSL_CERT_FILE"
            return DeliveryError(f"{place} has no certificate this machine trusts", hint=hint)
        return self._lost(error)

    def _expect(self, answered: tuple[int, bytes], what: str, *codes: int) -> None:
        code, answer = answered
        if code not in codes:
            raise self._refusal(what, code, answer)

    def _refusal(self, what: str, code: int, answer: bytes | str) -> DeliveryError:
        """What a reply means: 4xx may change; 5xx is of this mail, unless it would meet every mail."""
        text = shown(answer, hidden=(self._password,))
        said = f"{self._host}:{self._port} did not take {what}: {code} {text}"
        if not 500 <= code < 600:
            return RetriableError(said)
        if what == "the login" or code in _REFUSES_US:
            return DeliveryError(said, hint="check user= and password=")
        if what not in _OF_A_MAIL or "relay" in text.lower():
            return DeliveryError(said, hint="check the sender, and what this server lets it send")
        return PermanentError(said)

    def _lost(self, error: Exception) -> RetriableError:
        name = type(error).__name__
        return RetriableError(f"the connection to {self._host}:{self._port} was lost or not made: {name}")


def _let_go(connection: smtplib.SMTP | None) -> None:
    if connection is not None:
        connection.close()


def _start_over(connection: smtplib.SMTP) -> bool:
    """Whether the connection can be used again after a refusal."""
    try:
        return connection.rset()[0] == 250
    except (smtplib.SMTPException, OSError):
        return False
