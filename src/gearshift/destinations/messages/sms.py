"""SMS through Twilio's Messages API, which many providers and gateways support."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import quote, urlencode

from gearshift.destinations.messages.http import Endpoint, header_value
from gearshift.errors import DefinitionError, PermanentError
from gearshift.record import Row
from gearshift.redaction import hide
from gearshift.rules.declared import located

_MAX_LENGTH = 1600  # characters, Twilio's limit for a message of several segments
_E164 = re.compile(r"\+[1-9][0-9]{6,14}")
_SEPARATORS = str.maketrans("", "", " -.()")


@dataclass(frozen=True, slots=True)
class SmsMessage:
    """A text message to a phone number: `SmsMessage("+31612345678", "load is 2.4 kW")`."""

    to: str
    text: str


class Sms:
    """Sends the `SmsMessage` of a record; delivered when the provider has accepted it.

    Every attempt of a record has the same Idempotency-Key. Set `idempotent=True` for a provider that honours it and so
    sends one message for any number of requests. With one that does not, such as Twilio, a message without a response
    is sent at most three times and then set aside, and a crash between the response and the commit sends it twice.

    >>> sms = Sms(account="AC1", token="secret", sender="+15005550006")
    >>> sms
    Sms(sender='+15005550006', url='https://api.twilio.com')
    """

    batch_size: int = 1

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
                raise DefinitionError(f"{name} is empty")
        hide(token)
        login = base64.b64encode(f"{account}:{token}".encode()).decode("ascii")
        path = f"/2010-04-01/Accounts/{quote(account, safe='')}/Messages.json"
        self._endpoint = Endpoint(
            url.rstrip("/") + path, timeout=timeout, idempotent=idempotent, hidden=(login, token)
        )
        if not self._endpoint.is_private:
            raise DefinitionError(
                f"the token would be sent unencrypted to {self._endpoint.origin}", hint="use https"
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
        """Create the connection pool; the first message connects."""
        self._endpoint.open()

    def write(self, rows: Sequence[Row]) -> None:
        """Send the message of each row; returns when the provider has accepted them."""
        for row in rows:
            message = row.value
            if not isinstance(message, SmsMessage):
                raise PermanentError(
                    f"expected SmsMessage, got {type(message).__name__}", hint="return SmsMessage(to, text)"
                )
            self.send(message.to, message.text, row.idempotency_key)

    def flush(self) -> None:
        """Do nothing: `write` returns when the message is accepted."""

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()

    def send(self, to: str, text: str, idempotency_key: str | None = None) -> None:
        """Send one message, also from a handler without `to=`; pass `record.idempotency_key` there."""
        number = to.translate(_SEPARATORS)
        if _E164.fullmatch(number) is None:
            raise PermanentError(
                "the recipient is not a phone number",
                hint="write it as + and 7 to 15 digits, as in +31612345678",
            )
        if not text:
            raise PermanentError("the text is empty")
        if len(text) > _MAX_LENGTH:
            raise PermanentError(f"the text has {len(text)} characters; at most {_MAX_LENGTH} are allowed")
        headers = dict(self._headers)
        if idempotency_key is not None:
            key = header_value("Idempotency-Key", idempotency_key)
            headers |= {"Idempotency-Key": key, "I-Twilio-Idempotency-Token": key}
        try:
            body = urlencode({"To": number, "From": self._sender, "Body": text}).encode("ascii")
        except UnicodeEncodeError:
            raise PermanentError("the text is not valid Unicode") from None
        self._endpoint.post(body, headers)
