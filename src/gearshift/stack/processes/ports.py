"""Loopback ports: chosen once, saved to a file, and reused on the next start."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path
from typing import cast

from gearshift.errors import PortInUseError
from gearshift.storage.shared_files import write_whole

HOST = "127.0.0.1"
# Below Linux's ephemeral range, so that no outgoing connection occupies a saved port.
_RANGE = range(20_000, 30_000)


def is_free(port: int) -> bool:
    """Whether no process listens on this loopback port."""
    with socket.socket() as probe:
        # As Java servers do: a connection in TIME_WAIT does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def saved(file: Path) -> dict[str, int]:
    """The saved ports, by name."""
    try:
        return cast("dict[str, int]", json.loads(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return {}


def claim(names: list[str], *, file: Path) -> dict[str, int]:
    """A free port for each name: the saved one if it is still free, otherwise a new one, which is saved."""
    known = saved(file)
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
        f"no free port found: 200 ports in {_RANGE.start}–{_RANGE.stop} are all in use",
        hint="stop the programs that use them",
    )
