"""The gateways of `gearshift.testing`, and a certificate for those that speak TLS."""

from __future__ import annotations

from tests.gateways.certificate import certificate
from tests.gateways.http import Answer, HttpGateway, Request
from tests.gateways.smtp import ReceivedMail, SmtpGateway

__all__ = ["Answer", "HttpGateway", "ReceivedMail", "Request", "SmtpGateway", "certificate"]
