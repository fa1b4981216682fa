"""A mail server."""

from __future__ import annotations

import base64
import socket
import socketserver
import ssl
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage

from gearshift.testing.gateways.server import Gateway, Server


@dataclass(frozen=True, slots=True)
class ReceivedMail:
    """A mail that was accepted."""

    sender: str
    recipients: tuple[str, ...]
    message: EmailMessage
    raw: bytes
    connection: int
    user: str | None
    encrypted: bool


class SmtpGateway(Gateway):
    """A mail server: EHLO, STARTTLS or TLS from the start, AUTH PLAIN, MAIL, RCPT, DATA, RSET, NOOP, QUIT."""

    def __init__(
        self,
        *,
        users: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        tls_from_the_start: bool = False,
        international: bool = False,
    ) -> None:
        super().__init__(listens_with=tls if tls_from_the_start else None)
        self.handler = _Smtp
        self.users = users
        """The password of each user; None if nobody needs to log in."""
        self.tls = tls
        self.international = international
        self._orders: dict[str, deque[int | None]] = {}
        self._mails: list[ReceivedMail] = []

    @property
    def mails(self) -> list[ReceivedMail]:
        """The accepted mails, in order."""
        with self._lock:
            return list(self._mails)

    def fail(self, verb: str, code: int, times: int = 1) -> None:
        """Answer this command (`MAIL`, `RCPT`, `DATA`, `AUTH`, `.` for the end of the mail) with a code."""
        with self._lock:
            self._orders.setdefault(verb, deque()).extend([code] * times)

    def hang_up_on(self, verb: str, times: int = 1) -> None:
        """Break off the connection instead of answering this command."""
        with self._lock:
            self._orders.setdefault(verb, deque()).extend([None] * times)

    def order_for(self, verb: str) -> int | None:
        """The code to answer with; 0 for the usual one, None to hang up."""
        with self._lock:
            orders = self._orders.get(verb)
            return orders.popleft() if orders else 0

    def take(self, mail: ReceivedMail) -> None:
        """Accept a mail."""
        with self._lock:
            self._mails.append(mail)


class _Smtp(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def handle(self) -> None:
        gateway = self.server.gateway
        assert isinstance(gateway, SmtpGateway)
        self._gateway = gateway
        self._number = self.server.number_of(self.request)
        self._socket: socket.socket = self.request
        self._user: str | None = None
        self._sender: str | None = None
        self._recipients: list[str] = []
        try:
            self._say(220, "mail gateway")
            while line := self._in.readline(65_536):
                verb, _, rest = line.decode().strip().partition(" ")
                if not self._answer(verb.upper(), rest):
                    return
        except (OSError, ConnectionError):
            return
        finally:
            if self._socket is not self.request:
                self._in.close()
                self._socket.close()

    def setup(self) -> None:
        super().setup()
        self._in = self.rfile

    def _encrypt(self) -> None:
        assert self._gateway.tls is not None
        self._socket = self._gateway.tls.wrap_socket(self.request, server_side=True)
        self._in = self._socket.makefile("rb")

    def _say(self, code: int, *lines: str) -> None:
        last = len(lines) - 1
        text = "".join(f"{code}{' ' if n == last else '-'}{line}\r\n" for n, line in enumerate(lines))
        self._socket.sendall(text.encode())

    def _answer(self, verb: str, rest: str) -> bool:
        """Answer one command; whether the connection goes on."""
        order = self._gateway.order_for(verb)
        if order is None:
            return False
        if order:
            self._say(order, "on command")
            return order != 421
        match verb:
            case "EHLO":
                self._say(250, "gateway", *self._offers(), "8BITMIME")
            case "HELO" | "NOOP":
                self._say(250, "gateway")
            case "STARTTLS":
                self._say(220, "go ahead")
                self._encrypt()
            case "AUTH":
                self._log_in(rest)
            case "MAIL" if self._gateway.users is not None and self._user is None:
                self._say(530, "authentication required")
            case "MAIL":
                self._sender, self._recipients = _address(rest), []
                self._say(250, "ok")
            case "RCPT" if self._sender is None:
                self._say(503, "MAIL first")
            case "RCPT":
                self._recipients.append(_address(rest))
                self._say(250, "ok")
            case "DATA" if not self._recipients:
                self._say(503, "RCPT first")
            case "DATA":
                return self._take_mail()
            case "RSET":
                self._sender, self._recipients = None, []
                self._say(250, "ok")
            case "QUIT":
                self._say(221, "bye")
                return False
            case _:
                self._say(502, "unknown command")
        return True

    def _offers(self) -> list[str]:
        encrypted = isinstance(self._socket, ssl.SSLSocket)
        offers = ["SMTPUTF8"] if self._gateway.international else []
        if self._gateway.tls is not None and not encrypted:
            offers.append("STARTTLS")
        elif self._gateway.users is not None:
            offers.append("AUTH PLAIN")
        return offers

    def _log_in(self, rest: str) -> None:
        mechanism, _, blob = rest.partition(" ")
        _, user, password = base64.b64decode(blob).decode().split("\0")
        users = self._gateway.users or {}
        if mechanism.upper() == "PLAIN" and user in users and users[user] == password:
            self._user = user
            self._say(235, "welcome")
        else:
            self._say(535, f"authentication failed for {user} with {password}")

    def _take_mail(self) -> bool:
        self._say(354, "go ahead, end with a dot")
        lines: list[bytes] = []
        while (line := self._in.readline()) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b".") else line)
        order = self._gateway.order_for(".")
        if not order:
            raw = b"".join(lines)
            message = message_from_bytes(raw, policy=policy.default)
            assert isinstance(message, EmailMessage)
            encrypted = isinstance(self._socket, ssl.SSLSocket)
            self._gateway.take(
                ReceivedMail(
                    self._sender or "",
                    tuple(self._recipients),
                    message,
                    raw,
                    self._number,
                    self._user,
                    encrypted,
                )
            )
        if order is None:
            return False
        self._sender, self._recipients = None, []
        self._say(order or 250, "on command" if order else "ok")
        return order != 421


def _address(argument: str) -> str:
    return argument.partition("<")[2].partition(">")[0]
