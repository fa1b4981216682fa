"""Webhooks: records posted to an external URL as signed JSON."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from enum import Enum
from typing import Any, cast

from gearshift.destinations.messages.http import Endpoint, header_value
from gearshift.destinations.messages.signature import key_of, sign
from gearshift.errors import PermanentError
from gearshift.record import Row
from gearshift.redaction import hide
from gearshift.rules.declared import located


class Webhook:
    """Posts a handler's return value, a dataclass or a mapping, as JSON; delivered when the response is 2xx.

    Every attempt of a record has the same Idempotency-Key and `webhook-id`, and a receiver is expected to ignore what
    it has processed before; with `idempotent=False` a webhook without a response is sent at most three times. With a
    secret the body is signed according to Standard Webhooks; receivers call `verify`.

    >>> Webhook("https://example.org/in?token=hidden", secret="whsec_c2VjcmV0")
    Webhook('https://example.org')
    """

    batch_size: int = 1

    @located
    def __init__(
        self,
        url: str,
        *,
        secret: str | None = None,
        timeout: timedelta = timedelta(seconds=10),
        idempotent: bool = True,
    ) -> None:
        hide(secret)
        self._key = None if secret is None else key_of(secret)
        self._endpoint = Endpoint(url, timeout=timeout, idempotent=idempotent, hidden=(secret,))

    def __repr__(self) -> str:
        return f"Webhook({self._endpoint.origin!r})"

    def open(self, group_id: str) -> None:
        """Create the connection pool; the first row connects."""
        self._endpoint.open()

    def write(self, rows: Sequence[Row]) -> None:
        """Post each row; returns when the receiver has accepted them."""
        for row in rows:
            self.send(row.value, row.idempotency_key)

    def flush(self) -> None:
        """Do nothing: `write` returns when the receiver has accepted the row."""

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()

    def send(self, value: object, idempotency_key: str | None = None) -> None:
        """Post one value, also from a handler without `to=`; pass `record.idempotency_key` there."""
        message_id = header_value("Idempotency-Key", idempotency_key or uuid.uuid4().hex)
        body = as_json(value)
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": message_id,
            "webhook-id": message_id,
        }
        if self._key is not None:
            now = int(time.time())
            headers["webhook-timestamp"] = str(now)
            headers["webhook-signature"] = sign(self._key, message_id, now, body)
        self._endpoint.post(body, headers)


def as_json(value: object) -> bytes:
    """Encode a dataclass or a mapping as JSON without loss: decimals as text, times as ISO 8601, bytes as base64.

    >>> as_json({"amount": Decimal("1.10"), "day": date(2026, 3, 1), "raw": b"ok"}).decode()
    '{"amount":"1.10","day":"2026-03-01","raw":"b2s="}'
    """
    if not isinstance(value, Mapping) and not _is_instance_of_dataclass(value):
        raise PermanentError(
            f"expected a dataclass or a mapping, got {type(value).__name__}",
            hint="return a dataclass or a mapping",
        )
    try:
        return json.dumps(
            value, default=_plain, allow_nan=False, ensure_ascii=False, separators=(",", ":")
        ).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise PermanentError(f"the value is not JSON serializable: {error}") from error


def _is_instance_of_dataclass(value: object) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def _plain(value: Any) -> object:
    """The `default` function of `json.dumps`."""
    if _is_instance_of_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(cast(Mapping[Any, Any], value))
    if isinstance(value, Decimal | uuid.UUID):
        return str(value)
    if isinstance(value, datetime | date | time_of_day):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Enum):
        # The same text as in the schemas.
        return value.value if all(isinstance(member.value, str) for member in type(value)) else value.name
    if isinstance(value, Set):
        return sorted(cast(Set[Any], value))
    raise TypeError(f"{type(value).__name__} is not JSON serializable")
