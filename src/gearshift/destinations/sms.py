"""Text messages through the REST shape of Twilio's Messages API, which many providers and gateways speak."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import quote, urlencode

from gearshift.destinations.http import Endpoint, header_value
from gearshift.errors import DefinitionError, PermanentError
from gearshift.record import Row
from gearshift.redaction import hide
from gearshift.rules.declared import located

_LONGEST = 1600  # characters, Twilio's limit for a message of several segments
_E164 = re.compile(r"\+[1-9][0-9]{6,14}")
_SEPARATORS = str.maketrans("", "", " -.()")


@dataclass(frozen=True, slots=True)
class SmsMessage:
    """A text for a phone number: `SmsMessage("+31612345678", "load is 2.4 kW")`."""

    to: str
    text: str


class Sms:
    """Sends a record's `SmsMessage` once it is accepted by the provider.

    Every try of a record carries the same Idempotency-Key. Say `idempotent=True` for a provider that honours it and
    so sends one text however often it is asked. With one that does not, as Twilio itself, a text that got no answer is
    sent three times at most and then set aside, and a crash between its answer and our commit sends a second.

    >>> sms = Sms(account="AC1", token="secret", sender="+15005550006")
    >>> sms
    Sms(sender='+15005550006', url='https://api.twilio.com')
    """

    batch: int = 1

    @located
    def __init__(
        self,
        *,
        account: str,
        token: str,
        sender: str,
        url: str = "https://api.twilio.com",
        timeout: timedelta = timedelta(seconds=10),
        idempotent: bool = False,
    ) -> None:
        for name, value in (("account", account), ("token", token), ("sender", sender)):
            if not value:
                raise DefinitionError(f"an Sms destination has an empty {name}")
        hide(token)
        login = base64.b64encode(f"{account}:{token}".encode()).decode("ascii")
        path = f"/2010-04-01/Accounts/{quote(account, safe='')}/Messages.json"
        self._endpoint = Endpoint(
            url.rstrip("/") + path, timeout=timeout, idempotent=idempotent, hidden=(login, token)
        )
        if not self._endpoint.is_private:
            raise DefinitionError(
                f"the token would be readable on its way to {self._endpoint.origin}", hint="use https"
            )
        self._sender = sender
        self._headers = {
            "Authorization": f"Basic {login}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }

    def __repr__(self) -> str:
        return f"Sms(sender={self._sender!r}, url={self._endpoint.origin!r})"

    def open(self, group_id: str) -> None:
        """Connections are made when the first message is sent."""
        self._endpoint.open()

    def write(self, rows: Sequence[Row]) -> None:
        """Send each row's message; returns when the provider has accepted them."""
        for row in rows:
            message = row.value
            if not isinstance(message, SmsMessage):
                raise PermanentError(
                    f"an Sms destination got a {type(message).__name__}", hint="return SmsMessage(to, text)"
                )
            self.send(message.to, message.text, row.idempotency_key)

    def flush(self) -> None:
        """Every write is safe when it returns."""

    def close(self) -> None:
        """Let go of the connections."""
        self._endpoint.close()

    def send(self, to: str, text: str, idempotency_key: str | None = None) -> None:
        """Send one text, also from a handler without `to=`; pass `record.idempotency_key` along there."""
        number = to.translate(_SEPARATORS)
        if _E164.fullmatch(number) is None:
            raise PermanentError(
                "the recipient is not a phone number",
                hint="write it as + and 7 to 15 digits, as in +31612345678",
            )
        if not text:
            raise PermanentError("the text is empty")
        if len(text) > _LONGEST:
            raise PermanentError(
                f"the text has {len(text)} characters; {_LONGEST} is the most a text can have"
            )
        headers = dict(self._headers)
        if idempotency_key is not None:
            key = header_value("Idempotency-Key", idempotency_key)
            headers |= {"Idempotency-Key": key, "I-Twilio-Idempotency-Token": key}
        try:
            body = urlencode({"To": number, "From": self._sender, "Body": text}).encode("ascii")
        except UnicodeEncodeError:
            raise PermanentError("the text is not valid Unicode") from None
        self._endpoint.post(body, headers)
