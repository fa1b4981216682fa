"""Data pipelines written once in PySpark that run over Apache Kafka in three gears and shift between them live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gearshift.app import App
from gearshift.calendars import Interval
from gearshift.definitions import Delivery, Pipeline, Retry, Source, Table, Topic
from gearshift.errors import GearshiftError, PermanentError, RetriableError
from gearshift.freshness import Freshness, Gear
from gearshift.record import Destination, Record, Row

if TYPE_CHECKING:
    from gearshift import destinations
    from gearshift.schemas import DecimalOf
    from gearshift.stack import connect
    from gearshift.topics import Producer

__all__ = [
    "App",
    "DecimalOf",
    "Delivery",
    "Destination",
    "Freshness",
    "Gear",
    "GearshiftError",
    "Interval",
    "PermanentError",
    "Pipeline",
    "Producer",
    "Record",
    "RetriableError",
    "Retry",
    "Row",
    "Source",
    "Table",
    "Topic",
    "connect",
    "destinations",
]

_LATER = {"Producer": "gearshift.topics", "DecimalOf": "gearshift.schemas", "connect": "gearshift.stack"}


def __getattr__(name: str) -> Any:
    if name == "destinations":
        from importlib import import_module

        return import_module("gearshift.destinations")
    # The names that bring client libraries along are imported when asked for, so that `gearshift --help` is instant.
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(name)
