"""The stack: Kafka, a schema registry and what else is asked for, as child processes of whoever needs them, from locked jars."""

from __future__ import annotations

from gearshift.stack.lifecycle import connect, describe, down, find, up
from gearshift.stack.stack import Stack
from gearshift.stack.stores import find_service

__all__ = ["Stack", "connect", "describe", "down", "find", "find_service", "up"]
