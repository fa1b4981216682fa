"""Ports on loopback: chosen once, written down, and used again on the next start."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path
from typing import cast

from gearshift.errors import PortInUseError
from gearshift.stack.files import write_whole

HOST = "127.0.0.1"
# Below what Linux hands out to outgoing connections, so that none of those sits on a remembered port.
_RANGE = range(20_000, 30_000)


def is_free(port: int) -> bool:
    """Whether nobody listens on this port of loopback."""
    with socket.socket() as probe:
        # As a Java server does it: a connection that has just ended does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def remembered(file: Path) -> dict[str, int]:
    """The ports written down, by name."""
    try:
        return cast("dict[str, int]", json.loads(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return {}


def claim(names: list[str], *, file: Path) -> dict[str, int]:
    """A free port for each name: the remembered one if it is still free, otherwise another, written down."""
    known = remembered(file)
    claimed: dict[str, int] = {}
    for name in names:
        port = known.get(name)
        if port is None or not is_free(port):
            port = _choose(taken={*known.values(), *claimed.values()})
        claimed[name] = port
    write_whole(file, json.dumps({**known, **claimed}, indent=1) + "\n")
    return claimed


def _choose(*, taken: set[int]) -> int:
    for port in random.sample(_RANGE, 200):
        if port not in taken and is_free(port):
            return port
    raise PortInUseError(
        f"200 ports of {_RANGE.start}–{_RANGE.stop} were tried, and all are in use",
        hint="end what holds them",
    )
