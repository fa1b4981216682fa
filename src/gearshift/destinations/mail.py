"""A mail as it goes over the wire: what a message says stands in its own header or in the body, nowhere else."""

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
_BODY = policy.SMTP.clone(cte_type="7bit")  # not every server takes 8 bits


@dataclass(frozen=True, slots=True)
class EmailMessage:
    """A mail to one address: a plain text, and the same in HTML for those who read that."""

    to: str
    subject: str
    text: str
    html: str | None = None


@dataclass(frozen=True, slots=True)
class Sender:
    """Who a mail is from.

    >>> Sender.read("Alerts <alerts@example.org>")
    Sender(name='Alerts', address='alerts@example.org')
    """

    name: str
    address: str

    @classmethod
    def read(cls, text: str) -> Sender:
        """The name and the address in `Name <address>`."""
        # The standard library's parser takes for the address what stands in the name.
        found = _MAILBOX.fullmatch(text)
        name, address = (unquote(found[1]), found[2]) if found else ("", text.strip())
        if _is_broken(text) or not _is_address(address):
            raise DefinitionError(
                f"the sender {text!r} is not a mail address",
                hint="write it as in Alerts <alerts@example.org>",
            )
        return cls(name, address)


def compose(sender: Sender, message: EmailMessage, key: str) -> bytes:
    """The mail, with an id made of the key.

    The headers are written here, line by line: the standard library reads a header before it writes it, decodes the
    encoded words that it finds in it, and so writes the line breaks that were in them.
    """
    if not _is_address(message.to):
        raise PermanentError(
            "the recipient is not one mail address", hint="write it as in ann@example.org, without a name"
        )
    if _is_broken(message.subject):
        raise PermanentError("the subject has a line break or another control character in it")
    if _KEY.fullmatch(key) is None:
        raise PermanentError("the idempotency key is not 1 to 200 letters, digits or . _ + = -")
    try:
        headers = {
            "From": _mailbox(sender),
            "To": message.to,
            "Subject": message.subject
            if _is_plain(message.subject)
            else _encoded(message.subject, "Subject"),
            "Date": format_datetime(datetime.now(UTC)),
            "Message-ID": f"<{key}@{sender.address.rpartition('@')[2]}>",
            "Auto-Submitted": "auto-generated",  # so that no absence note comes back
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
        body = Body(policy=_BODY)
        body.set_content(message.text)
        if message.html is not None:
            body.add_alternative(message.html, subtype="html")
        return head + body.as_bytes()
    except ValueError as error:
        raise PermanentError(f"the mail cannot be written: {type(error).__name__}") from error


def _is_address(text: str) -> bool:
    """Whether it is one address; one that some reader would decode to another is not."""
    return len(text) <= _LONGEST_ADDRESS and "=?" not in text and _ADDRESS.fullmatch(text) is not None


def _mailbox(sender: Sender) -> str:
    if _is_plain(sender.name):
        return formataddr((sender.name, sender.address), charset="utf-8") if sender.name else sender.address
    return f"{_encoded(sender.name, 'From')}\r\n <{sender.address}>"


def _is_plain(text: str) -> bool:
    """Whether every reader shows it as it is written, on one line."""
    return (
        text.isascii()
        and "=?" not in text
        and len(text) <= _LONGEST_PLAIN
        and " ".join(text.split(" ")) == text.strip()
    )


def _encoded(text: str, name: str) -> str:
    return Header(text, "utf-8", header_name=name).encode(linesep="\r\n")


def _is_broken(line: str) -> bool:
    return any(ord(letter) < 32 or letter in "\x7f\x85\u2028\u2029" for letter in line)
