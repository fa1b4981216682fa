"""The local stack: Kafka, a schema registry and optional services, run as child processes from locked jars."""

from __future__ import annotations

from gearshift.stack.lifecycle import connect, describe, down, find, up
from gearshift.stack.services.optional import find_service
from gearshift.stack.stack import Stack

__all__ = ["Stack", "connect", "describe", "down", "find", "find_service", "up"]
