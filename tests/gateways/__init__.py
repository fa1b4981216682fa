"""Servers of the outside world, on loopback: an SMS provider or webhook receiver over HTTP, and a mail server.

They check what a real one checks (login, signature, idempotency key) and fail when told to.
"""

from __future__ import annotations

from tests.gateways.certificate import certificate
from tests.gateways.http import Answer, HttpGateway, Request
from tests.gateways.smtp import ReceivedMail, SmtpGateway

__all__ = ["Answer", "HttpGateway", "ReceivedMail", "Request", "SmtpGateway", "certificate"]
