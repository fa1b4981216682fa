"""Where deliveries write: stores that take rows, and services that take messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gearshift.destinations.cassandra import Cassandra
    from gearshift.destinations.email import Email, EmailMessage
    from gearshift.destinations.postgres import Postgres
    from gearshift.destinations.rows import Delete
    from gearshift.destinations.signature import verify
    from gearshift.destinations.sms import Sms, SmsMessage
    from gearshift.destinations.webhook import Webhook

__all__ = [
    "Cassandra",
    "Delete",
    "Email",
    "EmailMessage",
    "Postgres",
    "Sms",
    "SmsMessage",
    "Webhook",
    "verify",
]

_LATER = {
    "Cassandra": "gearshift.destinations.cassandra",
    "Delete": "gearshift.destinations.rows",
    "Email": "gearshift.destinations.email",
    "EmailMessage": "gearshift.destinations.email",
    "Postgres": "gearshift.destinations.postgres",
    "Sms": "gearshift.destinations.sms",
    "SmsMessage": "gearshift.destinations.sms",
    "Webhook": "gearshift.destinations.webhook",
    "verify": "gearshift.destinations.signature",
}


def __getattr__(name: str) -> Any:
    # Each brings a client library along, so that only those in use are imported.
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(name)
