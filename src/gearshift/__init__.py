"""Data pipelines written once in PySpark that run over Apache Kafka in three gears and shift between them live."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gearshift import errors
from gearshift.alert import Alert
from gearshift.app import App
from gearshift.boards import Board, Candles, Feed, Leaderboard, Number, Panel, Series, TableView, Zones
from gearshift.calendars import Calendar, Interval
from gearshift.cron import Cron
from gearshift.definitions import (
    ChangeCapture,
    Delivery,
    FileSource,
    Graph,
    HttpSource,
    Intervals,
    Location,
    Notification,
    Pipeline,
    Retry,
    Source,
    Table,
    Topic,
)
from gearshift.errors import GearshiftError, PermanentError, RetriableError
from gearshift.freshness import Freshness, Gear
from gearshift.record import Change, Destination, Op, Record, Row

if TYPE_CHECKING:
    from gearshift import destinations
    from gearshift.connection import Connection
    from gearshift.schemas import Alias, DecimalOf, TimeOf
    from gearshift.stack import connect
    from gearshift.topics import Producer

    __version__: str

__all__ = [
    "Alert",
    "Alias",
    "App",
    "Board",
    "Calendar",
    "Candles",
    "Change",
    "ChangeCapture",
    "Connection",
    "Cron",
    "DecimalOf",
    "Delivery",
    "Destination",
    "Feed",
    "FileSource",
    "Freshness",
    "Gear",
    "GearshiftError",
    "Graph",
    "HttpSource",
    "Interval",
    "Intervals",
    "Leaderboard",
    "Location",
    "Notification",
    "Number",
    "Op",
    "Panel",
    "PermanentError",
    "Pipeline",
    "Producer",
    "Record",
    "RetriableError",
    "Retry",
    "Row",
    "Series",
    "Source",
    "Table",
    "TableView",
    "TimeOf",
    "Topic",
    "Zones",
    "__version__",
    "connect",
    "destinations",
    "errors",
]

_LAZY = {
    "Alias": "gearshift.schemas",
    "Connection": "gearshift.connection",
    "DecimalOf": "gearshift.schemas",
    "TimeOf": "gearshift.schemas",
    "Producer": "gearshift.topics",
    "connect": "gearshift.stack",
}


def __getattr__(name: str) -> Any:
    """Import what needs client libraries on first use, so that `gearshift --help` is instant."""
    if name == "__version__":
        return import_module("importlib.metadata").version("gearshift")
    if name == "destinations":
        return import_module("gearshift.destinations")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'gearshift' has no attribute {name!r}")
