"""Compose an e-mail; no part of a message can inject headers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email import policy
from email.header import Header
from email.message import EmailMessage as Body
from email.utils import format_datetime, formataddr, unquote

from gearshift.errors import DefinitionError, PermanentError

_ADDRESS = re.compile(r"[^\s@<>()\[\],;:\\\"\x00-\x1f\x7f]+@[^\s@<>()\[\],;:\\\"\x00-\x1f\x7f]+")
_MAILBOX = re.compile(r"\s*(.*?)\s*<([^<>]*)>\s*")
_LONGEST_ADDRESS = 254
_LONGEST_PLAIN = 60  # characters of a header that need no folding
_KEY = re.compile(r"[A-Za-z0-9._+=-]{1,200}")
_BODY = policy.SMTP.clone(cte_type="7bit")  # not every server supports 8BITMIME


@dataclass(frozen=True, slots=True)
class EmailMessage:
    """A message to one address: plain text, and optionally the same as HTML."""

    to: str
    subject: str
    text: str
    html: str | None = None


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender of a message.

    >>> Sender.read("Alerts <alerts@example.org>")
    Sender(name='Alerts', address='alerts@example.org')
    """

    name: str
    address: str

    @classmethod
    def read(cls, text: str) -> Sender:
        """Parse `Name <address>`."""
        # The standard library's parser takes an address within the name for the address.
        found = _MAILBOX.fullmatch(text)
        name, address = (unquote(found[1]), found[2]) if found else ("", text.strip())
        if _has_control_characters(text) or not _is_address(address):
            raise DefinitionError(
                f"the sender {text!r} is not an e-mail address",
                hint="write it as in Alerts <alerts@example.org>",
            )
        return cls(name, address)


def compose(sender: Sender, message: EmailMessage, key: str) -> bytes:
    """The message in wire format, with a Message-ID made of the key.

    The headers are written here, line by line: the standard library parses a header before it writes it, decodes the
    encoded words in it, and so writes the line breaks that they contain.
    """
    if not _is_address(message.to):
        raise PermanentError(
            "the recipient is not a single e-mail address",
            hint="write it as in ann@example.org, without a name",
        )
    if _has_control_characters(message.subject):
        raise PermanentError("the subject contains a line break or another control character")
    if _KEY.fullmatch(key) is None:
        raise PermanentError("the idempotency key must be 1 to 200 letters, digits or . _ + = -")
    try:
        headers = {
            "From": _mailbox(sender),
            "To": message.to,
            "Subject": message.subject
            if _is_plain(message.subject)
            else _encoded(message.subject, "Subject"),
            "Date": format_datetime(datetime.now(UTC)),
            "Message-ID": f"<{key}@{sender.address.rpartition('@')[2]}>",
            "Auto-Submitted": "auto-generated",  # suppresses out-of-office replies
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
        body = Body(policy=_BODY)
        body.set_content(message.text)
        if message.html is not None:
            body.add_alternative(message.html, subtype="html")
        return head + body.as_bytes()
    except ValueError as error:
        raise PermanentError(f"cannot encode the message: {type(error).__name__}") from error


def _is_address(text: str) -> bool:
    """Whether it is one address that no mail reader decodes to another."""
    return len(text) <= _LONGEST_ADDRESS and "=?" not in text and _ADDRESS.fullmatch(text) is not None


def _mailbox(sender: Sender) -> str:
    if _is_plain(sender.name):
        return formataddr((sender.name, sender.address), charset="utf-8") if sender.name else sender.address
    return f"{_encoded(sender.name, 'From')}\r\n <{sender.address}>"


def _is_plain(text: str) -> bool:
    """Whether it needs no encoding or folding."""
    return (
        text.isascii()
        and "=?" not in text
        and len(text) <= _LONGEST_PLAIN
        and " ".join(text.split(" ")) == text.strip()
    )


def _encoded(text: str, name: str) -> str:
    return Header(text, "utf-8", header_name=name).encode(linesep="\r\n")


def _has_control_characters(line: str) -> bool:
    return any(ord(letter) < 32 or letter in "\x7f\x85\u2028\u2029" for letter in line)
