"""Webhook signatures according to Standard Webhooks."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from gearshift.errors import DefinitionError, PermanentError

_PREFIX = "whsec_"


def key_of(secret: str) -> bytes:
    """The signing key: base64 after `whsec_`, as in the standard, else the text itself.

    >>> key_of("whsec_c2VjcmV0"), key_of("secret")
    (b'secret', b'secret')
    """
    try:
        key = (
            base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
            if secret.startswith(_PREFIX)
            else secret.encode()
        )
    except (binascii.Error, ValueError):
        raise DefinitionError(f"the webhook's secret is not valid base64 after {_PREFIX}") from None
    if not key:
        raise DefinitionError("the webhook's secret is empty")
    return key


def sign(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """The value of the header `webhook-signature`.

    >>> key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    >>> sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode("ascii")


def verify(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance: timedelta = timedelta(minutes=5),
    now: datetime | None = None,
) -> str:
    """Verify a received webhook and return its id; raise PermanentError if the signature is wrong or too old.

    The id is the same for every attempt: store it, and ignore a webhook that was processed before.
    """
    by_name = {name.lower(): value for name, value in headers.items()}
    try:
        message_id = by_name["webhook-id"]
        timestamp = int(by_name["webhook-timestamp"])
        signatures = by_name["webhook-signature"].split(" ")
    except KeyError as missing:
        raise PermanentError(f"the webhook has no header {missing.args[0]}") from None
    except ValueError:
        raise PermanentError("the header webhook-timestamp is not a number of seconds") from None
    age = (now or datetime.now(UTC)).timestamp() - timestamp
    if abs(age) > tolerance.total_seconds():
        raise PermanentError(
            f"the webhook was signed {abs(age):.0f} s {'ago' if age > 0 else 'ahead of this clock'}",
            hint=f"{tolerance.total_seconds():g} s are allowed; check the clocks (it may be a replay attack)",
        )
    right = sign(key_of(secret), message_id, timestamp, body).encode()
    if not any(hmac.compare_digest(right, signature.encode()) for signature in signatures):
        raise PermanentError("the webhook was not signed with this secret, or was modified")
    return message_id
