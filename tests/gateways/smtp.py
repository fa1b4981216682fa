"""The mail server of the library."""

from __future__ import annotations

from gearshift.testing.gateways.smtp import ReceivedMail, SmtpGateway

__all__ = ["ReceivedMail", "SmtpGateway"]
