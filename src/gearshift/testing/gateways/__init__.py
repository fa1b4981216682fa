"""Servers for messages, on this machine: an SMS provider or a receiver of webhooks over HTTP, and a mail server.

They check what real ones check (login, signature, idempotency key), and fail on command.
"""

from __future__ import annotations

from gearshift.testing.gateways.http import Answer, HttpGateway, Request
from gearshift.testing.gateways.smtp import ReceivedMail, SmtpGateway

__all__ = ["Answer", "HttpGateway", "ReceivedMail", "Request", "SmtpGateway"]
