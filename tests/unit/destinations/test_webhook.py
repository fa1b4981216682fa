"""The JSON and the signature of a webhook, without a receiver."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from uuid import UUID

import pytest

from gearshift.destinations import Webhook, verify
from gearshift.destinations.messages.signature import key_of, sign
from gearshift.destinations.messages.webhook import as_json
from gearshift.errors import DefinitionError, PermanentError
from gearshift.record import Destination

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BODY = b'{"load_kw":2.4}'


class Level(Enum):
    HIGH = "high"


class Number(Enum):
    ONE = 1


@dataclass
class Line:
    amount: Decimal


@dataclass
class Bill:
    lines: list[Line]
    made_at: datetime
    day: date
    level: Level
    number: Number
    raw: bytes
    id: UUID
    notes: Mapping[str, str | None]


def headers(at: datetime = NOW, body: bytes = BODY) -> dict[str, str]:
    timestamp = int(at.timestamp())
    return {
        "Webhook-Id": "m1",
        "Webhook-Timestamp": str(timestamp),
        "Webhook-Signature": sign(key_of(SECRET), "m1", timestamp, body),
    }


def test_it_is_a_destination() -> None:
    assert isinstance(Webhook("https://example.org"), Destination)
    assert Webhook("https://example.org").batch_size == 1


def test_a_dataclass_becomes_json_without_loss() -> None:
    bill = Bill(
        lines=[Line(Decimal("0.10"))],
        made_at=datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC),
        day=date(2026, 3, 1),
        level=Level.HIGH,
        number=Number.ONE,
        raw=b"\x00\xff",
        id=UUID(int=7),
        notes=MappingProxyType({"é": None}),
    )
    assert json.loads(as_json(bill)) == {
        "lines": [{"amount": "0.10"}],
        "made_at": "2026-03-01T12:00:00.000005+00:00",
        "day": "2026-03-01",
        "level": "high",
        "number": "ONE",
        "raw": "AP8=",
        "id": "00000000-0000-0000-0000-000000000007",
        "notes": {"é": None},
    }


@pytest.mark.parametrize("value", [{"x": float("nan")}, {"x": object()}, {(1, 2): 3}, {"x": "\ud800"}])
def test_a_value_that_is_not_serializable_is_permanent(value: object) -> None:
    with pytest.raises(PermanentError, match="the value is not JSON serializable"):
        as_json(value)


@pytest.mark.parametrize("value", [None, "text", 7, [1, 2], Line])
def test_a_value_of_another_type_is_rejected_with_a_hint(value: object) -> None:
    with pytest.raises(PermanentError, match="return a dataclass or a mapping"):
        as_json(value)


def test_a_receiver_gets_the_id_of_a_webhook_signed_with_its_secret() -> None:
    assert verify(SECRET, headers(), BODY, now=NOW + timedelta(minutes=4)) == "m1"


def test_one_valid_signature_among_several_is_enough() -> None:
    both = headers()
    both["Webhook-Signature"] = f"v1,bm9wZQ== {both['Webhook-Signature']}"
    assert verify(SECRET, both, BODY, now=NOW) == "m1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Webhook-Id": "m2"}, "not signed with this secret"),
        ({"Webhook-Signature": "v1,é"}, "not signed with this secret"),
        ({"Webhook-Signature": ""}, "not signed with this secret"),
        ({"Webhook-Timestamp": "yesterday"}, "not a number of seconds"),
    ],
)
def test_a_modified_webhook_is_rejected(change: dict[str, str], message: str) -> None:
    with pytest.raises(PermanentError, match=message):
        verify(SECRET, headers() | change, BODY, now=NOW)
    with pytest.raises(PermanentError, match="not signed with this secret"):
        verify(SECRET, headers(), BODY + b" ", now=NOW)
    with pytest.raises(PermanentError, match="not signed with this secret"):
        verify("another secret", headers(), BODY, now=NOW)


def test_an_old_or_future_webhook_is_rejected() -> None:
    with pytest.raises(PermanentError, match="signed 301 s ago"):
        verify(SECRET, headers(), BODY, now=NOW + timedelta(seconds=301))
    with pytest.raises(PermanentError, match="signed 301 s ahead of this clock"):
        verify(SECRET, headers(), BODY, now=NOW - timedelta(seconds=301))


def test_an_unsigned_webhook_is_rejected() -> None:
    with pytest.raises(PermanentError, match="no header webhook-id"):
        verify(SECRET, {}, BODY)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_not base64!"])
def test_a_secret_that_cannot_sign_is_rejected_when_declared_and_not_shown(secret: str) -> None:
    with pytest.raises(DefinitionError, match="the webhook's secret is") as caught:
        Webhook("https://example.org/in", secret=secret)
    assert "not base64!" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["", "example.org/in", "ftp://example.org", "http://", "https://u:p@example.org", "http://[::1"]
)
def test_an_invalid_url_is_rejected_when_declared(url: str) -> None:
    with pytest.raises(DefinitionError, match="URL"):
        Webhook(url)


def test_secret_and_path_are_not_in_the_repr() -> None:
    webhook = Webhook("https://hooks.example/T0/s3cret?token=s3cret", secret="s3cret")
    assert repr(webhook) == "Webhook('https://hooks.example')"
