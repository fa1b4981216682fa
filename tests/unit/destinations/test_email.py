"""What an Email destination rejects before anything is sent."""

from __future__ import annotations

import pytest

from gearshift.destinations import Email
from gearshift.errors import DefinitionError, PermanentError
from gearshift.record import Destination, Record, Row
from tests.support import closed_port

RECORD: Record[None] = Record(value=None, key=None, topic="t", partition=0, offset=0, timestamp=None)


def email() -> Email:
    return Email("127.0.0.1", closed_port(), "alerts@example.org", tls="none")


def test_it_is_a_destination() -> None:
    assert isinstance(email(), Destination)
    assert email().batch_size == 1


@pytest.mark.parametrize(
    "to",
    [
        "",
        "ann",
        "ann@example.org, bob@example.org",
        "ann@example.org\r\nBcc: all@example.org",
        "ann@example.org\n",
        "Ann <ann@example.org>",
        "ann@example.org>\r\nRCPT TO:<bob@example.org",
    ],
)
def test_a_recipient_must_be_a_single_address(to: str) -> None:
    with pytest.raises(PermanentError, match="not a single e-mail address"):
        email().send(to, "subject", "text")


@pytest.mark.parametrize("breaker", ["\r\n", "\n", "\r", "\x00", "\u2028", "\x85", "\x0b"])
def test_a_subject_cannot_add_a_header(breaker: str) -> None:
    with pytest.raises(PermanentError, match="line break or another control character"):
        email().send("ann@example.org", f"hi{breaker}Bcc: all@example.org", "text")


def test_an_idempotency_key_cannot_leave_its_header() -> None:
    with pytest.raises(PermanentError, match="idempotency key"):
        email().send("ann@example.org", "hi", "text", idempotency_key="a>\r\nBcc: all@example.org")


def test_a_text_that_is_not_unicode_is_permanent() -> None:
    with pytest.raises(PermanentError, match="cannot encode the message"):
        email().send("ann@example.org", "hi", "\ud800")


def test_a_value_of_another_type_is_rejected_with_a_hint() -> None:
    with pytest.raises(PermanentError, match="expected EmailMessage, got str; return EmailMessage"):
        email().write([Row("hello", RECORD)])


def test_a_password_is_not_sent_unencrypted() -> None:
    with pytest.raises(
        DefinitionError,
        match=r"sent unencrypted to mail.example \(.*test_email.py:\d+\); use tls='starttls'",
    ):
        Email("mail.example", 25, "a@example.org", user="u", password="p", tls="none")


def test_a_user_without_a_password_is_rejected_when_declared() -> None:
    with pytest.raises(DefinitionError, match="must be set together"):
        Email("mail.example", 587, "a@example.org", user="u")


@pytest.mark.parametrize("sender", ["", "nobody", "a@example.org\r\nBcc: b@example.org"])
def test_a_sender_must_be_an_address(sender: str) -> None:
    with pytest.raises(DefinitionError, match="not an e-mail address"):
        Email("mail.example", 587, sender)
