"""The name by which brokers know a client. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gearshift.topics.properties import for_librdkafka

UNKNOWN = "User:NAME"


def principal_of(properties: Mapping[str, str]) -> str:
    """The principal of these client properties; User:NAME if they do not tell, as with a client certificate.

    >>> principal_of({"sasl.username": "meters"}), principal_of({"security.protocol": "SSL"})
    ('User:meters', 'User:NAME')
    """
    user = for_librdkafka(properties).get("sasl.username")
    return f"User:{user}" if user else UNKNOWN
