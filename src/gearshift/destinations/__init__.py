"""Destinations of deliveries: databases that store rows, and services that send messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gearshift.destinations.cassandra.destination import Cassandra
    from gearshift.destinations.messages.email import Email, EmailMessage
    from gearshift.destinations.messages.signature import verify
    from gearshift.destinations.messages.sms import Sms, SmsMessage
    from gearshift.destinations.messages.webhook import Webhook
    from gearshift.destinations.postgres.destination import Postgres
    from gearshift.destinations.rows import Delete

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

_LAZY = {
    "Cassandra": "gearshift.destinations.cassandra.destination",
    "Delete": "gearshift.destinations.rows",
    "Email": "gearshift.destinations.messages.email",
    "EmailMessage": "gearshift.destinations.messages.email",
    "Postgres": "gearshift.destinations.postgres.destination",
    "Sms": "gearshift.destinations.messages.sms",
    "SmsMessage": "gearshift.destinations.messages.sms",
    "Webhook": "gearshift.destinations.messages.webhook",
    "verify": "gearshift.destinations.messages.signature",
}


def __getattr__(name: str) -> Any:
    # Each needs a client library, so only those in use are imported.
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(name)
