"""The HTTP gateway of the library, and its handler for gateways that misbehave further."""

from __future__ import annotations

from gearshift.testing.gateways.http import Answer, HttpGateway, Request
from gearshift.testing.gateways.http import HttpHandler as _Http

__all__ = ["Answer", "HttpGateway", "Request", "_Http"]
