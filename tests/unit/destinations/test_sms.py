"""What an Sms destination rejects before anything is sent."""

from __future__ import annotations

import pytest

from gearshift.destinations import Sms, SmsMessage
from gearshift.errors import DefinitionError, PermanentError
from gearshift.record import Destination, Record, Row
from tests.support import closed_port

RECORD: Record[None] = Record(value=None, key=None, topic="t", partition=0, offset=0, timestamp=None)


def sms(url: str | None = None) -> Sms:
    return Sms(
        account="AC1",
        token="t0p-s3cret",
        sender="+15005550006",
        url=url or f"http://127.0.0.1:{closed_port()}",
    )


def test_it_is_a_destination() -> None:
    assert isinstance(sms(), Destination)
    assert sms().batch_size == 1


@pytest.mark.parametrize(
    "to", ["", "meter-001", "0612345678", "+0612345678", "+1", "+1234567890123456", "+31a612"]
)
def test_an_invalid_phone_number_is_permanent(to: str) -> None:
    with pytest.raises(PermanentError, match=r"not a phone number.*\+31612345678"):
        sms().send(to, "hello")


def test_a_text_that_is_empty_too_long_or_not_unicode_is_permanent() -> None:
    with pytest.raises(PermanentError, match="empty"):
        sms().send("+31612345678", "")
    with pytest.raises(PermanentError, match="1601 characters; at most 1600"):
        sms().send("+31612345678", "x" * 1601)
    with pytest.raises(PermanentError, match="Unicode"):
        sms().send("+31612345678", "\ud800")


def test_an_idempotency_key_cannot_add_a_header() -> None:
    with pytest.raises(PermanentError, match="Idempotency-Key"):
        sms().send("+31612345678", "hello", "abc\r\nX-Admin: yes")


def test_a_value_of_another_type_is_rejected_with_a_hint() -> None:
    with pytest.raises(PermanentError, match=r"expected SmsMessage, got dict; return SmsMessage\(to, text\)"):
        sms().write([Row({"to": "+31612345678"}, RECORD)])
    assert SmsMessage("+31612345678", "hello") == SmsMessage(to="+31612345678", text="hello")


def test_a_token_is_not_sent_unencrypted() -> None:
    with pytest.raises(
        DefinitionError, match=r"sent unencrypted to http://sms.example \(.*test_sms.py:\d+\); use https"
    ):
        sms("http://sms.example")


@pytest.mark.parametrize("empty", ["account", "token", "sender"])
def test_an_empty_credential_is_rejected_when_declared(empty: str) -> None:
    given = {"account": "AC1", "token": "secret", "sender": "+15005550006"} | {empty: ""}
    with pytest.raises(DefinitionError, match=f"{empty} is empty"):
        Sms(**given)


def test_the_token_is_not_in_the_repr() -> None:
    assert "s3cret" not in repr(sms())
