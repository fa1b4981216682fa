"""A pytest plugin that tests pipelines and deliveries: on static frames, or on real Kafka and Spark in every gear.

The fixtures are in `gearshift.testing.plugin`, which pytest finds by itself once Gearshift is installed. The names here
are the types of what they give, for annotations.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gearshift.testing.clock import Clock
    from gearshift.testing.delivering import Deliver, Delivered
    from gearshift.testing.destination import FakeDestination
    from gearshift.testing.gateways import HttpGateway, SmtpGateway
    from gearshift.testing.results import Results
    from gearshift.testing.running import Run
    from gearshift.testing.transforming import Transform

__all__ = [
    "Clock",
    "Deliver",
    "Delivered",
    "FakeDestination",
    "HttpGateway",
    "Results",
    "Run",
    "SmtpGateway",
    "Transform",
]

_LAZY = {
    "Clock": "gearshift.testing.clock",
    "Deliver": "gearshift.testing.delivering",
    "Delivered": "gearshift.testing.delivering",
    "FakeDestination": "gearshift.testing.destination",
    "HttpGateway": "gearshift.testing.gateways",
    "Results": "gearshift.testing.results",
    "Run": "gearshift.testing.running",
    "SmtpGateway": "gearshift.testing.gateways",
    "Transform": "gearshift.testing.transforming",
}


def __getattr__(name: str) -> Any:
    """Import what needs client libraries on first use: pytest loads the plugin in every run."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'gearshift.testing' has no attribute {name!r}")
