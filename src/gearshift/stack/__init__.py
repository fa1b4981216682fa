"""The stack: Kafka and a schema registry as child processes of whoever needs them, from locked jars."""

from __future__ import annotations

from gearshift.stack.lifecycle import connect, describe, down, find, up
from gearshift.stack.stack import Stack

__all__ = ["Stack", "connect", "describe", "down", "find", "up"]
